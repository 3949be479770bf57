// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	probeInterval = 25 * time.Millisecond
	// stopGrace is how long a component may take to end in order before it is killed.
	stopGrace = time.Minute
	// readyLimit bounds the wait for a component also where the caller's context has no deadline.
	readyLimit = 5 * time.Minute
	// quotedLines is how much of its log an error quotes when a component died.
	quotedLines = 10
)

// Process says what Cluster.Run runs.
type Process struct {
	// Name names it in errors, and its log file.
	Name string
	// Path is the executable; Args follow its name. Its working directory is that of the cluster, and there go its
	// temporary files.
	Path string
	Args []string
	// Env is added to the environment of this process.
	Env []string
	// Ready, if set, is asked again and again until it returns nil; only then has the process started.
	Ready func(ctx context.Context) error
}

// Component is one process of the cluster. It can be stopped and started again, for outages. Its methods may be
// called from several goroutines.
type Component struct {
	process Process
	dir     string
	log     string
	guard   *guard

	// endWithCluster is Kill for the control plane, which has nothing to save, and Stop for the processes of
	// Cluster.Run, of which a test may want to see how they end.
	endWithCluster func() error

	mu     sync.Mutex
	cmd    *exec.Cmd     // nil before the first start
	exited chan struct{} // closed when cmd has ended
	err    error         // of cmd.Wait; valid once exited is closed
}

func newComponent(p Process, dir, log string, g *guard) *Component {
	c := &Component{process: p, dir: dir, log: log, guard: g}
	c.endWithCluster = c.Kill
	return c
}

// NewProcess returns a process without a cluster, which is to be started. It logs to a file in dir, its working
// directory, and never outlives this process.
func NewProcess(dir string, p Process) (*Component, error) {
	g, err := newGuard("")
	if err != nil {
		return nil, err
	}
	return newComponent(p, dir, filepath.Join(dir, p.Name+".log"), g), nil
}

// Start starts the component with the arguments it had before and waits until it is ready, or until ctx ends.
func (c *Component) Start(ctx context.Context) error {
	if err := c.fork(); err != nil {
		return fmt.Errorf("starting %s: %w", c.process.Name, err)
	}
	if err := c.waitReady(ctx); err != nil {
		_ = c.Kill()
		return fmt.Errorf("starting %s: %w%s", c.process.Name, err, c.quote())
	}
	return nil
}

func (c *Component) fork() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running() {
		return errors.New("it is running")
	}
	log, err := os.OpenFile(c.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(c.process.Path, c.process.Args...)
	cmd.Dir = c.dir
	// Temporary files go with the cluster, also those of a process that is killed.
	cmd.Env = append(append(os.Environ(), "TMPDIR="+c.dir), c.process.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := c.guard.start(cmd); err != nil {
		return err
	}
	exited := make(chan struct{})
	c.cmd, c.exited, c.err = cmd, exited, nil
	go func() {
		err := cmd.Wait()
		c.guard.forget(cmd.Process)
		c.mu.Lock()
		c.err = err
		c.mu.Unlock()
		close(exited)
	}()
	return nil
}

func (c *Component) waitReady(ctx context.Context) error {
	if c.process.Ready == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	exited := c.Exited()
	var last error
	for {
		// A probe that hangs must not outlast the process it asks.
		probe, cancel := context.WithTimeout(ctx, 2*time.Second)
		last = c.process.Ready(probe)
		cancel()
		if last == nil {
			return nil
		}
		select {
		case <-exited:
			c.mu.Lock()
			defer c.mu.Unlock()
			return fmt.Errorf("it ended: %w", c.err)
		case <-ctx.Done():
			return fmt.Errorf("it is not ready (%w): %w", last, ctx.Err())
		case <-time.After(probeInterval):
		}
	}
}

// Stop ends the component in order, and kills it if it takes too long.
func (c *Component) Stop() error { return c.end(syscall.SIGTERM) }

// Kill ends the component at once with SIGKILL.
func (c *Component) Kill() error { return c.end(syscall.SIGKILL) }

func (c *Component) end(sig syscall.Signal) error {
	if err := c.signal(sig); err != nil {
		return fmt.Errorf("stopping %s: %w", c.process.Name, err)
	}
	// A paused process sees no other signal than SIGKILL before it is resumed.
	if err := c.signal(syscall.SIGCONT); err != nil {
		return fmt.Errorf("stopping %s: %w", c.process.Name, err)
	}
	select {
	case <-c.Exited():
		return nil
	case <-time.After(stopGrace):
	}
	if err := c.signal(syscall.SIGKILL); err != nil {
		return fmt.Errorf("killing %s: %w", c.process.Name, err)
	}
	<-c.Exited()
	return nil
}

// Pause freezes the component (SIGSTOP): it keeps its connections and, once this returns, answers nothing.
func (c *Component) Pause() error {
	if err := c.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	// The signal is sent at once, but threads that run stop a moment later and may still answer.
	pid := c.PID()
	if pid == 0 {
		return fmt.Errorf("pausing %s: it does not run", c.process.Name)
	}
	if err := waitStopped(pid); err != nil {
		return fmt.Errorf("pausing %s: %w", c.process.Name, err)
	}
	return nil
}

// Resume ends a Pause (SIGCONT).
func (c *Component) Resume() error { return c.signal(syscall.SIGCONT) }

// signal does nothing to a component that does not run.
func (c *Component) signal(sig syscall.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.running() {
		return nil
	}
	// os.Process never signals a PID that it has waited for, so this cannot hit another process.
	if err := c.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("sending %s to %s: %w", sig, c.process.Name, err)
	}
	return nil
}

// Exited returns a channel that is closed when the process has ended, for any reason. Before the first Start
// it is closed, and each Start makes another one.
func (c *Component) Exited() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cmd == nil {
		ended := make(chan struct{})
		close(ended)
		return ended
	}
	return c.exited
}

// Err waits until the process has ended, and returns nil if its exit status was 0.
func (c *Component) Err() error {
	<-c.Exited()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// PID is the process's, or 0 if it does not run.
func (c *Component) PID() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.running() {
		return 0
	}
	return c.cmd.Process.Pid
}

// quote returns the end of the log for an error.
func (c *Component) quote() string {
	tail := c.LogTail(quotedLines)
	if tail == "" {
		return ""
	}
	return fmt.Sprintf("\nthe end of %s:\n  %s", c.log, strings.ReplaceAll(tail, "\n", "\n  "))
}

// LogFile is where the component's stdout and stderr go, those of all its starts.
func (c *Component) LogFile() string { return c.log }

// running is called with the lock held.
func (c *Component) running() bool {
	if c.cmd == nil {
		return false
	}
	select {
	case <-c.exited:
		return false
	default:
		return true
	}
}

// Log returns the lines of the component's log, without those that only say that a probe of it has failed.
func (c *Component) Log() []string {
	text, err := os.ReadFile(c.log)
	if err != nil {
		return []string{err.Error()}
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return slices.DeleteFunc(lines, func(line string) bool {
		return line == "" ||
			strings.Contains(line, "healthz check failed")
	})
}

// LogTail returns the last lines of Log.
func (c *Component) LogTail(most int) string {
	lines := c.Log()
	return strings.Join(lines[max(0, len(lines)-most):], "\n")
}
