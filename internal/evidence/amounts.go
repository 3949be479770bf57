// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence/condition"
)

// Resource is a requirement of an amount of an allocatable resource.
type Resource v1alpha1.ResourceRequirement

func compileResource(problems *Problems, field string, r *v1alpha1.Requirement) Kind {
	if r.Resource == nil {
		return nil
	}
	// Each node would have enough. The CRD drops a field that was stored under its former name.
	if r.Resource.Min.Format == "" { // a 0 that was given has a format
		problems.Invalid(field+".resource.min", "is required; its former name is minimum")
	}
	return (*Resource)(r.Resource)
}

// Origin implements Kind.
func (*Resource) Origin() Origin { return OnNode }

// Provider implements Provided. A resource without a domain is not of a device plugin.
func (q *Resource) Provider() Provider {
	p := Provider{Field: "resource.name", What: "resource " + q.Name, Mounts: "/device-plugins"}
	if domain, _, extended := strings.Cut(q.Name, "/"); extended {
		p.Domain = domain
	}
	return p
}

func (q *Resource) judge(f *Facts, now time.Time) (condition.Judgement, finding) {
	have, known := f.Node.Status.Allocatable[corev1.ResourceName(q.Name)]
	return f.undated(known && have.Cmp(q.Min) >= 0, !known, now),
		&amountFound{"resource " + q.Name, "allocatable", have.String(), q.Min.String(), known}
}

// Devices is a requirement of a number of devices of a DRA driver.
type Devices v1alpha1.DevicesRequirement

func compileDevices(problems *Problems, field string, r *v1alpha1.Requirement) Kind {
	if r.Devices == nil {
		return nil
	}
	if r.Devices.Min < 1 {
		problems.Invalid(field+".devices.min", "must be at least 1; its former name is minimum")
	}
	return (*Devices)(r.Devices)
}

// Origin implements Kind.
func (*Devices) Origin() Origin { return Elsewhere }

// Provider implements Provided.
func (q *Devices) Provider() Provider {
	return Provider{Field: "devices.driver", What: "DRA driver " + q.Driver, Driver: q.Driver,
		Mounts: "/plugins_registry", Domain: q.Driver}
}

func (q *Devices) judge(f *Facts, now time.Time) (condition.Judgement, finding) {
	have, known := f.Gathered.Devices[q.Driver]
	return f.undated(known && have >= int64(q.Min), !known, now),
		&amountFound{"devices of driver " + q.Driver, "published", strconv.FormatInt(have, 10), strconv.Itoa(int(q.Min)),
			known}
}

// amountFound is an amount of a thing that a node has.
type amountFound struct {
	thing, is, have, minimum string
	known                    bool
}

func (f *amountFound) message(r *Result) string {
	must := ""
	if !r.Satisfied {
		must = ", must be at least " + f.minimum
	}
	if !f.known {
		return fmt.Sprintf("%s: none is %s%s", f.thing, f.is, must)
	}
	return fmt.Sprintf("%s: %s %s%s", f.thing, f.have, f.is, must)
}
