// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"bytes"
	"errors"
	"iter"
	"slices"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Field numbers of the protobuf messages of generated.proto in k8s.io/api/core/v1, k8s.io/apimachinery/pkg/runtime and
// k8s.io/apimachinery/pkg/apis/meta/v1.
const (
	envelopeType, envelopeRaw                               = 1, 2
	typeAPIVersion, typeKind                                = 1, 2
	eventType, eventObject                                  = 1, 2
	extensionRaw                                            = 1
	listItems                                               = 2
	nodeMetadata, nodeSpec, nodeStatus                      = 1, 2, 3
	metadataName, metadataLabels, metadataAnnotations       = 1, 11, 12
	metadataManagedFields                                   = 17
	entryKey, entryValue                                    = 1, 2
	specTaints                                              = 5
	taintKey, taintValue, taintEffect                       = 1, 2, 3
	statusConditions                                        = 4
	statusImages, statusVolumesInUse, statusVolumesAttached = 8, 9, 10
	conditionType, conditionStatus                          = 1, 2
	conditionReason, conditionText                          = 5, 6
)

// envelopePrefix precedes each object in protobuf, see the package documentation of
// k8s.io/apimachinery/pkg/runtime/serializer/protobuf.
var envelopePrefix = []byte{'k', '8', 's', 0}

// nodeDecoder decodes nodes without managed fields, images and volumes. They are most of a node's bytes, each heartbeat
// sends them again, and no verdict depends on them. Labels and annotations that have not changed are those of the
// cached node. Strings that many nodes have, such as keys, types and messages, are decoded to one shared string. A
// nodeDecoder is safe for concurrent use.
type nodeDecoder struct {
	runtime.Serializer // of all other objects
	// cached returns the cached node with a name, or nil.
	cached func(name string) *corev1.Node

	mu     sync.Mutex
	shared sharedStrings
	// node is being decoded. old is the cached node of its name, or an empty one; nil before the metadata.
	node, old                   *corev1.Node
	sameLabels, sameAnnotations bool
	key, value                  []byte // of the last entry of a map
}

// message is a protobuf message. take decodes or skips a field that has a length, or returns false. rest merges or
// drops runs of fields that take has not taken.
type message interface {
	take(field protowire.Number, value []byte) (bool, error)
	rest(data []byte) error
}

// The messages that a node consists of. taintMessage and conditionMessage decode into the node's last taint and
// condition.
type (
	nodeMessage      nodeDecoder
	metadataMessage  nodeDecoder
	entryMessage     nodeDecoder // of a map
	specMessage      nodeDecoder
	taintMessage     nodeDecoder
	statusMessage    nodeDecoder
	conditionMessage nodeDecoder
)

// Decode implements runtime.Decoder.
func (d *nodeDecoder) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object,
	*schema.GroupVersionKind, error) {
	e := envelope{}
	if body, ok := bytes.CutPrefix(data, envelopePrefix); !ok || unmarshal(body, &e) != nil || string(e.version) != "v1" {
		return d.Serializer.Decode(data, defaults, into)
	}
	kind := corev1.SchemeGroupVersion.WithKind(string(e.kind))
	switch list, _ := into.(*corev1.NodeList); {
	case kind.Kind == "Node" && into == nil:
		node := &corev1.Node{}
		return node, &kind, d.decode(e.raw, node)
	case kind.Kind == "NodeList" && list != nil:
		return list, &kind, unmarshal(e.raw, &listMessage{d, list})
	}
	return d.Serializer.Decode(data, defaults, into)
}

// envelope is a runtime.Unknown, but has no copy of the object's bytes.
type envelope struct{ version, kind, raw []byte }

func (*envelope) rest([]byte) error { return nil }

func (e *envelope) take(field protowire.Number, value []byte) (bool, error) {
	switch field {
	case envelopeType:
		e.version, e.kind = first(value, typeAPIVersion), first(value, typeKind)
	case envelopeRaw:
		e.raw = value
	}
	return true, nil
}

type listMessage struct {
	*nodeDecoder
	list *corev1.NodeList
}

func (m *listMessage) rest(data []byte) error { return m.list.Unmarshal(data) }

func (m *listMessage) take(field protowire.Number, value []byte) (bool, error) {
	if field != listItems {
		return false, nil
	}
	m.list.Items = append(m.list.Items, corev1.Node{})
	return true, m.decode(value, &m.list.Items[len(m.list.Items)-1])
}

