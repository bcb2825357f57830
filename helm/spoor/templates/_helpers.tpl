{{- define "spoor.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "spoor.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- $name := include "spoor.name" . }}
{{- if contains $name .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Cluster-wide objects carry the namespace as well: two releases may have one name. */}}
{{- define "spoor.clusterName" -}}
{{- $name := include "spoor.fullname" . }}
{{- if eq $name .Release.Namespace }}
{{- $name }}
{{- else }}
{{- printf "%s-%s" .Release.Namespace $name | trunc 253 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "spoor.selectorLabels" -}}
app.kubernetes.io/name: {{ include "spoor.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: agent
{{- end }}

{{- define "spoor.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "spoor.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* metadata of an object: (list $ NAME LABELS ANNOTATIONS); NAME "" is the usual one. */}}
{{- define "spoor.metadata" -}}
{{- $root := index . 0 }}
{{- $annotations := merge (dict) (index . 3) $root.Values.commonAnnotations -}}
name: {{ index . 1 | default (include "spoor.fullname" $root) }}
labels:
  {{- include "spoor.labels" $root | nindent 2 }}
  {{- with index . 2 }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with $annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "spoor.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- .Values.serviceAccount.name | default (include "spoor.fullname" .) }}
{{- else }}
{{- .Values.serviceAccount.name | default "default" }}
{{- end }}
{{- end }}

{{- define "spoor.image" -}}
{{- $registry := .Values.global.imageRegistry | default .Values.image.registry }}
{{- with $registry }}{{ . }}/{{ end }}{{ .Values.image.repository }}
{{- if .Values.image.digest }}@{{ .Values.image.digest }}
{{- else }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
{{- end }}

{{- define "spoor.imagePullSecrets" -}}
{{- range concat .Values.global.imagePullSecrets .Values.image.pullSecrets }}
- name: {{ if kindIs "string" . }}{{ . }}{{ else }}{{ .name }}{{ end }}
{{- end }}
{{- end }}

{{- define "spoor.configMapName" -}}
{{- .Values.existingConfigMap | default (include "spoor.fullname" .) }}
{{- end }}

{{- /* The words on and off are booleans to YAML: an unquoted `propagation: off` is meant as the word. */}}
{{- define "spoor.configFile" -}}
{{- $config := deepCopy .Values.config }}
{{- if kindIs "bool" (get $config "propagation") }}
{{- $_ := set $config "propagation" "off" }}
{{- end }}
{{- tpl (toYaml $config) . }}
{{- end }}

{{- /* Separated by commas. Watching sockets, to put headers into requests, needs one more; writing into programs' memory, another. */}}
{{- define "spoor.capabilities" -}}
{{- $mode := get .Values.config "propagation" | default "off" | toString }}
{{- $list := .Values.privileges.capabilities }}
{{- if ne $mode "off" }}
{{- $list = append $list "NET_ADMIN" }}
{{- end }}
{{- if eq $mode "write" }}
{{- $list = append $list "SYS_ADMIN" }}
{{- end }}
{{- join "," (uniq $list) }}
{{- end }}

{{- define "spoor.adminPort" -}}
{{- dig "admin" "port" 9464 .Values.config | int64 }}
{{- end }}

{{- /* Port of the traced programs' metrics, "" when nobody may scrape them. */}}
{{- define "spoor.applicationsPort" -}}
{{- $exporters := dig "metrics" "exporters" "otlp" .Values.config }}
{{- if contains "prometheus" (kindIs "slice" $exporters | ternary (join "," $exporters) ($exporters | toString)) }}
{{- dig "prometheus" "port" 9465 .Values.config | int64 }}
{{- end }}
{{- end }}

{{- /* Port of the collector, for the network policy. */}}
{{- define "spoor.otlpPort" -}}
{{- $endpoint := tpl (dig "otlp" "traces_endpoint" "" .Values.config | default (dig "otlp" "endpoint" "" .Values.config)) . }}
{{- if not $endpoint }}4318
{{- else }}
{{- $url := urlParse $endpoint }}
{{- $port := regexFind ":[0-9]+$" $url.host | trimPrefix ":" }}
{{- $port | default (ternary "443" "80" (eq $url.scheme "https")) }}
{{- end }}
{{- end }}

{{- define "spoor.appArmorField" -}}
{{- if semverCompare ">=1.30-0" .Capabilities.KubeVersion.Version }}yes{{ end }}
{{- end }}

{{- define "spoor.podSecurityContext" -}}
{{- $generated := dict }}
{{- with .Values.privileges.seccompProfile }}
{{- $_ := set $generated "seccompProfile" . }}
{{- end }}
{{- with .Values.privileges.seLinuxOptions }}
{{- $_ := set $generated "seLinuxOptions" . }}
{{- end }}
{{- toYaml (mergeOverwrite $generated (deepCopy .Values.podSecurityContext)) }}
{{- end }}

{{- define "spoor.securityContext" -}}
{{- $generated := dict "runAsUser" 0 "privileged" false "allowPrivilegeEscalation" false "readOnlyRootFilesystem" true }}
{{- $_ := set $generated "capabilities" (dict "drop" (list "ALL") "add" (include "spoor.capabilities" . | splitList ",")) }}
{{- if and .Values.privileges.appArmorProfile (include "spoor.appArmorField" .) }}
{{- $_ := set $generated "appArmorProfile" .Values.privileges.appArmorProfile }}
{{- end }}
{{- toYaml (mergeOverwrite $generated (deepCopy .Values.securityContext)) }}
{{- end }}

{{- /* What AppArmor was told before Kubernetes 1.30. */}}
{{- define "spoor.appArmorAnnotations" -}}
{{- $profile := .Values.privileges.appArmorProfile }}
{{- if and $profile (not (include "spoor.appArmorField" .)) }}
{{- $names := dict "Unconfined" "unconfined" "RuntimeDefault" "runtime/default" }}
container.apparmor.security.beta.kubernetes.io/agent: {{ get $names $profile.type | default (printf "localhost/%s" (get $profile "localhostProfile")) }}
{{- end }}
{{- end }}

{{- define "spoor.env" -}}
- name: NODE_NAME
  valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
- name: HOST_IP
  valueFrom: {fieldRef: {fieldPath: status.hostIP}}
{{- with .Values.otlp.headersSecret }}
{{- if .name }}
- name: OTEL_EXPORTER_OTLP_HEADERS
  valueFrom: {secretKeyRef: {name: {{ .name }}, key: {{ .key }}}}
{{- end }}
{{- end }}
{{- if .Values.otlp.caSecret.name }}
- name: OTEL_EXPORTER_OTLP_CERTIFICATE
  value: /etc/spoor/otlp/ca.crt
{{- end }}
{{- with .Values.env }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "spoor.volumeMounts" -}}
- {name: config, mountPath: /etc/spoor/config, readOnly: true}
{{- if .Values.otlp.caSecret.name }}
- {name: otlp-ca, mountPath: /etc/spoor/otlp, readOnly: true}
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "spoor.volumes" -}}
- name: config
  configMap: {name: {{ include "spoor.configMapName" . }}}
{{- with .Values.otlp.caSecret }}
{{- if .name }}
- name: otlp-ca
  secret:
    secretName: {{ .name }}
    items: [{key: {{ .key }}, path: ca.crt}]
{{- end }}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* Where a pod of the agent may run, and as whom: the DaemonSet's and the test's. */}}
{{- define "spoor.podSettings" -}}
serviceAccountName: {{ include "spoor.serviceAccountName" . }}
{{- with include "spoor.imagePullSecrets" . | trim }}
imagePullSecrets:
  {{- . | nindent 2 }}
{{- end }}
hostPID: true
{{- if .Values.hostNetwork }}
hostNetwork: true
{{- end }}
{{- with .Values.dnsPolicy | default (ternary "ClusterFirstWithHostNet" "" .Values.hostNetwork) }}
dnsPolicy: {{ . }}
{{- end }}
enableServiceLinks: false
{{- with .Values.runtimeClassName }}
runtimeClassName: {{ . }}
{{- end }}
securityContext:
  {{- include "spoor.podSecurityContext" . | nindent 2 }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* Contradictions that the schema cannot see. */}}
{{- define "spoor.validate" -}}
{{- $grace := int64 .Values.terminationGracePeriodSeconds }}
{{- $timeout := dig "shutdown" "timeout" "10s" .Values.config }}
{{- $units := dict "ms" 0.001 "s" 1.0 "m" 60.0 "h" 3600.0 "d" 86400.0 }}
{{- $seconds := 0.0 }}
{{- range regexFindAll "[0-9.]+[a-z]+" $timeout -1 }}
{{- $seconds = addf $seconds (mulf (regexFind "^[0-9.]+" . | float64) (get $units (regexFind "[a-z]+$" .))) }}
{{- end }}
{{- if ge $seconds (float64 $grace) }}
{{- fail (printf "config.shutdown.timeout (%s) must be shorter than terminationGracePeriodSeconds (%d), or the agent is killed while it flushes" $timeout $grace) }}
{{- end }}
{{- if and .Values.hostNetwork .Values.dnsPolicy (eq .Values.dnsPolicy "ClusterFirst") }}
{{- fail "dnsPolicy ClusterFirst does not resolve cluster names with hostNetwork: leave it empty or use ClusterFirstWithHostNet" }}
{{- end }}
{{- if and .Values.otlp.headersSecret.name (dig "otlp" "headers" dict .Values.config) }}
{{- fail "both otlp.headersSecret and config.otlp.headers are set: the secret would hide the other" }}
{{- end }}
{{- end }}
