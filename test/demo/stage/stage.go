// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/config/crd"
	"github.com/nodegate/nodegate/test/cluster"
)

// Stage is a running cluster with a running operator.
type Stage struct {
	*cluster.Cluster
	// Client may do everything.
	Client client.Client
	// Clientset too.
	Clientset kubernetes.Interface
	// Operator is the operator's process.
	Operator *cluster.Component
	// Root is the directory of the checkout.
	Root string
	// MetricsURL is where the operator tells its metrics, to everybody on this machine.
	MetricsURL string
	// ReadyURL is where it says whether it is ready.
	ReadyURL string
	// Binary is its executable.
	Binary string

	options Options
}

// Options say what more there is.
type Options struct {
	// Webhooks serves the webhooks, and registers them with the API server.
	Webhooks bool
	// Policies installs the admission policies.
	Policies bool
	// Args are more arguments for the operator.
	Args []string
	// ControllerManagerArgs are more arguments for the controller manager.
	ControllerManagerArgs []string
	// AuditPolicy has the API server keep a log, as cluster.Options says.
	AuditPolicy string
}

// Start starts everything, with webhooks. Steps are told on log, those of the cluster too. ctx bounds the start; Stop ends what was
// started.
func Start(ctx context.Context, log io.Writer) (*Stage, error) {
	return StartWith(ctx, log, Options{Webhooks: true})
}

// StartWith starts everything, and more.
func StartWith(ctx context.Context, log io.Writer, o Options) (*Stage, error) {
	root, err := findRoot()
	if err != nil {
		return nil, err
	}
	cluster, err := cluster.Start(ctx, cluster.Options{
		Assets:            os.Getenv("KUBEBUILDER_ASSETS"),
		ControllerManager: true, Scheduler: true, Kwok: true, Log: log,
		ControllerManagerArgs: o.ControllerManagerArgs, AuditPolicy: o.AuditPolicy,
	})
	if err != nil {
		return nil, err
	}
	s := &Stage{Cluster: cluster, Root: root, options: o}
	if err := s.start(ctx, log); err != nil {
		return nil, errors.Join(err, cluster.Stop())
	}
	return s, nil
}

func (s *Stage) start(ctx context.Context, log io.Writer) error {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	var err error
	if s.Client, err = client.New(s.Config(), client.Options{Scheme: scheme}); err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	if s.Clientset, err = kubernetes.NewForConfig(s.Config()); err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	if err := s.installCRD(ctx); err != nil {
		return err
	}
	return s.startOperator(ctx, log)
}

// installCRD creates the CustomResourceDefinition and waits until it is served.
func (s *Stage) installCRD(ctx context.Context) error {
	definition, err := crd.Load()
	if err != nil {
		return err
	}
	if err := s.Client.Create(ctx, definition); err != nil {
		return fmt.Errorf("creating the CustomResourceDefinition: %w", err)
	}
	return poll(ctx, 2*time.Minute, func() error {
		if err := s.Client.Get(ctx, client.ObjectKeyFromObject(definition), definition); err != nil {
			return err
		}
		for _, c := range definition.Status.Conditions {
			if c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue {
				return nil
			}
		}
		return errors.New("the CustomResourceDefinition is not established")
	})
}

// poll repeats a check until it returns nil, and returns its last error when time is up.
func poll(ctx context.Context, limit time.Duration, check func() error) error {
	deadline := time.After(limit)
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (%w)", ctx.Err(), err)
		case <-deadline:
			return fmt.Errorf("not within %s: %w", limit, err)
		case <-time.After(25 * time.Millisecond):
		}
	}
}

// findRoot finds the checkout: the working directory or one above it.
func findRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "cmd", "manager", "main.go")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("run this in a checkout of Nodegate: there is no cmd/manager in the working directory or above it")
		}
		dir = parent
	}
}
