"""Reading of manifests: YAML within bounds, layers, rules and their merge."""