func (d *nodeDecoder) decode(data []byte, node *corev1.Node) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.node, d.old = node, nil
	err := unmarshal(data, (*nodeMessage)(d))
	d.node, d.old, d.key, d.value = nil, nil, nil, nil // a whole list would stay in memory with them
	return err
}

func (m *nodeMessage) rest(data []byte) error { return m.node.Unmarshal(data) }

func (m *nodeMessage) take(field protowire.Number, value []byte) (bool, error) {
	switch field {
	case nodeMetadata:
		if m.old != nil {
			return true, errTwice // its labels would be added to those of the cached node
		}
		if m.old = m.cached(string(first(value, metadataName))); m.old == nil {
			m.old = &corev1.Node{}
		}
		d := (*nodeDecoder)(m)
		if m.sameLabels = d.same(value, metadataLabels, m.old.Labels); m.sameLabels {
			m.node.Labels = m.old.Labels
		}
		if m.sameAnnotations = d.same(value, metadataAnnotations, m.old.Annotations); m.sameAnnotations {
			m.node.Annotations = m.old.Annotations
		}
		return true, unmarshal(value, (*metadataMessage)(m))
	case nodeSpec:
		m.node.Spec.Taints = slices.Grow(m.node.Spec.Taints, count(value, specTaints))
		return true, unmarshal(value, (*specMessage)(m))
	case nodeStatus:
		m.node.Status.Conditions = slices.Grow(m.node.Status.Conditions, count(value, statusConditions))
		return true, unmarshal(value, (*statusMessage)(m))
	}
	return false, nil
}

var errTwice = errors.New("the encoded node has metadata twice")

func (m *metadataMessage) rest(data []byte) error { return m.node.ObjectMeta.Unmarshal(data) }

func (m *metadataMessage) take(field protowire.Number, value []byte) (bool, error) {
	d := (*nodeDecoder)(m)
	switch field {
	case metadataLabels:
		if m.sameLabels {
			return true, nil
		}
		return true, d.add(&m.node.Labels, m.old.Labels, value)
	case metadataAnnotations:
		if m.sameAnnotations {
			return true, nil
		}
		return true, d.add(&m.node.Annotations, m.old.Annotations, value)
	}
	return field == metadataManagedFields, nil
}

// same reports whether the entries of a map are those of the cached one. It relies on the order of an encoded map's
// keys to notice a key that comes twice. Of a map in another order it reports false, and the map is decoded again.
func (d *nodeDecoder) same(metadata []byte, field protowire.Number, old map[string]string) bool {
	n, last := 0, []byte(nil)
	for entry := range fields(metadata, field) {
		if d.readEntry(entry) != nil || n > 0 && bytes.Compare(last, d.key) >= 0 {
			return false
		}
		if value, ok := old[string(d.key)]; !ok || value != string(d.value) {
			return false
		}
		n, last = n+1, d.key
	}
	return n == len(old)
}

// add decodes an entry of a map.
func (d *nodeDecoder) add(to *map[string]string, old map[string]string, entry []byte) error {
	if err := d.readEntry(entry); err != nil {
		return err
	}
	if *to == nil {
		*to = map[string]string{}
	}
	(*to)[d.shared.get(d.key)] = d.share(d.value, old[string(d.key)])
	return nil
}

func (d *nodeDecoder) readEntry(entry []byte) error {
	d.key, d.value = nil, nil
	return unmarshal(entry, (*entryMessage)(d))
}

// share returns a string that is shared with others, such as the cached one.
func (d *nodeDecoder) share(value []byte, old string) string {
	if string(value) == old {
		return old
	}
	return d.shared.get(value)
}

func (*entryMessage) rest([]byte) error { return nil }

func (m *entryMessage) take(field protowire.Number, value []byte) (bool, error) {
	switch field {
	case entryKey:
		m.key = value
	case entryValue:
		m.value = value
	}
	return true, nil
}

func (m *specMessage) rest(data []byte) error { return m.node.Spec.Unmarshal(data) }

func (m *specMessage) take(field protowire.Number, value []byte) (bool, error) {
	if field != specTaints {
		return false, nil
	}
	m.node.Spec.Taints = append(m.node.Spec.Taints, corev1.Taint{})
	return true, unmarshal(value, (*taintMessage)(m))
}

func (m *taintMessage) last() *corev1.Taint { return &m.node.Spec.Taints[len(m.node.Spec.Taints)-1] }

func (m *taintMessage) rest(data []byte) error { return m.last().Unmarshal(data) }

