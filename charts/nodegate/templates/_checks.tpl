{{/* All rules of the values: by name, each with spec, labels, annotations, and the path of its spec in the values. */}}
{{- define "nodegate.rules" -}}
{{- $rules := dict }}
{{- range $name, $rule := .Values.rules }}
{{- if $rule }}{{/* null: an overlay removed it */}}
{{- $_ := set $rules $name (merge (dict "path" (printf "rules.%s.spec" $name)) $rule) }}
{{- end }}
{{- end }}
{{- range $i, $entry := .Values.nodeReadinessRules }}
{{- if hasKey $rules $entry.name }}
{{- fail (printf "nodeReadinessRules[%d]: the values have two rules with the name %s" $i $entry.name) }}
{{- end }}
{{- $rule := dict "labels" $entry.labels "annotations" $entry.annotations "spec" (omit $entry "name" "labels" "annotations") }}
{{- $_ := set $rules $entry.name (set $rule "path" (printf "nodeReadinessRules[%d]" $i)) }}
{{- end }}
{{- toJson $rules }}
{{- end }}

{{/* Refuses values of the Node Readiness Controller's chart that this chart does not understand, and names the value to use. */}}
{{- define "nodegate.checkValues" -}}
{{- $container := "use containerSecurityContext; securityContext is the pod's" }}
{{- $instead := dict
  "replicaCount" "use replicas"
  "podDisruptionBudget.minAvailable" "use podDisruptionBudget.maxUnavailable"
  "controller.kubeAPIQPS" "use extraArgs: [--kube-api-qps=NUMBER]"
  "controller.kubeAPIBurst" "use extraArgs: [--kube-api-burst=NUMBER]"
  "controller.nodeConcurrentReconciles" "use extraArgs: [--node-concurrent-reconciles=NUMBER]"
  "controller.ruleConcurrentReconciles" "use extraArgs: [--rule-concurrent-reconciles=NUMBER]"
  "controller.enableNodeStateMetrics" "use extraArgs: [--enable-node-state-metrics]"
  "controller.pprofBindAddress" "use extraArgs: [--pprof-bind-address=ADDRESS]"
  "leaderElection" "remove it; the operator always elects a leader, by a lease in its own namespace"
  "healthProbeBindAddress" "remove it; the port is 8081"
  "livenessProbe.httpGet" "remove it; the chart sets it"
  "readinessProbe.httpGet" "remove it; the chart sets it"
  "metrics.secure" "remove it; for metrics over HTTP use extraArgs: [--metrics-secure=false]"
  "metrics.bindAddress" "use metrics.port"
  "metrics.certDir" "use extraVolumes, extraVolumeMounts and extraArgs: [--metrics-cert-dir=DIRECTORY]"
  "metrics.certSecretName" "use extraVolumes, extraVolumeMounts and extraArgs: [--metrics-cert-dir=DIRECTORY]"
  "metrics.service.port" "use metrics.port"
  "metrics.service.type" "remove it; the Service has an IP address of the cluster"
  "webhook" "use webhooks"
  "certManager" "use webhooks.certManager"
  "validatingWebhook" "use webhooks.enabled"
  "podSecurityContext" "use securityContext"
  "securityContext.allowPrivilegeEscalation" $container
  "securityContext.capabilities" $container
  "securityContext.privileged" $container
  "securityContext.readOnlyRootFilesystem" $container
  "crds.enabled" "remove it; Helm installs the CRD from the directory crds. To leave it out use helm install --skip-crds"
  "crds.keep" "remove it; Helm never deletes a CRD from the directory crds" }}
{{- $refused := list }}
{{- range $path := keys $instead | sortAlpha }}
{{- $value := $.Values }}
{{- range $part := splitList "." $path }}
{{- if kindIs "map" $value }}
{{- $value = get $value $part }}
{{- end }}
{{- end }}
{{- if not (or (kindIs "invalid" $value) (eq (toString $value) "")) }}
{{- $refused = append $refused (printf "%s: %s" $path (get $instead $path)) }}
{{- end }}
{{- end }}
{{- if contains "node-readiness-controller" .Values.image.repository }}
{{- $refused = append $refused "image: remove it; this is the image of the Node Readiness Controller" }}
{{- end }}
{{- with $refused }}
{{- fail (printf "values that this chart does not have:\n- %s" (join "\n- " .)) }}
{{- end }}
{{- end }}

