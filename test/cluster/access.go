// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const (
	adminUser  = "localcluster-admin"
	adminGroup = "system:masters"
)

// Config is the way in of an administrator, who may do everything. The client's own rate limit is off.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.admin) }

// Kubeconfig is the path of a kubeconfig file of the same administrator.
func (c *Cluster) Kubeconfig() string { return filepath.Join(c.dir, "admin.kubeconfig") }

// CAFile is the path of the certificate of the cluster's authority.
func (c *Cluster) CAFile() string { return filepath.Join(c.dir, "pki", "ca.crt") }

// ConfigFor is the way in of a user, member of the groups, by a client certificate of the cluster's CA. With
// "system:node:x" and "system:nodes" it is that of the kubelet of node x; with
// "system:serviceaccount:NS:NAME" and "system:serviceaccounts" it may do what the service account may.
func (c *Cluster) ConfigFor(user string, groups ...string) (*rest.Config, error) {
	pair, err := c.ca.client(user, groups...)
	if err != nil {
		return nil, err
	}
	return &rest.Config{
		Host:  c.url,
		QPS:   -1, // a client that holds itself back would be measured instead of the server
		Burst: -1,

		WarningHandler: rest.NoWarnings{}, // tests apply old and odd objects
		TLSClientConfig: rest.TLSClientConfig{
			CAData: c.ca.certPEM, CertData: pair.cert, KeyData: pair.key,
		},
	}, nil
}

// KubeconfigFor writes a kubeconfig file for what ConfigFor returns, and returns its path.
func (c *Cluster) KubeconfigFor(user string, groups ...string) (string, error) {
	config, err := c.ConfigFor(user, groups...)
	if err != nil {
		return "", err
	}
	f, err := os.CreateTemp(c.dir, "*.kubeconfig")
	if err != nil {
		return "", err
	}
	return f.Name(), errors.Join(f.Close(), WriteKubeconfig(f.Name(), config))
}

// WriteKubeconfig writes a kubeconfig file with the server and the credentials of a configuration.
func WriteKubeconfig(path string, config *rest.Config) error {
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		CurrentContext: "c",
		Contexts:       map[string]*clientcmdapi.Context{"c": {Cluster: "c", AuthInfo: "u"}},
		Clusters: map[string]*clientcmdapi.Cluster{"c": {
			Server: config.Host, CertificateAuthorityData: config.CAData, InsecureSkipTLSVerify: config.Insecure,
		}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"u": {
			ClientCertificateData: config.CertData, ClientKeyData: config.KeyData, Token: config.BearerToken,
		}},
	}, path)
	if err != nil {
		return fmt.Errorf("writing a kubeconfig: %w", err)
	}
	return nil
}

// Kubeconfig writes a kubeconfig file for a server until the test ends, and returns its path. Without ca, clients
// accept any certificate. token may be empty.
func Kubeconfig(t testing.TB, server string, ca []byte, token string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	tls := rest.TLSClientConfig{CAData: ca, Insecure: ca == nil}
	Must(t, WriteKubeconfig(path, &rest.Config{Host: server, BearerToken: token, TLSClientConfig: tls}))
	return path
}
