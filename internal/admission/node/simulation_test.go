// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"encoding/json"
	"time"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	admissionv1alpha1 "github.com/nodegate/nodegate/api/admission/v1alpha1"
	"github.com/nodegate/nodegate/config/crd"
	"github.com/nodegate/nodegate/test/cluster"
	"github.com/nodegate/nodegate/test/simulation/api"
)

// simulate sends a request to the API server of the simulation, and returns the node as its policy makes it.
func simulate(ctx context.Context, old, sent *corev1.Node, kubelet bool) *corev1.Node {
	policy, binding := &admissionregistrationv1.MutatingAdmissionPolicy{},
		&admissionregistrationv1.MutatingAdmissionPolicyBinding{}
	objects, err := cluster.ReadConfig(cluster.NodeAdmissionPolicy)
	Expect(err).NotTo(HaveOccurred())
	for i, into := range []any{policy, binding} {
		Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(objects[i].Object, into)).To(Succeed())
	}
	simulated, err := api.ReadMutating(policy, binding)
	Expect(err).NotTo(HaveOccurred())

	definition, err := crd.Load()
	Expect(err).NotTo(HaveOccurred())
	defined, err := api.Define(definition)
	Expect(err).NotTo(HaveOccurred())
	s := api.New(time.Now, defined)
	rules := &admissionv1alpha1.AdmissionRules{}
	Expect(server.Client.Get(ctx, client.ObjectKey{Name: admissionv1alpha1.Name}, rules)).To(Succeed())
	rules.ResourceVersion = ""
	body, err := json.Marshal(rules)
	Expect(err).NotTo(HaveOccurred())
	_, err = s.Do(api.Request{User: "operator", Verb: "create", Kind: api.AdmissionRules, Name: rules.Name, Body: body})
	Expect(err).NotTo(HaveOccurred())

	user := authenticationv1.UserInfo{Username: "admin"}
	if kubelet {
		user = authenticationv1.UserInfo{Username: "system:node:" + sent.Name, Groups: []string{"system:nodes"}}
	}
	var before runtime.Object
	if old != nil {
		before = old
	}
	out := sent.DeepCopy()
	Expect(simulated.Admit(s, s.Version(), user, "", before, out)).To(Succeed())
	return out
}
