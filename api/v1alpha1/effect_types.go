// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// EvictionGuard keeps pods on a node from being evicted while the node is not ready.
//
// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule="!(has(self.endpoints) && has(self.endpoints.maxHoldSeconds) && self.endpoints.maxHoldSeconds > (has(self.maxHoldSeconds) ? self.maxHoldSeconds : 1800)) || oldSelf.hasValue() && has(oldSelf.value().endpoints) && has(oldSelf.value().endpoints.maxHoldSeconds) && oldSelf.value().endpoints.maxHoldSeconds > (has(oldSelf.value().maxHoldSeconds) ? oldSelf.value().maxHoldSeconds : 1800)",message="endpoints.maxHoldSeconds must be at most maxHoldSeconds, which is 1800 by default: lower endpoints.maxHoldSeconds, or raise maxHoldSeconds",fieldPath=".endpoints"
type EvictionGuard struct {
	// maxHoldSeconds is how long pods are kept at most, from when the node was no longer ready. If it is still not
	// ready then, the operator evicts the pods. Default 1800.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=604800
	MaxHoldSeconds *int32 `json:"maxHoldSeconds,omitempty"`

	// endpoints keeps the pods ready, and so the endpoints of Services, while the control plane has lost many nodes at
	// once. The rule must require the condition Ready with the status True, and not have conditionPolicy: anyOf. It
	// needs the admission policy for endpoints, which is not installed by default, and Kubernetes 1.36.
	// +optional
	Endpoints *GuardEndpoints `json:"endpoints,omitempty"`
}

// GuardEndpoints keeps pods ready while many nodes are lost at once.
type GuardEndpoints struct {
	// outagePercent is the share of the rule's nodes of which the leases are not renewed from which on the operator takes
	// the loss of a node for an outage of the control plane, and not for a fault of the node. Default 50.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	OutagePercent *int32 `json:"outagePercent,omitempty"`

	// maxHoldSeconds is how long pods are kept ready at most, from when the node was no longer ready. At least 20, and
	// at most the maxHoldSeconds of the guard. Default 600, or that of the guard if it is less.
	// +optional
	// +kubebuilder:validation:Minimum=20
	// +kubebuilder:validation:Maximum=604800
	MaxHoldSeconds *int32 `json:"maxHoldSeconds,omitempty"`
}

// Publish makes the operator keep the verdict as a node condition.
type Publish struct {
	// conditionType is the type of the condition, with a domain of your own: not kubernetes.io, k8s.io or a subdomain
	// of these. The condition is True if the node is ready, False if the rule holds the node because of evidence that
	// was reported, on at most maxUnavailable nodes, and otherwise Unknown. Overrides do not change it. The operator
	// removes it if the rule is deleted, is put in dry-run, or no longer selects the node. The operator does not change
	// a condition that a probe, an older rule or another controller publishes on the node.
	// +required
	// +kubebuilder:validation:MaxLength=316
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$')",message="must be a condition type with a domain, such as example.com/NetworkReady: a DNS subdomain and '/', then letters, digits, '-', '_' or '.', with a letter or digit first and last"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([^/]*[.])?(kubernetes|k8s)[.]io/')",message="conditions under kubernetes.io and k8s.io belong to Kubernetes: use a domain of your own, for example example.com/NetworkReady"
	ConditionType string `json:"conditionType"`
}

// Health makes the node agent answer for the rule on /health.
type Health struct {
	// checks are the checks that a request without check= runs on the nodes that the rule selects. At most 32.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Checks []HealthCheck `json:"checks"`
}

