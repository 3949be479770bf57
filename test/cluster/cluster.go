// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// dirPattern is what the directories of clusters are called.
const dirPattern = "nodegate-cluster-"

// Cluster is a running control plane. Components that were not asked for are nil.
type Cluster struct {
	Etcd, APIServer, ControllerManager, Scheduler, Kwok *Component

	// Client and Clientset may do everything. They read past any cache.
	Client    client.WithWatch
	Clientset kubernetes.Interface
	// Operator is the operator that the tests are about; nil if there is none.
	Operator *Operator

	assets string
	dir    string // of the cluster's files, temporary
	guard  *guard
	ca     *ca
	// address is what the API server listens on, and url how to reach it there.
	address, url string
	admin        *rest.Config
	audit        bool
	log          io.Writer

	building sync.Mutex // held while a command is built

	mu      sync.Mutex
	started []*Component // in this order; Stop goes backwards
	stop    func() error
}

// Start starts a control plane and waits until it can be worked with: all components are healthy, the system's
// namespaces are there and, with a controller manager, so is the default service account. ctx bounds the start
// and not what was started: call Stop.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	c := &Cluster{assets: o.Assets, address: o.Address, audit: o.AuditPolicy != "", log: o.Log}
	if c.address == "" {
		c.address = loopback
	}
	if c.log == nil {
		c.log = io.Discard
	}
	if err := c.prepare(ctx, o); err != nil {
		return nil, err
	}
	c.stop = sync.OnceValue(c.tearDown)
	if err := c.start(ctx, o); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// prepare makes all that does not run.
func (c *Cluster) prepare(ctx context.Context, o Options) error {
	if err := takeSlot(); err != nil {
		return err
	}
	if c.assets == "" {
		progress := o.Log
		if progress == nil {
			progress = os.Stderr
		}
		var err error
		if c.assets, err = Assets(ctx, progress); err != nil {
			return err
		}
	}
	var err error
	if c.assets, err = filepath.Abs(c.assets); err != nil {
		return err
	}
	if c.dir, err = os.MkdirTemp("", dirPattern); err != nil {
		return err
	}
	if c.guard, err = newGuard(c.dir); err != nil {
		return errors.Join(err, os.RemoveAll(c.dir))
	}
	if err := c.fillDir(o); err != nil {
		return errors.Join(fmt.Errorf("preparing %s: %w", c.dir, err), c.guard.close())
	}
	return nil
}

