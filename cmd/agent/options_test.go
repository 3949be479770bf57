// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

func TestParseLevel(t *testing.T) {
	for in, want := range map[string]slog.Level{
		"info": slog.LevelInfo, "DEBUG": slog.LevelDebug, "warn": slog.LevelWarn, "error": slog.LevelError,
		"trace":              slog.LevelDebug,
		"warn,harmony=debug": slog.LevelWarn, "harmony=debug,hyper=error": slog.LevelDebug, "off": slog.LevelError + 4,
	} {
		if got, ok := parseLevel(in); !ok || got != want {
			t.Errorf("%s: %s, %t", in, got, ok)
		}
	}
	if got, ok := parseLevel("loud"); ok || got != slog.LevelInfo {
		t.Errorf("an unknown level: %s, %t", got, ok)
	}
}

func parse(t *testing.T, env map[string]string, args ...string) (*options, error) {
	t.Helper()
	o := &options{}
	fs := pflag.NewFlagSet("agent", pflag.ContinueOnError)
	o.bind(fs)
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if err := fromEnvironment(fs, func(name string) (string, bool) { v, ok := env[name]; return v, ok }); err != nil {
		return o, err
	}
	o.serveHealth = true
	return o, o.validate()
}

func TestEnvironment(t *testing.T) {
	env := map[string]string{"NODE_NAME": "n", "LISTEN_PORT": "8080", "RUST_LOG": "debug", "METRICS_BIND_ADDRESS": ""}
	o, err := parse(t, env)
	if err != nil {
		t.Fatal(err)
	}
	if o.nodeName != "n" || o.health.port != 8080 || o.logLevel != "debug" || o.metricsAddress != ":9445" {
		t.Errorf("from the environment: %+v", o)
	}
	env["LOG_LEVEL"] = "warn"
	if o, err = parse(t, env, "--node-name=other"); err != nil || o.nodeName != "other" || o.logLevel != "warn" {
		t.Errorf("a flag wins, and so does LOG_LEVEL: %+v, %v", o, err)
	}
	if o, err = parse(t, nil); err != nil || o.health.port != 25001 || o.health.apiUnavailable != "pass" ||
		o.health.drainTime != 30*time.Second {
		t.Errorf("the defaults: %+v, %v", o, err)
	}
}

func TestAddressesThatDoNotCollide(t *testing.T) {
	for _, args := range [][]string{
		{"--listen-address=192.0.2.1", "--metrics-bind-address=127.0.0.1:25001"},
		{"--metrics-bind-address=0"}, {"--listen-port=0", "--metrics-bind-address=127.0.0.1:0"},
		{"--allow-from=192.0.2.0/24,fd00::/8"},
	} {
		if _, err := parse(t, nil, args...); err != nil {
			t.Errorf("%v: %v", args, err)
		}
	}
}

func TestWhatIsWrongIsNamed(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		args []string
		want string
	}{
		{map[string]string{"LISTEN_PORT": "http"}, nil, "LISTEN_PORT"},
		{map[string]string{"LISTEN_PORT": "70000"}, nil, "--listen-port"},
		{nil, []string{"--agent-check-port=-1"}, "--agent-check-port"},
		{nil, []string{"--api-unavailable=fail"}, "--api-unavailable"},
		{nil, []string{"--drain-time=-1s"}, "--drain-time"},
		{nil, []string{"--listen-address=localhost"}, "--listen-address"},
		{nil, []string{"--host-root=host"}, "--host-root"},
		{nil, []string{"--allow-from=balancer"}, "--allow-from"},
		{nil, []string{"--allow-from=10.0.0.1"}, "10.0.0.1/32"},
		{nil, []string{"--allow-from=192.0.2.0/24,fd00::1"}, "fd00::1/128"},
		{nil, []string{"--metrics-bind-address=9445"}, "--metrics-bind-address: must be an address such as :9445"},
		{map[string]string{"METRICS_BIND_ADDRESS": "9445"}, nil, "--metrics-bind-address"},
		{nil, []string{"--health-probe-bind-address=:http"}, "--health-probe-bind-address"},
		{nil, []string{"--agent-check-port=25001"}, "--agent-check-port: port 25001 is also that of --listen-port"},
		{nil, []string{"--metrics-bind-address=:25001"}, "--metrics-bind-address: port 25001 is also that of --listen-port"},
		{nil, []string{"--health-probe-bind-address=127.0.0.1:9445"}, "is also that of --metrics-bind-address"},
	} {
		if _, err := parse(t, c.env, c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v %v: %v", c.env, c.args, err)
		}
	}
}
