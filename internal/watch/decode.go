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

// envelopePrefix precedes each object in protobuf, see the package documentation of
// k8s.io/apimachinery/pkg/runtime/serializer/protobuf.
var envelopePrefix = []byte{'k', '8', 's', 0}

// Numbers of the fields that are read before the table of their message is known.
const (
	envelopeType, envelopeRaw = 1, 2
	typeAPIVersion, typeKind  = 1, 2
	eventType, eventObject    = 1, 2
	extensionRaw              = 1
	metadataName              = 1
	metadataLabels            = 11
	metadataAnnotations       = 12
	specTaints                = 5
	statusConditions          = 4
)

// message says how a message is decoded: the fields in the table, which all have a length, by this package, and all
// others by client-go. The numbers are those of generated.proto in k8s.io/api/core/v1 and
// k8s.io/apimachinery/pkg/apis/meta/v1.
type message struct {
	fields [18]field
	others func(d *nodeDecoder, data []byte) error
}

// field decodes the value of a field, or skips it.
type field func(d *nodeDecoder, value []byte) error

func skip(*nodeDecoder, []byte) error { return nil }

var (
	listMessage = &message{
		fields: [18]field{2: (*nodeDecoder).item},
		others: func(d *nodeDecoder, data []byte) error { return d.list.Unmarshal(data) },
	}
	nodeMessage = &message{
		fields: [18]field{1: (*nodeDecoder).metadata, 2: (*nodeDecoder).spec, 3: (*nodeDecoder).status},
		others: func(d *nodeDecoder, data []byte) error { return d.node.Unmarshal(data) },
	}
	metadataMessage = &message{
		fields: [18]field{
			metadataLabels:      (*nodeDecoder).label,
			metadataAnnotations: (*nodeDecoder).annotation,
			17:                  skip, // managedFields
		},
		others: func(d *nodeDecoder, data []byte) error { return d.node.ObjectMeta.Unmarshal(data) },
	}
	entryMessage = &message{ // of a map
		fields: [18]field{
			1: func(d *nodeDecoder, value []byte) error { d.key = value; return nil },
			2: func(d *nodeDecoder, value []byte) error { d.value = value; return nil },
		},
		others: skip,
	}
	specMessage = &message{
		fields: [18]field{specTaints: (*nodeDecoder).taint},
		others: func(d *nodeDecoder, data []byte) error { return d.node.Spec.Unmarshal(data) },
	}
	taintMessage = &message{
		fields: [18]field{
			1: stringOf(lastTaint, func(t *corev1.Taint) *string { return &t.Key }),
			2: stringOf(lastTaint, func(t *corev1.Taint) *string { return &t.Value }),
			3: stringOf(lastTaint, func(t *corev1.Taint) *corev1.TaintEffect { return &t.Effect }),
		},
		others: othersOf(lastTaint),
	}
	statusMessage = &message{
		fields: [18]field{
			statusConditions: (*nodeDecoder).condition,
			8:                skip, // images
			9:                skip, // volumesInUse
			10:               skip, // volumesAttached
		},
		others: func(d *nodeDecoder, data []byte) error { return d.node.Status.Unmarshal(data) },
	}
	conditionMessage = &message{
		fields: [18]field{
			1: stringOf(lastCondition, func(c *corev1.NodeCondition) *corev1.NodeConditionType { return &c.Type }),
			2: stringOf(lastCondition, func(c *corev1.NodeCondition) *corev1.ConditionStatus { return &c.Status }),
			5: stringOf(lastCondition, func(c *corev1.NodeCondition) *string { return &c.Reason }),
			6: stringOf(lastCondition, func(c *corev1.NodeCondition) *string { return &c.Message }),
		},
		others: othersOf(lastCondition),
	}
)

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
	decoding
}

// decoding is what is being decoded.
type decoding struct {
	list *corev1.NodeList
	// old is the cached node of the name of node, or an empty one; nil before the metadata.
	node, old                   *corev1.Node
	sameLabels, sameAnnotations bool
	key, value                  []byte // of the last entry of a map
}

// Decode implements runtime.Decoder.
func (d *nodeDecoder) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object,
	*schema.GroupVersionKind, error) {
	body, ok := bytes.CutPrefix(data, envelopePrefix)
	about, raw := first(body, envelopeType), first(body, envelopeRaw)
	if !ok || string(first(about, typeAPIVersion)) != "v1" {
		return d.Serializer.Decode(data, defaults, into)
	}
	kind := corev1.SchemeGroupVersion.WithKind(string(first(about, typeKind)))
	switch list, _ := into.(*corev1.NodeList); {
	case kind.Kind == "Node" && into == nil:
		node := &corev1.Node{}
		return node, &kind, d.decode(raw, nodeMessage, decoding{node: node})
	case kind.Kind == "NodeList" && list != nil:
		return list, &kind, d.decode(raw, listMessage, decoding{list: list})
	}
	return d.Serializer.Decode(data, defaults, into)
}

func (d *nodeDecoder) decode(data []byte, m *message, what decoding) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.decoding = what
	err := d.unmarshal(data, m)
	d.decoding = decoding{} // a whole list would stay in memory with it
	return err
}

