// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// Field numbers of the protobuf messages of k8s.io/api/core/v1/generated.proto and
// k8s.io/apimachinery/pkg/apis/meta/v1/generated.proto.
const (
	listItems                                               = 2
	nodeMetadata, nodeSpec, nodeStatus                      = 1, 2, 3
	metadataLabels, metadataAnnotations                     = 11, 12
	metadataManagedFields                                   = 17
	entryKey, entryValue                                    = 1, 2
	specTaints                                              = 5
	taintKey, taintValue, taintEffect                       = 1, 2, 3
	statusConditions                                        = 4
	statusImages, statusVolumesInUse, statusVolumesAttached = 8, 9, 10
	conditionType, conditionStatus                          = 1, 2
	conditionReason, conditionMessage                       = 5, 6
)

// Nodes are decoded without managed fields, images and volumes. They are most of a node's bytes, each heartbeat sends
// them again, and no verdict depends on them. Strings that many nodes have, such as keys, types and messages, are
// decoded to one shared string.
type (
	leanNode      struct{ corev1.Node }
	leanNodeList  struct{ corev1.NodeList }
	leanMetadata  metav1.ObjectMeta
	leanSpec      corev1.NodeSpec
	leanTaint     corev1.Taint
	leanStatus    corev1.NodeStatus
	leanCondition corev1.NodeCondition
	leanEntry     struct{ key, value string } // of a map
)

// message is a protobuf message. take decodes or skips a field that has a length, or returns false. rest merges runs of
// fields that take has not taken.
type message interface {
	take(field protowire.Number, value []byte) (bool, error)
	rest(data []byte) error
}

// Unmarshal implements the interface that the protobuf serializer asks for.
func (n *leanNode) Unmarshal(data []byte) error {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	return unmarshal(data, n)
}

func (n *leanNode) rest(data []byte) error { return n.Node.Unmarshal(data) }

func (n *leanNode) take(field protowire.Number, value []byte) (bool, error) {
	switch field {
	case nodeMetadata:
		return true, unmarshal(value, (*leanMetadata)(&n.ObjectMeta))
	case nodeSpec:
		n.Spec.Taints = slices.Grow(n.Spec.Taints, count(value, specTaints))
		return true, unmarshal(value, (*leanSpec)(&n.Spec))
	case nodeStatus:
		n.Status.Conditions = slices.Grow(n.Status.Conditions, count(value, statusConditions))
		return true, unmarshal(value, (*leanStatus)(&n.Status))
	}
	return false, nil
}

// Unmarshal implements the interface that the protobuf serializer asks for.
func (l *leanNodeList) Unmarshal(data []byte) error { return unmarshal(data, l) }

func (l *leanNodeList) rest(data []byte) error { return l.NodeList.Unmarshal(data) }

func (l *leanNodeList) take(field protowire.Number, value []byte) (bool, error) {
	if field != listItems {
		return false, nil
	}
	node := leanNode{}
	err := node.Unmarshal(value)
	l.Items = append(l.Items, node.Node)
	return true, err
}

func (m *leanMetadata) rest(data []byte) error { return (*metav1.ObjectMeta)(m).Unmarshal(data) }

func (m *leanMetadata) take(field protowire.Number, value []byte) (bool, error) {
	switch field {
	case metadataLabels:
		return true, addEntry(&m.Labels, value)
	case metadataAnnotations:
		return true, addEntry(&m.Annotations, value)
	}
	return field == metadataManagedFields, nil
}

func (s *leanSpec) rest(data []byte) error { return (*corev1.NodeSpec)(s).Unmarshal(data) }

func (s *leanSpec) take(field protowire.Number, value []byte) (bool, error) {
	if field != specTaints {
		return false, nil
	}
	s.Taints = append(s.Taints, corev1.Taint{})
	return true, unmarshal(value, (*leanTaint)(&s.Taints[len(s.Taints)-1]))
}

func (t *leanTaint) rest(data []byte) error { return (*corev1.Taint)(t).Unmarshal(data) }

func (t *leanTaint) take(field protowire.Number, value []byte) (bool, error) {
	switch field {
	case taintKey:
		t.Key = shared.get(value)
	case taintValue:
		t.Value = shared.get(value)
	case taintEffect:
		t.Effect = corev1.TaintEffect(shared.get(value))
	default:
		return false, nil
	}
	return true, nil
}

func (s *leanStatus) rest(data []byte) error { return (*corev1.NodeStatus)(s).Unmarshal(data) }

