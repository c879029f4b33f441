"""Pure builders of every Kubernetes object that the operator makes: one file per kind, plus what cuts across them."""
