// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// endpointEnv makes the test binary play Calico's health endpoint on this address.
const endpointEnv = "E2E_ENDPOINT"

// serveEndpoint answers /readiness with the status that was last read from stdin, and 503 until there is one. It ends
// with its stdin, and so with the process that started it.
func serveEndpoint(address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	var status atomic.Int64
	status.Store(http.StatusServiceUnavailable)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /readiness", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(status.Load())) })
	go func() { _ = http.Serve(l, mux) }()
	fmt.Println(l.Addr())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		code, err := strconv.Atoi(in.Text())
		if err != nil {
			return err
		}
		status.Store(int64(code))
	}
	return nil
}

// endpoint is that process.
type endpoint struct {
	address string
	stdin   io.Writer
}

// startEndpoint starts it on the address, or if that is taken on another one.
func startEndpoint(t testing.TB, address string) *endpoint {
	t.Helper()
	for _, a := range []string{address, "127.0.0.1:0"} {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), endpointEnv+"="+a)
		cmd.Stderr = t.Output()
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(stdout).ReadString('\n')
		if err != nil {
			_ = cmd.Wait()
			continue
		}
		t.Cleanup(func() {
			_ = stdin.Close()
			if err := cmd.Wait(); err != nil {
				t.Errorf("the endpoint: %v", err)
			}
		})
		return &endpoint{address: strings.TrimSpace(line), stdin: stdin}
	}
	t.Fatal("the endpoint does not start")
	return nil
}

// answer sets the status of its answers from now on.
func (e *endpoint) answer(t testing.TB, status int) {
	t.Helper()
	if _, err := fmt.Fprintln(e.stdin, status); err != nil {
		t.Fatal(err)
	}
}
