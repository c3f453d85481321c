"""Every value of a model by its name: seen, kept, and replaced."""
