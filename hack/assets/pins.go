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
	"slices"
	"strings"
)

// packages says which main package each binary is built from. The module controlplane has all of
// them, the modules below kubernetes have the control plane of another version of Kubernetes.
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

// pins are the versions that a module requires, and a digest of the whole of it.
type pins struct {
	dir                    string // of the module
	kubernetes, etcd, kwok string // with their leading v; a module of kubernetes/ has Kubernetes alone
	digest                 string
}

// readPins reads controlplane/go.mod, or the go.mod of another minor version of Kubernetes, such as 1.32.
func readPins(src, minor string) (pins, error) {
	p := pins{dir: filepath.Join(src, "controlplane")}
	versions := map[string]*string{
		"k8s.io/kubernetes": &p.kubernetes, "go.etcd.io/etcd/server/v3": &p.etcd, "sigs.k8s.io/kwok": &p.kwok,
	}
	if minor != "" {
		p.dir = filepath.Join(src, "kubernetes", minor)
		versions = map[string]*string{"k8s.io/kubernetes": &p.kubernetes}
	}
	path := filepath.Join(p.dir, "go.mod")
	mod, err := os.ReadFile(path)
	if err != nil {
		return pins{}, fmt.Errorf("reading the pinned versions: %w", err)
	}
	for module, version := range versions {
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

// is reports whether these pins are of a minor version of Kubernetes, such as 1.36.
func (p pins) is(minor string) bool { return strings.HasPrefix(p.kubernetes, "v"+minor+".") }

// key names the directory of the binaries in the cache.
func (p pins) key() string {
	parts := []string{p.kubernetes, p.etcd, p.kwok, p.digest, runtime.GOOS, runtime.GOARCH}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), "-")
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
