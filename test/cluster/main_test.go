// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

const (
	// ownerEnv makes the test binary start a cluster, print what runs and wait to be killed.
	ownerEnv = "LOCALCLUSTER_TEST_OWNER"
	// reservePortEnv makes it try to reserve this port.
	reservePortEnv = "LOCALCLUSTER_TEST_PORT"
)

func TestMain(m *testing.M) {
	if port, err := strconv.Atoi(os.Getenv(reservePortEnv)); err == nil {
		fmt.Fprint(os.Stdout, reservePort(port))
		os.Exit(0)
	}
	if os.Getenv(ownerEnv) != "" {
		if err := ownCluster(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		select {}
	}
	os.Exit(m.Run())
}

func ownCluster() error {
	c, err := Start(context.Background(), Options{Scheduler: true})
	if err != nil {
		return err
	}
	fmt.Println(c.Dir(), c.guard.shell.Process.Pid, c.Etcd.PID(), c.APIServer.PID(), c.Scheduler.PID())
	return nil
}

// gone says whether a process has ended. One that has ended and was not waited for is a zombie.
func gone(pid int) error {
	out, _ := exec.Command("ps", "-o", "stat=,args=", "-p", strconv.Itoa(pid)).Output()
	if state := strings.TrimSpace(string(out)); state != "" && !strings.HasPrefix(state, "Z") {
		return fmt.Errorf("process %d runs: %s", pid, state)
	}
	return nil
}

func removed(path string) error {
	if _, err := os.Stat(path); err == nil {
		return fmt.Errorf("%s is there", path)
	}
	return nil
}
