// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
)

// packages says which main package each binary is built from. All of them live in the module controlplane.
var packages = map[string]string{
	"etcd":                    "go.etcd.io/etcd/server/v3",
	"kube-apiserver":          "k8s.io/kubernetes/cmd/kube-apiserver",
	"kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
	"kube-scheduler":          "k8s.io/kubernetes/cmd/kube-scheduler",
	"kubectl":                 "k8s.io/kubernetes/cmd/kubectl",
	"kwok":                    "sigs.k8s.io/kwok/cmd/kwok",
	"kubelet":                 "k8s.io/kubernetes/cmd/kubelet",
	"kube-proxy":              "k8s.io/kubernetes/cmd/kube-proxy",
}

// builtName is what "go build" calls a binary whose package path does not end in the name it goes by.
var builtName = map[string]string{"etcd": "server"}

// pins are the versions that controlplane/go.mod requires, and a digest of the whole of it.
type pins struct {
	kubernetes, etcd, kwok string // with their leading v
	digest                 string
}

func readPins(src string) (pins, error) {
	path := filepath.Join(src, "controlplane", "go.mod")
	mod, err := os.ReadFile(path)
	if err != nil {
		return pins{}, fmt.Errorf("reading the pinned versions: %w", err)
	}
	var p pins
	for module, version := range map[string]*string{
		"k8s.io/kubernetes":         &p.kubernetes,
		"go.etcd.io/etcd/server/v3": &p.etcd,
		"sigs.k8s.io/kwok":          &p.kwok,
	} {
		m := regexp.MustCompile(`(?m)^\s*(?:require\s+)?` + regexp.QuoteMeta(module) + `\s+(v\S+)`).FindSubmatch(mod)
		if m == nil {
			return pins{}, fmt.Errorf("%s requires no %s", path, module)
		}
		*version = string(m[1])
	}
	// The recipe is part of the key: another set of flags makes other binaries of the same sources.
	sum := sha256.New()
	sum.Write(mod)
	fmt.Fprintln(sum, buildFlags(p))
	p.digest = hex.EncodeToString(sum.Sum(nil))[:10]
	return p, nil
}

// key names the directory of the binaries in the cache.
func (p pins) key() string {
	return strings.Join([]string{p.kubernetes, p.etcd, p.kwok, p.digest, runtime.GOOS, runtime.GOARCH}, "-")
}

// buildFlags are the flags of "go build" that decide what the binaries are. A Kubernetes binary that is not
// stamped reports v0.0.0-master+..., which clients and charts cannot parse.
func buildFlags(p pins) []string {
	major, minor, _ := strings.Cut(strings.TrimPrefix(p.kubernetes, "v"), ".")
	minor, _, _ = strings.Cut(minor, ".")
	ldflags := []string{"-s", "-w"}
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		for _, stamp := range [][2]string{
			{"gitVersion", p.kubernetes},
			{"gitMajor", major},
			{"gitMinor", minor},
			// A module does not carry the commit it was cut from, and the date is fixed so that the same
			// sources give the same binary.
			{"gitCommit", "unknown"},
			{"gitTreeState", "archive"},
			{"buildDate", "1970-01-01T00:00:00Z"},
		} {
			ldflags = append(ldflags, fmt.Sprintf("-X=%s.%s=%s", pkg, stamp[0], stamp[1]))
		}
	}
	return []string{"-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags=" + strings.Join(ldflags, " ")}
}
