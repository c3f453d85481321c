"""Effects of a forward: attributes, containers, objects, random numbers and opaque calls."""
