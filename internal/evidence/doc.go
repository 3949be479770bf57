// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package evidence gathers, of one node, what the requirements of rules are judged by: pods, the node's CSI drivers and
// its devices. It watches just what some rule names, keeps of it just what is looked at, and says of each rule whether
// all of its kinds of evidence are there to be judged by. It judges nothing.
package evidence