func (m *taintMessage) take(field protowire.Number, value []byte) (bool, error) {
	switch t := m.last(); field {
	case taintKey:
		t.Key = m.shared.get(value)
	case taintValue:
		t.Value = m.shared.get(value)
	case taintEffect:
		t.Effect = corev1.TaintEffect(m.shared.get(value))
	default:
		return false, nil
	}
	return true, nil
}

func (m *statusMessage) rest(data []byte) error { return m.node.Status.Unmarshal(data) }

func (m *statusMessage) take(field protowire.Number, value []byte) (bool, error) {
	switch field {
	case statusConditions:
		m.node.Status.Conditions = append(m.node.Status.Conditions, corev1.NodeCondition{})
		return true, unmarshal(value, (*conditionMessage)(m))
	case statusImages, statusVolumesInUse, statusVolumesAttached:
		return true, nil
	}
	return false, nil
}

// last returns the condition that is being decoded, and the cached one in its place, or an empty one.
func (m *conditionMessage) last() (c, old *corev1.NodeCondition) {
	i := len(m.node.Status.Conditions) - 1
	if c, old = &m.node.Status.Conditions[i], &noCondition; m.old != nil && i < len(m.old.Status.Conditions) {
		old = &m.old.Status.Conditions[i]
	}
	return c, old
}

var noCondition corev1.NodeCondition

func (m *conditionMessage) rest(data []byte) error {
	c, _ := m.last()
	return c.Unmarshal(data)
}

func (m *conditionMessage) take(field protowire.Number, value []byte) (bool, error) {
	d := (*nodeDecoder)(m)
	switch c, old := m.last(); field {
	case conditionType:
		c.Type = corev1.NodeConditionType(d.share(value, string(old.Type)))
	case conditionStatus:
		c.Status = corev1.ConditionStatus(d.share(value, string(old.Status)))
	case conditionReason:
		c.Reason = d.share(value, old.Reason)
	case conditionText:
		c.Message = d.share(value, old.Message)
	default:
		return false, nil
	}
	return true, nil
}

// eventDecoder decodes the events of a watch. Unlike client-go's decoder, it does not copy the object's bytes: they are
// valid until the next event is read, and the object is decoded before that.
type eventDecoder struct{ runtime.Serializer }

// Decode implements runtime.Decoder.
func (d eventDecoder) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object,
	*schema.GroupVersionKind, error) {
	if event, ok := into.(*metav1.WatchEvent); ok {
		return event, nil, unmarshal(data, (*eventMessage)(event))
	}
	return d.Serializer.Decode(data, defaults, into)
}

type eventMessage metav1.WatchEvent

func (*eventMessage) rest([]byte) error { return nil }

func (m *eventMessage) take(field protowire.Number, value []byte) (bool, error) {
	switch field {
	case eventType:
		m.Type = string(value)
	case eventObject:
		m.Object.Raw = first(value, extensionRaw)
	}
	return true, nil
}

// fields yields the values of a field that has a length, up to the first error, which unmarshal reports.
func fields(data []byte, field protowire.Number) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for len(data) > 0 {
			f, kind, tag := protowire.ConsumeTag(data)
			if tag < 0 {
				return
			}
			size := protowire.ConsumeFieldValue(f, kind, data[tag:])
			if size < 0 {
				return
			}
			if value, _ := protowire.ConsumeBytes(data[tag:]); f == field && kind == protowire.BytesType && !yield(value) {
				return
			}
			data = data[tag+size:]
		}
	}
}

// first returns the value of a field, or nil.
func first(data []byte, field protowire.Number) []byte {
	for value := range fields(data, field) {
		return value
	}
	return nil
}

// count returns how often a message has a field. The caller allocates room for exactly as many: a slice that grows by
// append may be half empty, as long as the node is cached.
func count(data []byte, field protowire.Number) (n int) {
	for range fields(data, field) {
		n++
	}
	return n
}

// unmarshal splits an encoded message into its fields.
func unmarshal(data []byte, m message) error {
	from := 0
	for at := 0; at < len(data); {
		field, kind, tag := protowire.ConsumeTag(data[at:])
		if tag < 0 {
			return protowire.ParseError(tag)
		}
		size := protowire.ConsumeFieldValue(field, kind, data[at+tag:])
		if size < 0 {
			return protowire.ParseError(size)
		}
		next := at + tag + size
		if kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(data[at+tag:])
			taken, err := m.take(field, value)
			if err == nil && taken && from < at {
				err = m.rest(data[from:at])
			}
			if err != nil {
				return err
			}
			if taken {
				from = next
			}
		}
		at = next
	}
	return m.rest(data[from:])
}