{{/* Refuses values that contradict each other. */}}
{{- define "nodegate.checkContradictions" -}}
{{- if not .Values.webhooks.enabled }}
{{- if .Values.podAdmission.enabled }}
{{- fail "podAdmission.enabled: needs webhooks.enabled=true" }}
{{- end }}
{{- if .Values.evictionGuard.endpoints.enabled }}
{{- fail "evictionGuard.endpoints.enabled: needs webhooks.enabled=true" }}
{{- end }}
{{- if eq .Values.nodeAdmission.engine "webhook" }}
{{- fail "nodeAdmission.engine: webhook needs webhooks.enabled=true" }}
{{- end }}
{{- if eq .Values.nodeAdmission.failurePolicy "Fail" }}
{{- fail "nodeAdmission.failurePolicy: Fail needs webhooks.enabled=true: only the webhook can refuse nodes" }}
{{- end }}
{{- end }}
{{- if and (eq .Values.nodeAdmission.engine "off") (eq .Values.nodeAdmission.failurePolicy "Fail") }}
{{- fail "nodeAdmission.failurePolicy: with nodeAdmission.engine=off, nothing taints nodes at creation, and Fail would only refuse them: set Ignore" }}
{{- end }}
{{- if and .Values.openshift.enabled .Values.hostNetwork }}
{{- fail "hostNetwork: the SCC restricted-v2, which openshift.enabled=true requires for the operator, forbids the host network: set hostNetwork=false" }}
{{- end }}
{{- if and .Values.agent.writeTest (not .Values.agent.hostRoot.enabled) }}
{{- fail "agent.writeTest: needs agent.hostRoot.enabled=true: without the node's root directory, the agents do not run filesystem_ro. Set it, or remove agent.writeTest" }}
{{- end }}
{{- if and .Values.webhooks.enabled .Values.metrics.enabled (eq (int .Values.webhooks.port) (int .Values.metrics.port)) }}
{{- fail (printf "metrics.port: %d is the port of webhooks.port, too: change one of them" (int .Values.metrics.port)) }}
{{- end }}
{{- range .Values.extraArgs }}
{{- if regexMatch "^--api-group(=|$)" . }}
{{- fail (printf "extraArgs: remove %s, and set apiGroup, which also gives the operator its permissions" .) }}
{{- end }}
{{- end }}
{{- $taken := dict }}
{{- range $name := list "port" "agentCheckPort" "metricsPort" "probePort" }}
{{- $port := ternary (include "nodegate.agentMetricsPort" $) (get $.Values.agent $name | toString) (eq $name "metricsPort") }}
{{- if and (not (has $port (list "" "0" "<nil>"))) (hasKey $taken $port) }}
{{- fail (printf "agent.%s: %s is the port of agent.%s, too" $name $port (get $taken $port)) }}
{{- end }}
{{- $_ := set $taken $port $name }}
{{- end }}
{{- end }}

{{/* Refuses a first install in the API group of a Node Readiness Controller that renews its lease, or whose CRD an add-on manager
restores. Offline there is neither. */}}
{{- define "nodegate.checkIncumbent" -}}
{{- if and .Release.IsInstall (eq .Values.apiGroup "readiness.node.x-k8s.io") }}
{{- $own := "Or install Nodegate in its own API group, with apiGroup=rules.nodegate.io" }}
{{- range $lease := (lookup "coordination.k8s.io/v1" "Lease" "" "").items }}
{{- if and (eq $lease.metadata.name "ba65f13e.readiness.node.x-k8s.io") (ne $lease.metadata.namespace "kube-node-lease") $lease.spec.holderIdentity $lease.spec.renewTime }}
{{- $renewed := toDate "2006-01-02T15:04:05.999999Z07:00" $lease.spec.renewTime | unixEpoch | int64 }}
{{- if lt (sub (now | unixEpoch | int64) $renewed) 60 }}
{{- fail (printf "a Node Readiness Controller runs: %s renews the lease %s/%s. Scale its Deployment to 0, or if your provider runs it, turn it off there. Then wait a minute, and install again. %s" $lease.spec.holderIdentity $lease.metadata.namespace $lease.metadata.name $own) }}
{{- end }}
{{- end }}
{{- end }}
{{- with (lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" "nodereadinessrules.readiness.node.x-k8s.io").metadata }}
{{- with index (.labels | default dict) "addonmanager.kubernetes.io/mode" }}
{{- fail (printf "an add-on manager manages the CRD nodereadinessrules.readiness.node.x-k8s.io, which has the label addonmanager.kubernetes.io/mode=%s. Turn the add-on off at your provider, remove the label, and install again. %s" . $own) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Refuses an upgrade to another API group: the rules of the group before are not read any more, and all nodes are released.
"kubectl nodegate convert --live" moves the rules, and notes that in AdmissionRules. */}}
{{- define "nodegate.checkGroup" -}}
{{- if .Release.IsUpgrade }}
{{- with lookup "apps/v1" "Deployment" (include "nodegate.namespace" .) (include "nodegate.manager" .) }}
{{- $group := "readiness.node.x-k8s.io" }}
{{- range $container := .spec.template.spec.containers }}
{{- range $arg := $container.args }}
{{- if hasPrefix "--api-group=" $arg }}
{{- $group = trimPrefix "--api-group=" $arg }}
{{- end }}
{{- end }}
{{- end }}
{{- if ne $group $.Values.apiGroup }}
{{- with lookup "nodegate.io/v1alpha1" "AdmissionRules" "" "nodegate" }}
{{- $group = ternary "rules.nodegate.io" "readiness.node.x-k8s.io" (hasPrefix "nodegate.io/" (.markerPrefix | default "")) }}
{{- end }}
{{- end }}
{{- if ne $group $.Values.apiGroup }}
{{- fail (printf "apiGroup: this release serves %s. An upgrade cannot change it to %s: use --set apiGroup=%[1]s, or --reset-then-reuse-values. To change the group, run kubectl nodegate convert --live first, as docs/change-api-group.md says" $group $.Values.apiGroup) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
