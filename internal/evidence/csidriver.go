// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"fmt"
	"math"
	"slices"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence/condition"
)

// CSIDriver is a requirement of a driver in the node's CSINode.
type CSIDriver v1alpha1.CSIDriverRequirement

func compileCSIDriver(_ *Problems, _ string, r *v1alpha1.Requirement) Kind {
	if r.CSIDriver == nil {
		return nil
	}
	return (*CSIDriver)(r.CSIDriver)
}

// Origin implements Kind.
func (*CSIDriver) Origin() Origin { return Elsewhere }

// Provider implements Provided.
func (q *CSIDriver) Provider() Provider {
	return Provider{Field: "csiDriver.name", What: "CSI driver " + q.Name, Driver: q.Name}
}

func (q *CSIDriver) judge(f *Facts, now time.Time) (condition.Judgement, finding) {
	out := &csiDriverFound{CSIDriver: q}
	if n := f.Gathered.CSINode; n != nil {
		drivers := n.Spec.Drivers
		if i := slices.IndexFunc(drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == q.Name }); i >= 0 {
			out.driver = &drivers[i]
		}
	}
	enough := out.driver != nil && volumes(out.driver) >= q.minimum()
	return f.undated(enough, out.driver == nil, now), out
}

func (q *CSIDriver) minimum() int32 { return ptr.Deref(q.MinAllocatable, 0) }

// volumes returns the number of volumes that a driver can attach. A driver that does not report one has no limit.
func volumes(d *storagev1.CSINodeDriver) int32 {
	return ptr.Deref(ptr.Deref(d.Allocatable, storagev1.VolumeNodeResources{}).Count, math.MaxInt32)
}

type csiDriverFound struct {
	*CSIDriver
	driver *storagev1.CSINodeDriver // nil if the driver is not registered
}

func (f *csiDriverFound) message(r *Result) string {
	switch {
	case f.driver == nil:
		return fmt.Sprintf("CSI driver %s is not registered", f.Name)
	case !r.Satisfied:
		return fmt.Sprintf("CSI driver %s can attach %d volumes, must be at least %d", f.Name, volumes(f.driver),
			f.minimum())
	}
	return fmt.Sprintf("CSI driver %s is registered", f.Name)
}
