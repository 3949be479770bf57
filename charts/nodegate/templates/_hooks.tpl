{{/*
A job of the operator's image that Helm runs at a point of the release's life, with an account and permissions of its own; all of it
is gone when that is done. Of a job that fails Helm shows the log, and the job stays to be looked at. Of (dict):
  root: $              name: after the release's, also the component
  hook: pre-upgrade    rules: of its ClusterRole
  args: of manager     deadline: in seconds, less than the five minutes that Helm waits
  retries: 3 by default
*/}}
{{- define "nodegate.hookJob" -}}
{{- $ := .root }}
{{- $name := printf "%s-%s" (include "nodegate.fullname" $) .name -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ $name }}
  namespace: {{ include "nodegate.namespace" $ }}
  {{- include "nodegate.hookMetadata" (list $ .hook "-2") | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ $name }}
  {{- include "nodegate.hookMetadata" (list $ .hook "-2") | nindent 2 }}
rules:
{{ toYaml .rules }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ $name }}
  {{- include "nodegate.hookMetadata" (list $ .hook "-2") | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ $name }}
subjects:
- kind: ServiceAccount
  name: {{ $name }}
  namespace: {{ include "nodegate.namespace" $ }}
{{- if $.Values.networkPolicy.enabled }}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ $name }}
  namespace: {{ include "nodegate.namespace" $ }}
  {{- include "nodegate.hookMetadata" (list $ .hook "-2") | nindent 2 }}
spec:
  podSelector:
    matchLabels:
      {{- include "nodegate.instanceLabels" $ | nindent 6 }}
      app.kubernetes.io/component: {{ .name }}
  policyTypes:
  - Ingress
  - Egress
  {{- include "nodegate.networkPolicyEgress" $ | nindent 2 }}
{{- end }}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ $name }}
  namespace: {{ include "nodegate.namespace" $ }}
  {{- include "nodegate.hookMetadata" (list $ .hook "-1") | nindent 2 }}
spec:
  backoffLimit: {{ .retries | default 3 }}
  activeDeadlineSeconds: {{ .deadline }}
  template:
    metadata:
      labels:
        {{- include "nodegate.instanceLabels" $ | fromYaml | mergeOverwrite (dict "app.kubernetes.io/component" .name) $.Values.commonLabels | toYaml | nindent 8 }}
      {{- with $.Values.commonAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      serviceAccountName: {{ $name }}
      restartPolicy: Never
      {{- with $.Values.imagePullSecrets }}
      imagePullSecrets:
      {{- toYaml . | nindent 6 }}
      {{- end }}
      {{- with $.Values.tolerations }}
      tolerations:
      {{- toYaml . | nindent 6 }}
      {{- end }}
      {{- with $.Values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      enableServiceLinks: false
      securityContext:
        {{- include "nodegate.podSecurityContext" $ | nindent 8 }}
      containers:
      - name: {{ .name }}
        image: {{ include "nodegate.image" $ | quote }}
        imagePullPolicy: {{ $.Values.image.pullPolicy }}
        command: [/manager]
        args:
        {{- toYaml .args | nindent 8 }}
        - --api-group={{ $.Values.apiGroup }}
        {{- with $.Values.extraEnv }}
        env:
        {{- toYaml . | nindent 8 }}
        {{- end }}
        resources:
          requests: {cpu: 10m, memory: 32Mi}
          limits: {memory: 128Mi}
        securityContext:
          {{- toYaml $.Values.containerSecurityContext | nindent 10 }}
{{- end }}

{{/* Metadata of what belongs to a hook, of (list $ hook weight). */}}
{{- define "nodegate.hookMetadata" -}}
{{- $annotations := dict
  "helm.sh/hook" (index . 1)
  "helm.sh/hook-delete-policy" "before-hook-creation,hook-succeeded"
  "helm.sh/hook-output-log-policy" "hook-failed"
  "helm.sh/hook-weight" (index . 2) }}
{{- include "nodegate.metadata" (list (index . 0) (dict "annotations" $annotations)) }}
{{- end }}
