{{/* What the operator may do where it watches; a test compares it with manifests/base/cluster_role.yaml. */}}
{{- define "mtp-operator.rules" -}}
# The user's objects are read, never written: no update, no finalizers.
- apiGroups: [specdecode.dev]
  resources: [mtpfinetunes, specdecodeservings]
  verbs: [get, list, watch]
- apiGroups: [specdecode.dev]
  resources: [mtpfinetunes/status, specdecodeservings/status]
  verbs: [patch]
# A Job is created once; patch is for spec.suspend alone.
- apiGroups: [batch]
  resources: [jobs]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [configmaps, persistentvolumeclaims]
  verbs: [get, list, create, delete]
# Results come from termination messages: no pods/log, no pods/exec.
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch]
# Server-side apply creates what isn't there yet, and needs create for it.
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get, list, watch, create, patch]
- apiGroups: [""]
  resources: [services]
  verbs: [get, create, patch]
- apiGroups: [""]
  resources: [events]
  verbs: [create]
{{- end }}
