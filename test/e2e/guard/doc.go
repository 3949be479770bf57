// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package guard proves the eviction guard against the real kube-controller-manager: nodes go NotReady, it taints them
// and evicts, and what becomes of the pods is read from the API server and its audit log. The operator is the built
// binary, with the permissions and the webhook configuration that it ships with. Waits are as long as the controller
// manager's own periods, which are short here. It contains nothing but tests.
package guard
