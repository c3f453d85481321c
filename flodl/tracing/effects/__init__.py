"""Side effects of a flow: containers, objects, closures and attributes that it changes."""
