{{- define "mtp-operator.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* Name of the objects. 55 characters leave room for the longest suffix, "-metrics". */}}
{{- define "mtp-operator.fullname" -}}
{{- $name := include "mtp-operator.name" . -}}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- default $full .Values.fullnameOverride | trunc 55 | trimSuffix "-" }}
{{- end }}

{{/* A role is never bound to the namespace's account "default", which every other pod has too. */}}
{{- define "mtp-operator.account" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "mtp-operator.fullname" .) .Values.serviceAccount.name }}
{{- else -}}
{{- required "serviceAccount.name is empty: name the existing account, or set serviceAccount.create" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "mtp-operator.selectorLabels" -}}
app.kubernetes.io/name: {{ include "mtp-operator.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{/* The chart's own labels win over commonLabels, or selectors would no longer match. */}}
{{- define "mtp-operator.labels" -}}
{{- $own := include "mtp-operator.selectorLabels" . | fromYaml -}}
{{- $_ := set $own "app.kubernetes.io/version" .Chart.AppVersion -}}
{{- $_ := set $own "app.kubernetes.io/managed-by" .Release.Service -}}
{{- $_ := set $own "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63) -}}
{{- merge $own .Values.commonLabels | toYaml }}
{{- end }}

{{- define "mtp-operator.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
{{- end }}

{{/* The account as a role binding names it. */}}
{{- define "mtp-operator.subjects" -}}
- kind: ServiceAccount
  name: {{ include "mtp-operator.account" . | quote }}
  namespace: {{ .Release.Namespace | quote }}
{{- end }}
