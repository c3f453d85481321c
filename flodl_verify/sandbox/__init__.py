"""The surroundings of user code: limits, imports, seeds and files."""
