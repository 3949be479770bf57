// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package nodewatch

import (
	"fmt"
	"net"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"github.com/nodegate/nodegate/internal/version"
)

// The client notices a lost API server after pingAfter of silence, pingLimit without an answer, and one failed request:
// within 5 seconds. The default of client-go is 45 seconds.
const (
	pingAfter = 1500 * time.Millisecond
	pingLimit = 1500 * time.Millisecond
	// RequestLimit is how long the API server may take to answer.
	RequestLimit = time.Second
	// quietFor is how long a watch may be silent: the API server sends a bookmark about once a minute. A proxy may answer
	// the pings, or speak HTTP/1, which has none.
	quietFor = 2 * time.Minute
)

// Client is a client of the API server for nodes only. The clientset for all types needs more memory than the agent
// has.
type Client struct {
	rest.Interface
	transport *http.Transport
}

// NewClient returns a client with the agent's time limits. It connects at the first request.
func NewClient(config *rest.Config) (*Client, error) {
	config = rest.CopyConfig(config)
	config.GroupVersion = &schema.GroupVersion{Version: "v1"}
	config.APIPath = "/api"
	config.NegotiatedSerializer = codecs.WithoutConversion()
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeProtobuf,
		runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	config.UserAgent = "nodegate-agent/" + version.Version
	config.QPS = -1
	transport, err := newTransport(config)
	if err != nil {
		return nil, fmt.Errorf("configuring the connection to the API server: %w", err)
	}
	wrapped, err := rest.HTTPWrappersForConfig(config, transport)
	if err != nil {
		return nil, fmt.Errorf("configuring the connection to the API server: %w", err)
	}
	client := &Client{transport: transport}
	if err := client.connect(config, wrapped); err != nil {
		return nil, fmt.Errorf("creating a client of the API server: %w", err)
	}
	return client, nil
}

// connect sends the requests to next.
func (c *Client) connect(config *rest.Config, next http.RoundTripper) (err error) {
	c.Interface, err = rest.RESTClientForConfigAndClient(config, &http.Client{Transport: next})
	return err
}

// Close closes idle connections.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

func newTransport(config *rest.Config) (*http.Transport, error) {
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	proxy := config.Proxy
	if proxy == nil {
		proxy = http.ProxyFromEnvironment
	}
	return &http.Transport{
		TLSClientConfig:     tlsConfig,
		Proxy:               proxy,
		DialContext:         (&net.Dialer{Timeout: RequestLimit, KeepAlive: pingAfter}).DialContext,
		TLSHandshakeTimeout: RequestLimit,
		ForceAttemptHTTP2:   true,
		HTTP2:               &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingLimit},
		MaxIdleConns:        2,
		IdleConnTimeout:     90 * time.Second,
	}, nil
}

// scheme has only the types that the agent reads and writes.
var scheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	v1 := schema.GroupVersion{Version: "v1"}
	s.AddKnownTypes(v1, &corev1.Node{}, &corev1.NodeList{})
	metav1.AddToGroupVersion(s, v1)
	return s
}()

var (
	codecs         = serializer.NewCodecFactory(scheme)
	parameterCodec = runtime.NewParameterCodec(scheme)
)
