// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strings"
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
func (c *Cluster) Kubeconfig() string { return filepath.Join(c.dir.path, "admin.kubeconfig") }

// CAFile is the path of the certificate of the cluster's authority.
func (c *Cluster) CAFile() string { return filepath.Join(c.dir.path, "pki", "ca.crt") }

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
	// The name must be good for a file and differ where the groups do.
	sum := sha256.Sum256([]byte(strings.Join(append([]string{user}, groups...), "\x00")))
	name := strings.NewReplacer(":", "-", "/", "-").Replace(user) + "-" + hex.EncodeToString(sum[:])[:8]
	return c.writeKubeconfig(filepath.Join(c.dir.path, name+".kubeconfig"), user, groups...)
}

func (c *Cluster) writeKubeconfig(path, user string, groups ...string) (string, error) {
	config, err := c.ConfigFor(user, groups...)
	if err != nil {
		return "", err
	}
	const name = "localcluster"
	file := clientcmdapi.Config{
		CurrentContext: name,
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: user}},
		Clusters: map[string]*clientcmdapi.Cluster{
			name: {Server: config.Host, CertificateAuthorityData: config.CAData},
		},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{
			user: {ClientCertificateData: config.CertData, ClientKeyData: config.KeyData},
		},
	}
	if err := clientcmd.WriteToFile(file, path); err != nil {
		return "", fmt.Errorf("writing the kubeconfig of %q: %w", user, err)
	}
	return path, nil
}

// Kubeconfig writes a kubeconfig file for a server until the test ends, and returns its path. Without ca, clients
// accept any certificate. token may be empty.
func Kubeconfig(t testing.TB, server string, ca []byte, token string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	Must(t, clientcmd.WriteToFile(clientcmdapi.Config{
		CurrentContext: "c",
		Contexts:       map[string]*clientcmdapi.Context{"c": {Cluster: "c", AuthInfo: "u"}},
		Clusters: map[string]*clientcmdapi.Cluster{
			"c": {Server: server, CertificateAuthorityData: ca, InsecureSkipTLSVerify: ca == nil}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"u": {Token: token}},
	}, path))
	return path
}
