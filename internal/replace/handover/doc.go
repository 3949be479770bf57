// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package handover hands nodes over for replacement that never became ready under a rule: it sets an annotation on the
// node, or deletes its NodeClaim. It writes the intention to the rule's status first, and never evicts a pod.
package handover
