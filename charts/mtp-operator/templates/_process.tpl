{{/* The operator's flags. The ports keep the operator's defaults, which the Deployment names. */}}
{{- define "mtp-operator.arguments" -}}
- --log-format={{ .Values.logFormat }}
{{- range .Values.watchNamespaces }}
- --namespace={{ . }}
{{- end }}
{{- with .Values.workers }}
- --workers={{ int . }}
{{- end }}
{{- with .Values.resyncSeconds }}
- --resync={{ . }}
{{- end }}
{{- with .Values.listenAddress }}
- {{ printf "--address=%s" . | quote }}
{{- end }}
{{- end }}

{{- define "mtp-operator.environment" -}}
- name: POD_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
- name: POD_NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
# kopf's identity; without it a random uid that has no passwd entry ends it at once.
- name: POD_ID
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
{{- with .Values.defaults.trainerImage }}
- name: MTP_TRAINER_IMAGE
  value: {{ . | quote }}
{{- end }}
{{- with .Values.defaults.engineImage }}
- name: MTP_ENGINE_IMAGE
  value: {{ . | quote }}
{{- end }}
{{- /* A name that stands twice is refused by the API server, with a message about merge keys. */ -}}
{{- $own := dict "POD_NAME" "it" "POD_NAMESPACE" "it" "POD_ID" "it" "MTP_TRAINER_IMAGE" "defaults.trainerImage" "MTP_ENGINE_IMAGE" "defaults.engineImage" }}
{{- range .Values.extraEnv }}
{{- if hasKey $own .name }}
{{- if eq (get $own .name) "it" }}
{{- fail (printf "extraEnv: %s is set by the chart; leave it out" .name) }}
{{- else }}
{{- fail (printf "extraEnv: set %s instead of %s" (get $own .name) .name) }}
{{- end }}
{{- end }}
- {{ toYaml . | nindent 2 | trim }}
{{- end }}
{{- end }}
