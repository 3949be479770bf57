// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/nodegate/nodegate/test/cluster"
)

// startOperator builds the operator into the cluster's directory, which goes with the cluster, and starts it there.
func (s *Stage) startOperator(ctx context.Context, log io.Writer) error {
	began := time.Now()
	fmt.Fprintln(log, "building the operator")
	s.Binary = filepath.Join(s.Dir(), "manager")
	if err := buildManager(ctx, s.Root, s.Binary); err != nil {
		return err
	}
	fmt.Fprintf(log, "the operator is built after %s\n", time.Since(began).Round(10*time.Millisecond))
	kubeconfig, err := s.authorize(ctx)
	if err != nil {
		return err
	}
	if err := s.installAdmission(ctx); err != nil {
		return fmt.Errorf("installing admission: %w", err)
	}
	for range 3 { // another process may take a port between the look and the start
		if err = s.runManager(ctx, kubeconfig); err == nil || !strings.Contains(err.Error(), "address already in use") {
			break
		}
	}
	return err
}

// user is who the operator is.
const user = "system:serviceaccount:nodegate-system:nodegate-manager"

// installAdmission installs the policies, and what the webhooks need beside their configurations.
func (s *Stage) installAdmission(ctx context.Context) error {
	if s.options.Policies {
		_, err := s.ApplyConfig(ctx, nil, cluster.NodeAdmissionPolicy, cluster.RecordGuard)
		if err != nil {
			return err
		}
	}
	if !s.options.Webhooks {
		return nil
	}
	_, err := s.ApplyConfig(ctx, nil, cluster.WebhookAccess...)
	return err
}

// registerWebhooks lets the API server call the operator on this machine; the operator says whom to trust.
func (s *Stage) registerWebhooks(ctx context.Context, port string) error {
	_, err := s.ApplyConfig(ctx, cluster.Local("https://localhost:"+port, nil), cluster.MutatingWebhooks, cluster.ValidatingWebhooks)
	if err != nil {
		return fmt.Errorf("registering webhooks: %w", err)
	}
	return nil
}

// authorize gives the operator's service account the rights that an installation gives it, and no others. It returns a
// kubeconfig of that account.
func (s *Stage) authorize(ctx context.Context) (string, error) {
	if _, err := s.ApplyConfig(ctx, nil, "manager/namespace.yaml", "rbac/service_account.yaml", "rbac/role.yaml", "rbac/role_binding.yaml"); err != nil {
		return "", err
	}
	kubeconfig, err := s.KubeconfigFor(user, "system:serviceaccounts", "system:serviceaccounts:nodegate-system")
	if err != nil {
		return "", fmt.Errorf("making the operator's kubeconfig: %w", err)
	}
	return kubeconfig, nil
}

// buildManager builds as the Makefile does, so that both share Go's build cache.
func buildManager(ctx context.Context, root, binary string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd/manager")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	// An interrupt from a terminal goes to the whole group: this one is ended by its context.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("building the operator: %w\n%s", err, output.String())
	}
	return nil
}

func (s *Stage) runManager(ctx context.Context, kubeconfig string) error {
	metrics, err := cluster.FreeAddress()
	if err != nil {
		return err
	}
	probes, err := cluster.FreeAddress()
	if err != nil {
		return err
	}
	s.MetricsURL = "http://" + metrics + "/metrics"
	s.ReadyURL = "http://" + probes + "/readyz"
	args := []string{
		"--kubeconfig=" + kubeconfig, "--leader-elect=false", "--agent-config=nodegate-system/nodegate-agent-config",
		"--metrics-bind-address=" + metrics, "--metrics-secure=false", "--health-probe-bind-address=" + probes,
	}
	if s.options.Webhooks {
		webhooks, err := cluster.FreeAddress()
		if err != nil {
			return err
		}
		_, port, err := net.SplitHostPort(webhooks)
		if err != nil {
			return err
		}
		if err := s.registerWebhooks(ctx, port); err != nil {
			return err
		}
		args = append(args, "--enable-webhook", "--webhook-bind-address="+webhooks)
	}
	s.Operator, err = s.Run(ctx, cluster.Process{
		Name:  "nodegate",
		Path:  s.Binary,
		Args:  append(args, s.options.Args...),
		Ready: func(ctx context.Context) error { return Get(ctx, s.ReadyURL) },
	})
	if err != nil {
		return fmt.Errorf("running the operator: %w", err)
	}
	return nil
}

// Get asks a URL, and fails for every answer but 200.
func Get(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	return nil
}

// Log is the operator's log, without what it says each time that it is asked whether it is ready and is not.
func (s *Stage) Log() []string {
	text, err := os.ReadFile(s.Operator.LogFile())
	if err != nil {
		return []string{err.Error()}
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return slices.DeleteFunc(lines, func(line string) bool { return strings.Contains(line, "healthz check failed") })
}

// LogTail is the end of the operator's log.
func (s *Stage) LogTail() string {
	const most = 15
	lines := s.Log()
	return strings.Join(lines[max(0, len(lines)-most):], "\n")
}
