"""Values that cross between the sides: snapshots, their comparison, recipes and abstract inputs."""