func (s *leanStatus) take(field protowire.Number, value []byte) (bool, error) {
	switch field {
	case statusConditions:
		s.Conditions = append(s.Conditions, corev1.NodeCondition{})
		return true, unmarshal(value, (*leanCondition)(&s.Conditions[len(s.Conditions)-1]))
	case statusImages, statusVolumesInUse, statusVolumesAttached:
		return true, nil
	}
	return false, nil
}

func (c *leanCondition) rest(data []byte) error { return (*corev1.NodeCondition)(c).Unmarshal(data) }

func (c *leanCondition) take(field protowire.Number, value []byte) (bool, error) {
	switch field {
	case conditionType:
		c.Type = corev1.NodeConditionType(shared.get(value))
	case conditionStatus:
		c.Status = corev1.ConditionStatus(shared.get(value))
	case conditionReason:
		c.Reason = shared.get(value)
	case conditionMessage:
		c.Message = shared.get(value)
	default:
		return false, nil
	}
	return true, nil
}

// addEntry decodes an entry of a map.
func addEntry(m *map[string]string, data []byte) error {
	e := leanEntry{}
	if err := unmarshal(data, &e); err != nil {
		return err
	}
	if *m == nil {
		*m = map[string]string{}
	}
	(*m)[e.key] = e.value
	return nil
}

func (*leanEntry) rest([]byte) error { return nil }

func (e *leanEntry) take(field protowire.Number, value []byte) (bool, error) {
	switch field {
	case entryKey:
		e.key = shared.get(value)
	case entryValue:
		e.value = shared.get(value)
	}
	return true, nil
}

// count returns how often a message has a field. A slice that grows to a known length has no empty room: a slice that
// doubles is half empty at worst, as long as the node is cached.
func count(data []byte, field protowire.Number) (n int) {
	for len(data) > 0 {
		f, _, size := protowire.ConsumeField(data)
		if size < 0 {
			break // unmarshal reports it
		}
		if f == field {
			n++
		}
		data = data[size:]
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

// LeanNodes returns a NewInformer for controller-runtime's cache.Options. Its informer of nodes never decodes what
// leanNode skips. For all other kinds it is this package's NewInformer.
func LeanNodes(config *rest.Config) func(cache.ListerWatcher, runtime.Object, time.Duration,
	cache.Indexers) cache.SharedIndexInformer {
	return func(lw cache.ListerWatcher, object runtime.Object, resync time.Duration,
		indexers cache.Indexers) cache.SharedIndexInformer {
		if _, ok := object.(*corev1.Node); ok {
			lw = leanNodes(config)
		}
		return NewInformer(lw, object, resync, indexers)
	}
}

// leanNodes lists and watches nodes without decoding what leanNode skips.
func leanNodes(config *rest.Config) cache.ListerWatcher {
	client := sync.OnceValues(func() (rest.Interface, error) { return leanClient(config) })
	request := func(options metav1.ListOptions) (*rest.Request, error) {
		c, err := client()
		if err != nil {
			return nil, fmt.Errorf("creating a client for nodes: %w", err)
		}
		return c.Get().Resource("nodes").VersionedParams(&options, metav1.ParameterCodec), nil
	}
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			req, err := request(options)
			if err != nil {
				return nil, err
			}
			list := &leanNodeList{}
			err = req.Do(ctx).Into(list)
			return &list.NodeList, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.Watch, options.AllowWatchBookmarks = true, true
			req, err := request(options)
			if err != nil {
				return nil, err
			}
			w, err := req.Watch(ctx)
			if err != nil {
				return nil, err
			}
			return watch.Filter(w, func(e watch.Event) (watch.Event, bool) {
				if node, ok := e.Object.(*leanNode); ok {
					e.Object = &node.Node
				}
				return e, true
			}), nil
		},
	}
}

// leanClient returns a client that decodes nodes as leanNode.
func leanClient(config *rest.Config) (rest.Interface, error) {
	version, scheme := corev1.SchemeGroupVersion, runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, version)
	scheme.AddKnownTypeWithName(version.WithKind("Node"), &leanNode{})
	scheme.AddKnownTypeWithName(version.WithKind("NodeList"), &leanNodeList{})
	config = rest.CopyConfig(config)
	config.GroupVersion, config.APIPath = &version, "/api"
	config.ContentType = runtime.ContentTypeProtobuf
	codecs := serializer.NewCodecFactory(scheme)
	config.NegotiatedSerializer = serializer.WithoutConversionCodecFactory{CodecFactory: codecs}
	return rest.RESTClientFor(config)
}
