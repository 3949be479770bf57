// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strconv"

	"k8s.io/client-go/rest"
)

// serviceCIDR is where ClusterIPs are taken from; the API server has the first.
const serviceCIDR = "10.96.0.0/16"

// loopback is what everything but the API server listens on, and that too, unless asked for another address.
const loopback = "127.0.0.1"

// etcd's sockets are named relative to the cluster's directory, in which all components run: an absolute path
// could be longer than a socket's may be. In a directory that only its user can enter they are also safer than
// a port, because etcd authenticates no client.
const (
	etcdSocket     = "etcd:0"
	etcdPeerSocket = "etcd:1"
)

func (c *Cluster) newEtcd() *Component {
	client, peer := "unix://"+etcdSocket, "unix://"+etcdPeerSocket
	return c.component(Process{
		Name: "etcd",
		Path: c.binary("etcd"),
		Args: []string{
			"--data-dir=etcd",
			"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
			"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=default=" + peer,
			"--unsafe-no-fsync", // nothing of it has to survive a crash of the machine
			// A lone member waits for the election timeout before it elects itself.
			"--heartbeat-interval=20", "--election-timeout=200",
			"--log-level=warn",
		},
		Ready: Probe(&http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(c.dir, etcdSocket))
		}}, "http://etcd/health"),
	})
}

func (c *Cluster) newAPIServer(port int, extra []string) (*Component, error) {
	transport, err := rest.TransportFor(c.admin)
	if err != nil {
		return nil, err
	}
	args := []string{
		"--etcd-servers=unix://" + etcdSocket,
		"--bind-address=" + c.address, "--advertise-address=" + c.address, "--secure-port=" + strconv.Itoa(port),
		"--tls-cert-file=pki/server.crt", "--tls-private-key-file=pki/server.key", "--client-ca-file=pki/ca.crt",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=pki/sa.key", "--service-account-signing-key-file=pki/sa.key",
		"--service-cluster-ip-range=" + serviceCIDR,
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--allow-privileged=true",
		// Else an open watch delays the end of the server by a minute.
		"--shutdown-watch-termination-grace-period=100ms",
		"--profiling=false",
	}
	if c.address == loopback {
		args = append(args, "--endpoint-reconciler-type=none") // an endpoint must not be on loopback
	}
	if c.audit {
		args = append(args, "--audit-policy-file=audit-policy.yaml", "--audit-log-path="+c.AuditLog(),
			// No rotation, and each request waits for its line: a reader of the file misses nothing.
			"--audit-log-maxsize=0", "--audit-log-mode=blocking")
	}
	return c.component(Process{
		Name:  "kube-apiserver",
		Path:  c.binary("kube-apiserver"),
		Args:  append(args, extra...),
		Ready: Probe(transport, c.url+"/readyz"),
	}), nil
}

func (c *Cluster) newControllerManager(port int, extra []string) (*Component, error) {
	args, err := c.clientArgs("system:kube-controller-manager", port)
	if err != nil {
		return nil, err
	}
	args = append(args,
		"--use-service-account-credentials", // the controllers have the names they have in a real cluster
		"--root-ca-file=pki/ca.crt", "--service-account-private-key-file=pki/sa.key",
		"--cluster-signing-cert-file=pki/ca.crt", "--cluster-signing-key-file=pki/ca.key",
		// Each controller asks for its token first: with the default of 20 a second that alone takes four seconds.
		"--kube-api-qps=200", "--kube-api-burst=400",
	)
	return c.component(Process{
		Name: "kube-controller-manager", Path: c.binary("kube-controller-manager"),
		Args: append(args, extra...), Ready: c.healthz(port),
	}), nil
}

func (c *Cluster) newScheduler(port int) (*Component, error) {
	args, err := c.clientArgs("system:kube-scheduler", port)
	if err != nil {
		return nil, err
	}
	return c.component(Process{
		Name: "kube-scheduler", Path: c.binary("kube-scheduler"), Args: args, Ready: c.healthz(port),
	}), nil
}

// clientArgs are what controller manager and scheduler have in common.
func (c *Cluster) clientArgs(user string, port int) ([]string, error) {
	kubeconfig, err := c.KubeconfigFor(user)
	if err != nil {
		return nil, err
	}
	return []string{
		"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=" + loopback, "--secure-port=" + strconv.Itoa(port),
		"--tls-cert-file=pki/server.crt", "--tls-private-key-file=pki/server.key",
		"--leader-elect=false", // it would only delay the start: there is one of each
		"--profiling=false",
	}, nil
}

// healthz asks a component on a loopback port that shows the cluster's certificate.
func (c *Cluster) healthz(port int) func(context.Context) error {
	roots := x509.NewCertPool()
	roots.AddCert(c.ca.cert)
	return Probe(&http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}},
		fmt.Sprintf("https://127.0.0.1:%d/healthz", port))
}

// Probe returns a function that asks the URL for a 200. A nil transport is the default one.
func Probe(transport http.RoundTripper, url string) func(context.Context) error {
	client := &http.Client{Transport: transport}
	return func(ctx context.Context) error {
		status, body, err := GetWith(ctx, client, url, "")
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("%s: %d: %s", url, status, body)
		}
		return err
	}
}

func (c *Cluster) binary(name string) string { return filepath.Join(c.assets, name) }

func (c *Cluster) component(p Process) *Component {
	return newComponent(p, c.dir, filepath.Join(c.dir, "logs", p.Name+".log"), c.guard)
}
