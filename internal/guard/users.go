// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

const (
	// NodeController is the user of the node controller, which evicts pods.
	NodeController = serviceAccounts + "node-controller"
	// ControllerManager is the user of all controllers of a controller manager that runs without
	// --use-service-account-credentials. Of its deletions, only evictions that it has announced are denied.
	ControllerManager = "system:kube-controller-manager"

	serviceAccounts = "system:serviceaccount:kube-system:"
	kubelets        = "system:node:"
)

// neverGuarded are the controllers that Kubernetes cannot do without: if their deletions were denied, namespaces and
// owners could not be deleted, and workloads could not be scaled down or updated.
var neverGuarded = []string{
	"cronjob-controller", "daemon-set-controller", "deployment-controller", "generic-garbage-collector", "job-controller",
	"namespace-controller", "pod-garbage-collector", "replicaset-controller", "replication-controller",
	"statefulset-controller", "ttl-after-finished-controller",
}

// DefaultUsers returns the users whose deletions are denied by default.
func DefaultUsers() []string { return []string{NodeController, ControllerManager} }

// ValidateUsers returns an error if the deletions of one of the users must not be denied.
func ValidateUsers(users []string) error {
	if len(users) == 0 {
		return errors.New("must name at least one user")
	}
	for _, u := range users {
		account, ok := strings.CutPrefix(u, serviceAccounts)
		switch {
		case u == "":
			return errors.New("must not contain an empty name")
		case strings.HasPrefix(u, kubelets):
			return fmt.Errorf("must not contain %q: kubelets must be able to delete pods", u)
		case ok && slices.Contains(neverGuarded, account):
			return fmt.Errorf("must not contain %q: this controller must be able to delete pods", u)
		}
	}
	return nil
}