// HealthCheck is one check of /health.
//
// +kubebuilder:validation:XValidation:rule="!has(self.disk) || self.name == 'disk_pressure'",message="disk is for the check disk_pressure only: remove it, or use name: disk_pressure",fieldPath=".disk"
// +kubebuilder:validation:XValidation:rule="!has(self.network) || self.name == 'network'",message="network is for the check network only: remove it, or use name: network",fieldPath=".network"
// +kubebuilder:validation:XValidation:rule="!has(self.containerRuntime) || self.name == 'container_runtime'",message="containerRuntime is for the check container_runtime only: remove it, or use name: container_runtime",fieldPath=".containerRuntime"
// +kubebuilder:validation:XValidation:rule="!has(self.filesystem) || self.name == 'filesystem_ro'",message="filesystem is for the check filesystem_ro only: remove it, or use name: filesystem_ro",fieldPath=".filesystem"
// +kubebuilder:validation:XValidation:rule="!has(self.customConditions) || self.name == 'custom_conditions'",message="customConditions is for the check custom_conditions only: remove it, or use name: custom_conditions",fieldPath=".customConditions"
// +kubebuilder:validation:XValidation:rule="has(self.httpGet) == self.name.startsWith('http:')",message="httpGet is required in a check named http:<name>, and only there: give it, or use another name",fieldPath=".httpGet"
type HealthCheck struct {
	// name is the check: node_ready, okd_router_1936, filesystem_ro, kubelet, container_runtime, disk_pressure,
	// network, custom_conditions, rules, rule:<name of a rule>, schedulable, or http:<a name of your own>.
	// +required
	// +kubebuilder:validation:MaxLength=258
	// +kubebuilder:validation:XValidation:rule="self.matches('^(node_ready|okd_router_1936|filesystem_ro|kubelet|container_runtime|disk_pressure|network|custom_conditions|rules|schedulable|(rule|http):[a-z0-9]([-a-z0-9.]*[a-z0-9])?)$')",message="must be one of node_ready, okd_router_1936, filesystem_ro, kubelet, container_runtime, disk_pressure, network, custom_conditions, rules, schedulable, or rule:<name of a rule>, or http:<a name of your own>"
	Name string `json:"name"`

	// timeoutSeconds is how long the check may run before it counts as failed. Default 1; 5 for okd_router_1936
	// and for a writeTest.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=60
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`

	// periodSeconds is how often the check runs in the background. Requests are answered from its last result. With 0,
	// the default, the check runs for each request.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	PeriodSeconds int32 `json:"periodSeconds,omitempty"`

	// disk are the parameters of disk_pressure.
	// +optional
	Disk *DiskCheck `json:"disk,omitempty"`

	// network are the parameters of network.
	// +optional
	Network *NetworkCheck `json:"network,omitempty"`

	// containerRuntime are the parameters of container_runtime.
	// +optional
	ContainerRuntime *ContainerRuntimeCheck `json:"containerRuntime,omitempty"`

	// filesystem are the parameters of filesystem_ro.
	// +optional
	Filesystem *FilesystemCheck `json:"filesystem,omitempty"`

	// customConditions are the parameters of custom_conditions.
	// +optional
	CustomConditions *CustomConditionsCheck `json:"customConditions,omitempty"`

	// httpGet is the request of a check named http:<name>.
	// +optional
	HTTPGet *HTTPGetAction `json:"httpGet,omitempty"`
}

// DiskCheck are thresholds on filesystems.
type DiskCheck struct {
	// paths are directories of the node, whose filesystems are checked. Default /var/lib/kubelet. At most 16.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=4096
	// +kubebuilder:validation:items:XValidation:rule="self.startsWith('/')",message="must be an absolute path, such as /var/lib/kubelet"
	Paths []string `json:"paths,omitempty"`

	// minFreePercent is how many percent of the bytes must be free. Default 10.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=99
	MinFreePercent *int32 `json:"minFreePercent,omitempty"`

	// minFreeInodesPercent is how many percent of the inodes must be free. Default 5.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=99
	MinFreeInodesPercent *int32 `json:"minFreeInodesPercent,omitempty"`
}

// NetworkCheck is what must be reachable.
//
// +kubebuilder:validation:XValidation:rule="!has(self.defaultGateway) || self.defaultGateway || has(self.resolve) && self.resolve.size() > 0",message="give resolve, or leave defaultGateway true: otherwise the check looks at nothing"
type NetworkCheck struct {
	// resolve are host names that one of the node's DNS servers must resolve. At most 16. None by default.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^[-_0-9A-Za-z]+([.][-_0-9A-Za-z]+)*[.]?$')",message="must be a host name such as registry.example.com"
	Resolve []string `json:"resolve,omitempty"`

	// defaultGateway: false does not check the default gateway. The default is true.
	// +optional
	DefaultGateway *bool `json:"defaultGateway,omitempty"`
}

// ContainerRuntimeCheck is where the container runtime answers.
type ContainerRuntimeCheck struct {
	// socket is the path of the CRI socket on the node. By default the usual places are tried.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:XValidation:rule="self.startsWith('/')",message="must be an absolute path, such as /run/containerd/containerd.sock"
	Socket string `json:"socket,omitempty"`
}

// FilesystemCheck says which mounts filesystem_ro looks at, and whether it writes.
type FilesystemCheck struct {
	// ignorePaths are mount points that may be read-only. At most 64.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=4096
	// +kubebuilder:validation:items:XValidation:rule="self.startsWith('/')",message="must be an absolute path, such as /var/lib/kubelet"
	IgnorePaths []string `json:"ignorePaths,omitempty"`

	// writeTest: true also writes a few bytes to a temporary file in each directory that kubelet and the container
	// runtime need. This finds filesystems that fail without turning read-only. The check writes at most once in
	// periodSeconds, or in 30 seconds if that is 0. A directory that is full, or that the agent may not write to, is
	// reported and does not fail the check. The agents need the chart value agent.writeTest. Default false.
	// +optional
	WriteTest bool `json:"writeTest,omitempty"`
}

// CustomConditionsCheck is which further node conditions are looked at.
type CustomConditionsCheck struct {
	// types are condition types that must be True, besides those of the rules. At most 32.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=316
	Types []string `json:"types,omitempty"`
}

// Probe is run by the node agent; its result becomes a node condition. Exactly one action is given.
//
// +kubebuilder:validation:XValidation:rule="[has(self.httpGet), has(self.tcpSocket), has(self.grpc), has(self.file), has(self.check)].filter(x, x).size() == 1",message="give exactly one of httpGet, tcpSocket, grpc, file and check"
type Probe struct {
	// conditionType is the type of the node condition that the probe publishes. Conditions that belong to kubelet or
	// the cloud provider are refused.
	// +required
	// +kubebuilder:validation:MaxLength=316
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$')",message="must be a condition type such as example.com/CNIReady: an optional DNS subdomain and '/', then letters, digits, '-', '_' or '.', with a letter or digit first and last"
	// +kubebuilder:validation:XValidation:rule="!(self in ['Ready', 'NetworkUnavailable', 'GracefulNodeShutdownInProgress', 'DrainInProgress', 'Drained', 'MaintenancePlanned', 'MaintenanceInProgress'] || self.endsWith('Pressure') && !self.contains('/'))",message="this condition belongs to Kubernetes, as do Ready, NetworkUnavailable, all pressure conditions, and those of node shutdown, drain and maintenance: choose a type of your own, for example example.com/CNIReady"
	ConditionType string `json:"conditionType"`

	// httpGet succeeds on an expected status code.
	// +optional
	HTTPGet *HTTPGetAction `json:"httpGet,omitempty"`

	// tcpSocket succeeds if a connection can be opened.
	// +optional
	TCPSocket *TCPSocketAction `json:"tcpSocket,omitempty"`

	// grpc succeeds if the gRPC health service answers SERVING.
	// +optional
	GRPC *GRPCAction `json:"grpc,omitempty"`

	// file succeeds if a file exists on the node.
	// +optional
	File *FileAction `json:"file,omitempty"`

	// check is the name of a check of /health, with its default parameters.
	// +optional
	// +kubebuilder:validation:Enum=okd_router_1936;filesystem_ro;kubelet;container_runtime;disk_pressure;network
	Check string `json:"check,omitempty"`

	// periodSeconds is how often the probe runs. Default 30.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	PeriodSeconds *int32 `json:"periodSeconds,omitempty"`

	// timeoutSeconds is how long one run may take. Default 10.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=300
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`

	// successThreshold is how many runs in a row must succeed before the condition becomes True. Default 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	SuccessThreshold *int32 `json:"successThreshold,omitempty"`

	// failureThreshold is how many runs in a row must fail before the condition becomes False. Default 3.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	FailureThreshold *int32 `json:"failureThreshold,omitempty"`
}

