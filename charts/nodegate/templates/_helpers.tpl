{{- define "nodegate.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* What the names of all objects begin with; short enough for what follows. */}}
{{- define "nodegate.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else }}
{{- $name := include "nodegate.name" . }}
{{- if contains $name .Release.Name }}
{{- .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" }}
{{- end }}
{{- end }}
{{- end }}

{{- define "nodegate.namespace" -}}
{{ default .Release.Namespace .Values.namespaceOverride }}
{{- end }}

{{- define "nodegate.manager" -}}
{{ include "nodegate.fullname" . }}-manager
{{- end }}

{{/* The name of the webhooks' Service, of their configurations, and of what belongs to them. */}}
{{- define "nodegate.webhook" -}}
{{ include "nodegate.fullname" . }}-webhook
{{- end }}

{{/* Whether the policy for nodes is installed: where it is asked for, or the API server knows such policies. */}}
{{- define "nodegate.nodeAdmissionPolicy" -}}
{{- if or (eq .Values.nodeAdmission.engine "policy") (and (eq .Values.nodeAdmission.engine "auto") (.Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy")) -}}
true
{{- end }}
{{- end }}

{{- define "nodegate.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "nodegate.manager" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{/* The image. The chart of a release names the release's by its digest: values that name another image win. */}}
{{- define "nodegate.image" -}}
{{- $released := index .Chart.Annotations "nodegate.io/image" | default "" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else if and (not .Values.image.tag) (hasPrefix (printf "%s@" .Values.image.repository) $released) -}}
{{ $released }}
{{- else -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end }}
{{- end }}

{{/* The pod's securityContext, for the operator and the jobs. OpenShift chooses the user from the namespace's range. */}}
{{- define "nodegate.podSecurityContext" -}}
{{- ternary (omit .Values.securityContext "runAsUser" "runAsGroup") .Values.securityContext .Values.openshift.enabled | toYaml }}
{{- end }}

{{/* The name is the same under an alias and nameOverride: the operator and the plugin find the pods by it. */}}
{{- define "nodegate.instanceLabels" -}}
app.kubernetes.io/name: nodegate
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* Labels of every object. */}}
{{- define "nodegate.labels" -}}
{{ include "nodegate.instanceLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* Labels of the operator's pods, by which they are selected. */}}
{{- define "nodegate.managerLabels" -}}
{{ include "nodegate.instanceLabels" . }}
app.kubernetes.io/component: manager
{{- end }}

{{- define "nodegate.agent" -}}
{{ include "nodegate.fullname" . }}-agent
{{- end }}

{{- define "nodegate.agentServiceAccountName" -}}
{{- if .Values.agent.serviceAccount.create }}
{{- default (include "nodegate.agent" .) .Values.agent.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.agent.serviceAccount.name }}
{{- end }}
{{- end }}

{{/* Labels of the node agents' pods, by which they are selected. */}}
{{- define "nodegate.agentLabels" -}}
{{ include "nodegate.instanceLabels" . }}
app.kubernetes.io/component: agent
{{- end }}

{{/* What a pod of ours may reach: the API server, and DNS. */}}
{{- define "nodegate.networkPolicyEgress" -}}
egress:
- ports:
  {{- /* A rule without ports would be about all. */}}
  {{- range required "networkPolicy.apiServerPorts: name at least one port: without any the operator could not reach the API server" .Values.networkPolicy.apiServerPorts }}
  - port: {{ . }}
    protocol: TCP
  {{- end }}
- ports:
  {{- range $port := ternary (list 53 5353) (list 53) .Values.openshift.enabled }}
  - port: {{ $port }}
    protocol: UDP
  - port: {{ $port }}
    protocol: TCP
  {{- end }}
{{- end }}

{{/* Whether the operator serves metrics over HTTP. Everyone may read them then. */}}
{{- define "nodegate.plainMetrics" -}}
{{- range .Values.extraArgs }}
{{- if regexMatch "^--metrics-secure=(0|f|F|false|FALSE|False)$" . -}}
true
{{- end }}
{{- end }}
{{- end }}

{{/* The host in the address of the node agents' metrics. */}}
{{- define "nodegate.agentMetricsHost" -}}
{{- with .Values.agent.metricsAddress }}{{ ternary (printf "[%s]" .) . (contains ":" .) }}{{ end }}
{{- end }}

{{/* The port of the node agents' metrics. On OpenShift another one by default: on control-plane nodes on premises its own HAProxy has 9445. */}}
{{- define "nodegate.agentMetricsPort" -}}
{{ .Values.agent.metricsPort | default (ternary 25003 9445 .Values.openshift.enabled) }}
{{- end }}

{{/*
Labels and annotations of an object, of (list $ (dict "component" "manager" "labels" ... "annotations" ...)), all of them
optional. What objects are found by wins over commonLabels and commonAnnotations.
*/}}
{{- define "nodegate.metadata" -}}
{{- $root := index . 0 }}
{{- $own := index . 1 }}
{{- $labels := mergeOverwrite (dict) $root.Values.commonLabels ($own.labels | default dict) (include "nodegate.labels" $root | fromYaml) }}
{{- with $own.component }}
{{- $_ := set $labels "app.kubernetes.io/component" . }}
{{- end -}}
labels:
  {{- toYaml $labels | nindent 2 }}
{{- with mergeOverwrite (dict) $root.Values.commonAnnotations ($own.annotations | default dict) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Labels and annotations of the pods of a component, of (list $ component labels annotations the-chart's-own-annotations). */}}
{{- define "nodegate.podMetadata" -}}
{{- $root := index . 0 }}
{{- $component := index . 1 -}}
labels:
  {{- include (printf "nodegate.%sLabels" $component) $root | fromYaml | mergeOverwrite (dict) $root.Values.commonLabels (index . 2) | toYaml | nindent 2 }}
annotations:
  {{- mergeOverwrite (dict "kubectl.kubernetes.io/default-container" $component) $root.Values.commonAnnotations (index . 4) (index . 3) | toYaml | nindent 2 }}
{{- end }}

{{/* The fields of an endpoint that ServiceMonitor and PodMonitor share, of the values of one of them. */}}
{{- define "nodegate.scraping" -}}
{{- range $field := list "interval" "scrapeTimeout" "relabelings" "metricRelabelings" }}
{{- with index $ $field }}
{{ dict $field . | toYaml }}
{{- end }}
{{- end }}
{{- end }}

{{/* Changes the alerts in the spec of a PrometheusRule as the values say, of (list spec alerts). */}}
{{- define "nodegate.alerts" -}}
{{- $changes := index . 1 }}
{{- $known := list }}
{{- range $group := (index . 0).groups }}
{{- $rules := list }}
{{- range $rule := $group.rules }}
{{- $known = append $known $rule.alert }}
{{- $change := index $changes $rule.alert | default dict }}
{{- if hasKey $change "for" }}
{{- $_ := set $rule "for" $change.for }}
{{- end }}
{{- with $change.severity }}
{{- $_ := set $rule.labels "severity" . }}
{{- end }}
{{- if hasKey $change "threshold" }}
{{- if not (regexMatch "> [0-9.]+$" $rule.expr) }}
{{- fail (printf "monitoring.prometheusRule.alerts.%s.threshold: the alert has no threshold" $rule.alert) }}
{{- end }}
{{- $_ := set $rule "expr" (regexReplaceAll "[0-9.]+$" $rule.expr (toString $change.threshold)) }}
{{- end }}
{{- if ne (toString $change.enabled) "false" }}
{{- $rules = append $rules $rule }}
{{- end }}
{{- end }}
{{- $_ := set $group "rules" $rules }}
{{- end }}
{{- range $name := keys $changes | sortAlpha }}
{{- if not (has $name $known) }}
{{- fail (printf "monitoring.prometheusRule.alerts.%s: there is no such alert" $name) }}
{{- end }}
{{- end }}
{{- end }}

{{/* The word for rules that kubectl knows: the short name in their API group. */}}
{{- define "nodegate.rulesWord" -}}
{{- ternary "nrr" "ngr" (eq .Values.apiGroup "readiness.node.x-k8s.io") -}}
{{- end }}
