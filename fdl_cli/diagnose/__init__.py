"""Checks of a machine, its Python environment and its project."""