// unmarshal decodes an encoded message.
func (d *nodeDecoder) unmarshal(data []byte, m *message) error {
	from := 0
	for at := 0; at < len(data); {
		number, kind, tag := protowire.ConsumeTag(data[at:])
		if tag < 0 {
			return protowire.ParseError(tag)
		}
		size := protowire.ConsumeFieldValue(number, kind, data[at+tag:])
		if size < 0 {
			return protowire.ParseError(size)
		}
		next := at + tag + size
		if kind == protowire.BytesType && int(number) < len(m.fields) && m.fields[number] != nil {
			value, _ := protowire.ConsumeBytes(data[at+tag:])
			err := m.fields[number](d, value)
			if err == nil && from < at {
				err = m.others(d, data[from:at])
			}
			if err != nil {
				return err
			}
			from = next
		}
		at = next
	}
	return m.others(d, data[from:])
}

func (d *nodeDecoder) item(value []byte) error {
	d.list.Items = append(d.list.Items, corev1.Node{})
	d.decoding = decoding{list: d.list, node: &d.list.Items[len(d.list.Items)-1]}
	return d.unmarshal(value, nodeMessage)
}

var errTwice = errors.New("the encoded node has metadata twice")

func (d *nodeDecoder) metadata(value []byte) error {
	if d.old != nil {
		return errTwice // its labels would be added to those of the cached node
	}
	if d.old = d.cached(string(first(value, metadataName))); d.old == nil {
		d.old = &corev1.Node{}
	}
	if d.sameLabels = d.same(value, metadataLabels, d.old.Labels); d.sameLabels {
		d.node.Labels = d.old.Labels
	}
	if d.sameAnnotations = d.same(value, metadataAnnotations, d.old.Annotations); d.sameAnnotations {
		d.node.Annotations = d.old.Annotations
	}
	return d.unmarshal(value, metadataMessage)
}

func (d *nodeDecoder) label(entry []byte) error {
	if d.sameLabels {
		return nil
	}
	return d.add(&d.node.Labels, d.old.Labels, entry)
}

func (d *nodeDecoder) annotation(entry []byte) error {
	if d.sameAnnotations {
		return nil
	}
	return d.add(&d.node.Annotations, d.old.Annotations, entry)
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
	return d.unmarshal(entry, entryMessage)
}

// share returns a string that is shared with others, such as the cached one.
func (d *nodeDecoder) share(value []byte, old string) string {
	if string(value) == old {
		return old
	}
	return d.shared.get(value)
}

// stringOf decodes a string of the last taint or condition.
func stringOf[M any, S ~string](last func(*nodeDecoder) (m, old *M), of func(*M) *S) field {
	return func(d *nodeDecoder, value []byte) error {
		m, old := last(d)
		*of(m) = S(d.share(value, string(*of(old))))
		return nil
	}
}

// othersOf decodes all other fields of the last taint or condition.
func othersOf[M any, P interface {
	*M
	Unmarshal(data []byte) error
}](last func(*nodeDecoder) (m, old *M)) func(*nodeDecoder, []byte) error {
	return func(d *nodeDecoder, data []byte) error {
		m, _ := last(d)
		return P(m).Unmarshal(data)
	}
}

var (
	noTaint     corev1.Taint
	noCondition corev1.NodeCondition
)

// lastTaint returns the taint that is being decoded.
func lastTaint(d *nodeDecoder) (t, old *corev1.Taint) {
	return &d.node.Spec.Taints[len(d.node.Spec.Taints)-1], &noTaint
}

// lastCondition returns the condition that is being decoded, and the cached one in its place, or an empty one.
func lastCondition(d *nodeDecoder) (c, old *corev1.NodeCondition) {
	i := len(d.node.Status.Conditions) - 1
	if c, old = &d.node.Status.Conditions[i], &noCondition; d.old != nil && i < len(d.old.Status.Conditions) {
		old = &d.old.Status.Conditions[i]
	}
	return c, old
}

func (d *nodeDecoder) spec(value []byte) error {
	d.node.Spec.Taints = slices.Grow(d.node.Spec.Taints, count(value, specTaints))
	return d.unmarshal(value, specMessage)
}

func (d *nodeDecoder) taint(value []byte) error {
	d.node.Spec.Taints = append(d.node.Spec.Taints, corev1.Taint{})
	return d.unmarshal(value, taintMessage)
}

func (d *nodeDecoder) status(value []byte) error {
	d.node.Status.Conditions = slices.Grow(d.node.Status.Conditions, count(value, statusConditions))
	return d.unmarshal(value, statusMessage)
}

func (d *nodeDecoder) condition(value []byte) error {
	d.node.Status.Conditions = append(d.node.Status.Conditions, corev1.NodeCondition{})
	return d.unmarshal(value, conditionMessage)
}

// eventDecoder decodes the events of a watch. Unlike client-go's decoder, it does not copy the object's bytes: they are
// valid until the next event is read, and the object is decoded before that.
type eventDecoder struct{ runtime.Serializer }

// Decode implements runtime.Decoder.
func (d eventDecoder) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object,
	*schema.GroupVersionKind, error) {
	if event, ok := into.(*metav1.WatchEvent); ok {
		event.Type, event.Object.Raw = string(first(data, eventType)), first(first(data, eventObject), extensionRaw)
		return event, nil, nil
	}
	return d.Serializer.Decode(data, defaults, into)
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
