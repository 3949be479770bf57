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
	nodeMetadata, nodeSpec, nodeStatus, listItems = 1, 2, 3, 2

	metadataManagedFields                                   = 17
	specTaints, statusConditions                            = 5, 4
	statusImages, statusVolumesInUse, statusVolumesAttached = 8, 9, 10
)

// leanNode is a node whose managed fields, images and volumes are skipped when it is decoded. They are most of a node's
// bytes, each heartbeat sends them again, and no verdict depends on them.
type leanNode struct{ corev1.Node }

// Unmarshal implements the interface that the protobuf serializer asks for.
func (n *leanNode) Unmarshal(data []byte) error {
	return unmarshal(data, n.Node.Unmarshal, func(field protowire.Number, value []byte) (bool, error) {
		switch field {
		case nodeMetadata:
			return true, unmarshal(value, n.ObjectMeta.Unmarshal, skip(metadataManagedFields))
		case nodeSpec:
			n.Spec.Taints = grow(n.Spec.Taints, value, specTaints)
			return true, n.Spec.Unmarshal(value)
		case nodeStatus:
			n.Status.Conditions = grow(n.Status.Conditions, value, statusConditions)
			return true, unmarshal(value, n.Status.Unmarshal,
				skip(statusImages, statusVolumesInUse, statusVolumesAttached))
		}
		return false, nil
	})
}

// leanNodeList is a list of lean nodes.
type leanNodeList struct{ corev1.NodeList }

// Unmarshal implements the interface that the protobuf serializer asks for.
func (l *leanNodeList) Unmarshal(data []byte) error {
	return unmarshal(data, l.NodeList.Unmarshal, func(field protowire.Number, value []byte) (bool, error) {
		if field != listItems {
			return false, nil
		}
		node := leanNode{}
		err := node.Unmarshal(value)
		l.Items = append(l.Items, node.Node)
		return true, err
	})
}

func skip(fields ...protowire.Number) func(protowire.Number, []byte) (bool, error) {
	return func(field protowire.Number, _ []byte) (bool, error) {
		return slices.Contains(fields, field), nil
	}
}

// grow makes room for the messages of a repeated field. Otherwise the slice doubles each time that it is full, and up
// to half of what the cache keeps of it is empty.
func grow[T any](s []T, data []byte, field protowire.Number) []T {
	n := 0
	_ = unmarshal(data, func([]byte) error { return nil }, func(f protowire.Number, _ []byte) (bool, error) {
		if f == field {
			n++
		}
		return false, nil
	})
	return slices.Grow(s, n)
}

// unmarshal splits an encoded message. It calls take with each field that has a length. Runs of fields that take does
// not take go to rest, which merges each run into what it has decoded before.
func unmarshal(data []byte, rest func([]byte) error, take func(protowire.Number, []byte) (bool, error)) error {
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
			taken, err := take(field, value)
			if err != nil {
				return err
			}
			if taken {
				if err := rest(data[from:at]); err != nil {
					return err
				}
				from = next
			}
		}
		at = next
	}
	return rest(data[from:])
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
