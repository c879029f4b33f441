"""A Kubernetes control plane as local processes, the operator beside it, and a hand that plays the kubelet."""
