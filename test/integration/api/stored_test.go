// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/cluster"
)

// TestWhatIsStoredCanBeRead: one stored rule that the Go types cannot decode would fail the operator's list of all
// rules. Values at the borders of JSON's types are refused, or can be read.
func TestWhatIsStoredCanBeRead(t *testing.T) {
	const (
		spec = `"nodeSelector":{"matchLabels":{"pool":"workers"}},"enforcementMode":"continuous",` +
			`"conditions":[{"type":"a","requiredStatus":"True"%s}],"taint":{"key":"a","effect":"NoSchedule"%s}%s`
		rule = `{"apiVersion":"readiness.node.x-k8s.io/v1alpha1","kind":"NodeReadinessRule",` +
			`"metadata":{"name":"edge"},"spec":{` + spec + `}}`
	)
	raw := rawClient(t)
	send := func(body string) ([]byte, error) {
		return raw.Post().Resource("nodereadinessrules").Param("dryRun", "All").
			SetHeader("Content-Type", "application/json").Body([]byte(body)).DoRaw(t.Context())
	}
	var bodies []string
	for _, number := range []string{"0", "-0", "1", "1.0", "5.0", "1e2", "1E+2", "0.5", "1e-1", "2147483647", "2147483648",
		"-2147483649", "9223372036854775808", "1e30", "1e400", "true", "null", `""`, `"1"`} {
		bodies = append(bodies,
			fmt.Sprintf(rule, `,"maxAgeSeconds":`+number, "", ""),
			fmt.Sprintf(rule, "", "", `,"maxUnavailable":`+number),
			fmt.Sprintf(rule, "", "", `,"stabilization":{"readySeconds":`+number+`}`),
			fmt.Sprintf(rule, "", "", `,"timeout":{"seconds":`+number+`}`),
			fmt.Sprintf(rule, "", "", `,"suspend":`+number),
			fmt.Sprintf(rule, "", "", `,"requirements":[{"name":"a","csiDriver":{"name":"b","minAllocatable":`+number+`}}]`))
	}
	for _, time := range []string{"2026-01-02T03:04:05Z", "2026-01-02t03:04:05z", "2026-01-02T03:04:05",
		"2026-01-02T03:04:60Z", "2026-01-02T24:00:00Z",
		"2026-01-02T03:04:05+99:99", "2026-01-02T03:04:05+24:00", "2026-01-02T03:04:05+23:59", "2026-01-02T03:04:05+01:60",
		"2026-01-02T03:04:05x5Z", "2026-01-02T03:04:05.123456789012Z",
		"0000-01-01T00:00:00Z", "9999-12-31T23:59:59-23:59", "2026-01-02 03:04:05Z", "2026-01-02T3:04:05Z",
		"2026-01-02T03:04:05ZT03:04:05Z", ""} {
		bodies = append(bodies, fmt.Sprintf(rule, "", fmt.Sprintf(`,"timeAdded":%q`, time), ""))
	}
	for _, odd := range []string{`,"stabilization":null`, `,"stabilization":{}`, `,"timeout":null`, `,"rearmOn":null`,
		`,"rearmOn":[]`, `,"rearmOn":[null]`, `,"conditionPolicy":""`, `,"conditionPolicy":null`} {
		bodies = append(bodies, fmt.Sprintf(rule, "", "", odd))
	}
	for _, quantity := range []string{"0", "1", "-1", "1.0", "1.5", "1e3", "1e30", "1e400", "9223372036854775808", "true",
		"null", `""`, `"1"`, `"-1"`, `"+1"`, `".5"`, `"5."`, `"1.5"`, `"0.1n"`,
		`"4Gi"`, `"4gi"`, `"1E"`, `"1Ei"`, `"1e3"`, `"1e3.5"`, `"1e.5"`, `"1e+3"`, `"1e-3"`, `"1e19"`, `"1e99"`, `"1e400"`,
		`"1e9999999999"`, `"1e99999999999999999999"`, `"1e-400"`,
		`"99999999999999999999999999999999"`, `"999999999999Ei"`, `"0x10"`, `" 1"`, `"1 "`, `"1\n"`} {
		bodies = append(bodies, fmt.Sprintf(rule, "", "",
			`,"requirements":[{"name":"a","resource":{"name":"b","min":`+quantity+`}}]`))
	}
	accepted := 0
	for _, body := range bodies {
		out, err := send(body)
		if err != nil {
			if !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) {
				t.Errorf("%s\nrefused, but not as invalid: %v", body, err)
			}
			continue
		}
		accepted++
		if err := json.Unmarshal(out, &v1alpha1.NodeReadinessRule{}); err != nil {
			t.Errorf("%s\nis accepted, but cannot be read: %v", body, err)
		}
	}
	if accepted < 10 || len(bodies)-accepted < 10 {
		t.Errorf("of %d bodies %d were accepted: this does not look at the borders any more", len(bodies), accepted)
	}
}

// rawClient sends bytes as they are.
func rawClient(t *testing.T) rest.Interface {
	t.Helper()
	c := server.Config()
	c.APIPath = "/apis"
	c.GroupVersion = new(v1alpha1.GroupVersion())
	c.NegotiatedSerializer = serializer.NewCodecFactory(clientgoscheme.Scheme).WithoutConversion()
	out, err := rest.RESTClientFor(c)
	cluster.Must(t, err)
	return out
}
