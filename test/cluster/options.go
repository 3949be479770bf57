// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import "io"

// Options says what to start. The zero value is etcd and an API server.
type Options struct {
	// Assets is the directory of the binaries. Empty means what hack/assets.sh prints, which builds them the
	// first time: that takes minutes and needs the checkout as working directory or one above it.
	Assets string

	// Address is the IPv4 address that the API server listens on, and by which all know it. Empty means 127.0.0.1, where
	// nothing from other network namespaces gets to.
	Address string

	// ControllerManager, Scheduler and Kwok start what they name. Without the controller manager nothing makes
	// the service accounts of pods, so that the API server does not ask for them, and nothing removes the taint
	// node.kubernetes.io/not-ready that the API server puts on each new node.
	ControllerManager, Scheduler, Kwok bool

	// CRD installs the CustomResourceDefinition of this checkout.
	CRD bool

	// These are appended to the arguments of the component, so that they win over the same flag set here.
	APIServerArgs, ControllerManagerArgs []string

	// AuditPolicy is the text of an audit policy. If set, the API server writes what it says to AuditLog.
	AuditPolicy string

	// Log gets a line for each step. Nil means none, but a build of the binaries is told on stderr even then.
	Log io.Writer
}
