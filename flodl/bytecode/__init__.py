"""Python's bytecode as one documented instruction set, the same for every supported version."""
