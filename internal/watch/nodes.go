// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// LeanNodes returns a NewInformer for controller-runtime's cache.Options. Its informer of nodes decodes them with a
// nodeDecoder. For all other kinds it is this package's NewInformer.
func LeanNodes(config *rest.Config) func(cache.ListerWatcher, runtime.Object, time.Duration,
	cache.Indexers) cache.SharedIndexInformer {
	return func(lw cache.ListerWatcher, object runtime.Object, resync time.Duration,
		indexers cache.Indexers) cache.SharedIndexInformer {
		if _, ok := object.(*corev1.Node); !ok {
			return NewInformer(lw, object, resync, indexers)
		}
		var informer cache.SharedIndexInformer
		informer = NewInformer(leanNodes(config, func(name string) *corev1.Node {
			cached, _, _ := informer.GetStore().GetByKey(name)
			node, _ := cached.(*corev1.Node)
			return node
		}), object, resync, indexers)
		return informer
	}
}

// leanNodes lists and watches nodes with a nodeDecoder.
func leanNodes(config *rest.Config, cached func(name string) *corev1.Node) cache.ListerWatcher {
	client := sync.OnceValues(func() (rest.Interface, error) { return leanClient(config, cached) })
	request := func(options metav1.ListOptions) (*rest.Request, error) {
		c, err := client()
		if err != nil {
			return nil, fmt.Errorf("creating a client for nodes: %w", err)
		}
		return c.Get().Resource("nodes").VersionedParams(&options, scheme.ParameterCodec), nil
	}
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			req, err := request(options)
			if err != nil {
				return nil, err
			}
			list := &corev1.NodeList{}
			return list, req.Do(ctx).Into(list)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.Watch, options.AllowWatchBookmarks = true, true
			req, err := request(options)
			if err != nil {
				return nil, err
			}
			return req.Watch(ctx)
		},
	}
}

// leanClient returns a client with a nodeDecoder.
func leanClient(config *rest.Config, cached func(name string) *corev1.Node) (rest.Interface, error) {
	config = rest.CopyConfig(config)
	config.GroupVersion, config.APIPath = &corev1.SchemeGroupVersion, "/api"
	config.ContentType = runtime.ContentTypeProtobuf
	config.NegotiatedSerializer = newLeanSerializer(cached)
	return rest.RESTClientFor(config)
}

// leanSerializer decodes protobuf with one nodeDecoder for all requests of a client.
type leanSerializer struct {
	serializer.WithoutConversionCodecFactory
	types []runtime.SerializerInfo
}

func newLeanSerializer(cached func(name string) *corev1.Node) leanSerializer {
	s := leanSerializer{
		WithoutConversionCodecFactory: serializer.WithoutConversionCodecFactory{CodecFactory: scheme.Codecs},
		types:                         slices.Clone(scheme.Codecs.SupportedMediaTypes()), // all clients share the original
	}
	for i := range s.types {
		if info := &s.types[i]; info.MediaType == runtime.ContentTypeProtobuf {
			info.Serializer = &nodeDecoder{Serializer: info.Serializer, cached: cached}
			info.StreamSerializer = &runtime.StreamSerializerInfo{
				Serializer: eventDecoder{info.StreamSerializer.Serializer}, Framer: info.StreamSerializer.Framer,
			}
		}
	}
	return s
}

// SupportedMediaTypes implements runtime.NegotiatedSerializer.
func (s leanSerializer) SupportedMediaTypes() []runtime.SerializerInfo { return s.types }
