// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rule is the webhook for rules. It warns the author of a rule about problems that depend on the cluster: on
// other rules, nodes and pods. It refuses only a rule that can never work for a reason that the schema cannot check: an
// expression that does not compile, or rules that require each other in a cycle. It never refuses a deletion, the
// removal of a finalizer, or an update that does not touch the fault. Without this webhook the operator is just as
// correct.
package rule