// HTTPGetAction is an HTTP request.
type HTTPGetAction struct {
	// host is the address to connect to. Default 127.0.0.1. The agent refuses other than local addresses, unless a flag
	// allows them.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^([-_0-9A-Za-z]+([.][-_0-9A-Za-z]+)*[.]?|[0-9A-Fa-f]*:[0-9A-Fa-f]*:[:.0-9A-Fa-f]*(%[-_.0-9A-Za-z]+)?)?$')",message="must be a host name or an IP address, without a port"
	Host string `json:"host,omitempty"`

	// port is the port.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`

	// path is the path, and the query if there is one. Default /.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self.startsWith('/')",message="must begin with '/', such as /readiness"
	Path string `json:"path,omitempty"`

	// scheme is HTTP (the default) or HTTPS.
	// +optional
	// +kubebuilder:validation:Enum=HTTP;HTTPS
	Scheme string `json:"scheme,omitempty"`

	// insecureSkipVerify: true accepts any certificate, as kubelet's own probes do. Default false.
	// +optional
	InsecureSkipVerify bool `json:"insecureSkipVerify,omitempty"`

	// serverName is the name that the certificate must have. Default: host.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ServerName string `json:"serverName,omitempty"`

	// httpHeaders are sent with the request. At most 16.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	HTTPHeaders []HTTPHeader `json:"httpHeaders,omitempty"`

	// expectedStatuses are the status codes that mean success: a code ("204"), a class ("2xx") or a range
	// ("200-299"). Default 2xx. At most 16.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=7
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^([1-5][0-9]{2}|[1-5]xx|[1-5][0-9]{2}-[1-5][0-9]{2})$')",message="must be a status code such as 204, a class such as 2xx or a range such as 200-299, from 100 to 599"
	// +kubebuilder:validation:items:XValidation:rule="self.size() != 7 || self.substring(0, 3) <= self.substring(4)",message="the first status of a range must not be greater than the last one"
	ExpectedStatuses []string `json:"expectedStatuses,omitempty"`
}

