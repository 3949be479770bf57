// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package model

// uses notes the fields of a rule that is valid and in force, and selects a node.
func (m *Model) uses(d Document, r *rule, v *View) {
	h := m.rules[r.Metadata.UID]
	if h == nil || h.fields == r.Metadata.Generation || !r.Spec.enforced() || r.Metadata.DeletionTimestamp != nil ||
		v.frozen(r) != "" {
		return
	}
	h.fields = r.Metadata.Generation
	var all struct{ Spec any }
	d.Into(&all)
	m.note("spec", all.Spec)
	if r.Spec.Taint.Key == "" {
		m.Fields["spec.taint=none"] = true
	}
}

func (m *Model) note(path string, value any) {
	m.Fields[path] = true
	switch value := value.(type) {
	case map[string]any:
		for key, of := range value {
			m.note(path+"."+key, of)
		}
	case []any:
		for _, of := range value {
			m.note(path, of)
		}
	case string:
		m.Fields[path+"="+value] = true
	}
}