func (c *Cluster) fillDir(o Options) error {
	if err := os.MkdirAll(filepath.Join(c.dir, "logs"), 0o700); err != nil {
		return err
	}
	var err error
	if c.ca, err = newCA(); err != nil {
		return err
	}
	_, services, err := net.ParseCIDR(serviceCIDR)
	if err != nil {
		return err
	}
	first := services.IP.To4()
	first[3]++
	if err := c.ca.writePKI(filepath.Join(c.dir, "pki"), first, net.ParseIP(c.address)); err != nil {
		return err
	}
	if c.audit {
		policy := filepath.Join(c.dir, "audit-policy.yaml")
		if err := os.WriteFile(policy, []byte(o.AuditPolicy), 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) start(ctx context.Context, o Options) error {
	began := time.Now()
	c.say("starting a control plane in %s", c.dir)
	if !o.ControllerManager {
		o.APIServerArgs = append([]string{"--disable-admission-plugins=ServiceAccount"}, o.APIServerArgs...)
	}
	chosen, err := c.startAPI(ctx, o)
	if err != nil {
		return err
	}
	if o.ControllerManager {
		if c.ControllerManager, err = c.newControllerManager(chosen[1], o.ControllerManagerArgs); err != nil {
			return err
		}
	}
	if o.Scheduler {
		if c.Scheduler, err = c.newScheduler(chosen[2]); err != nil {
			return err
		}
	}
	if o.Kwok {
		if c.Kwok, err = c.newKwok(chosen[3]); err != nil {
			return err
		}
	}
	clients, ctx := errgroup.WithContext(ctx)
	for _, component := range []*Component{c.ControllerManager, c.Scheduler, c.Kwok} {
		if component != nil {
			clients.Go(func() error { return c.startComponent(ctx, component) })
		}
	}
	clients.Go(func() error { return c.waitForDefaults(ctx, o.ControllerManager) })
	if o.CRD {
		clients.Go(func() error { return c.installCRD(ctx) })
	}
	if err := clients.Wait(); err != nil {
		return err
	}
	c.say("the control plane is up after %s", time.Since(began).Round(100*time.Millisecond))
	return nil
}

// startAPI starts etcd and the API server, and returns the ports: the API server's and those of the others.
func (c *Cluster) startAPI(ctx context.Context, o Options) (chosen []int, err error) {
	// Together, for the API server needs some time of its own before it asks etcd for anything. When one of
	// them fails the other is not waited for.
	both, ctx := errgroup.WithContext(ctx)
	c.Etcd = c.newEtcd()
	both.Go(func() error { return c.startComponent(ctx, c.Etcd) })
	both.Go(func() error {
		// Another process may take a port between the look and the start: then others are tried.
		for attempt := 1; ; attempt++ {
			if chosen, err = TakePorts(4); err != nil {
				return err
			}
			err := c.startAPIServer(ctx, chosen[0], o.APIServerArgs)
			if err == nil || attempt == 3 || !strings.Contains(err.Error(), "address already in use") {
				return err
			}
		}
	})
	return chosen, both.Wait()
}

func (c *Cluster) startAPIServer(ctx context.Context, port int, extra []string) error {
	c.url = fmt.Sprintf("https://%s:%d", c.address, port)
	var err error
	if c.admin, err = c.ConfigFor(adminUser, adminGroup); err != nil {
		return err
	}
	if err := WriteKubeconfig(c.Kubeconfig(), c.admin); err != nil {
		return err
	}
	if err := c.connect(); err != nil {
		return err
	}
	if c.APIServer, err = c.newAPIServer(port, extra); err != nil {
		return err
	}
	return c.startComponent(ctx, c.APIServer)
}

// waitForDefaults waits for what others make asynchronously and whose absence refuses a first pod or node.
func (c *Cluster) waitForDefaults(ctx context.Context, serviceAccount bool) error {
	core := c.Clientset.CoreV1()
	err := Poll(ctx, readyLimit, func() error {
		_, err := core.Namespaces().Get(ctx, "default", metav1.GetOptions{})
		if err == nil {
			_, err = core.Namespaces().Get(ctx, "kube-node-lease", metav1.GetOptions{})
		}
		if err == nil && serviceAccount {
			_, err = core.ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("waiting for the default namespaces and service account: %w", err)
	}
	return nil
}

func (c *Cluster) startComponent(ctx context.Context, component *Component) error {
	c.mu.Lock()
	c.started = append(c.started, component)
	c.mu.Unlock()
	began := time.Now()
	if err := component.Start(ctx); err != nil {
		return err
	}
	c.say("%s is ready after %s", component.process.Name, time.Since(began).Round(10*time.Millisecond))
	return nil
}

// Run starts a process as a part of the cluster, such as the operator: it logs to the cluster's directory, ends
// with it, and never outlives this process.
func (c *Cluster) Run(ctx context.Context, p Process) (*Component, error) {
	component := c.component(p)
	component.endWithCluster = component.Stop
	if err := c.startComponent(ctx, component); err != nil {
		return nil, err
	}
	return component, nil
}

// Stop ends all processes of the cluster and removes its directory. It may be called more than once.
func (c *Cluster) Stop() error { return c.stop() }

func (c *Cluster) tearDown() error {
	c.mu.Lock()
	started := c.started
	c.mu.Unlock()
	var errs []error
	for _, component := range slices.Backward(started) {
		errs = append(errs, component.endWithCluster())
	}
	errs = append(errs, c.guard.close())
	c.say("the control plane is stopped")
	return errors.Join(errs...)
}

// Dir is the directory of the cluster's files; logs are in its subdirectory logs.
func (c *Cluster) Dir() string { return c.dir }

// Assets is the directory of the binaries, kubectl among them.
func (c *Cluster) Assets() string { return c.assets }

// AuditLog is the file to which the API server writes what Options.AuditPolicy says.
func (c *Cluster) AuditLog() string { return filepath.Join(c.dir, "logs", "audit.log") }

func (c *Cluster) say(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = fmt.Fprintf(c.log, format+"\n", args...)
}