// HTTPHeader is a header of a request.
type HTTPHeader struct {
	// name is the header's name.
	// +required
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-!#$%&\\'*+.^_`|~0-9A-Za-z]+$')",message="must be the name of an HTTP header, such as X-Probe: letters, digits and any of !#$%&'*+-.^_`|~"
	Name string `json:"name"`

	// value is the header's value.
	// +required
	// +kubebuilder:validation:MaxLength=4096
	Value string `json:"value"`
}

// TCPSocketAction is a TCP connection.
type TCPSocketAction struct {
	// host is the address to connect to. Default 127.0.0.1.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^([-_0-9A-Za-z]+([.][-_0-9A-Za-z]+)*[.]?|[0-9A-Fa-f]*:[0-9A-Fa-f]*:[:.0-9A-Fa-f]*(%[-_.0-9A-Za-z]+)?)?$')",message="must be a host name or an IP address, without a port"
	Host string `json:"host,omitempty"`

	// port is the port.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`
}

// GRPCAction is a request of the gRPC health protocol.
type GRPCAction struct {
	// host is the address to connect to. Default 127.0.0.1.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^([-_0-9A-Za-z]+([.][-_0-9A-Za-z]+)*[.]?|[0-9A-Fa-f]*:[0-9A-Fa-f]*:[:.0-9A-Fa-f]*(%[-_.0-9A-Za-z]+)?)?$')",message="must be a host name or an IP address, without a port"
	Host string `json:"host,omitempty"`

	// port is the port.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`

	// service is the name of the service. Default: the server as a whole.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Service string `json:"service,omitempty"`
}

// FileAction looks at a file of the node.
type FileAction struct {
	// path is the file's path.
	// +required
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:XValidation:rule="self.startsWith('/')",message="must be an absolute path, such as /run/cni/ready"
	Path string `json:"path"`

	// maxAgeSeconds is how old the file's last change may be. By default, any age.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2592000
	MaxAgeSeconds *int32 `json:"maxAgeSeconds,omitempty"`
}
