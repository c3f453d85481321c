"""{{ name }}: a model as a flow graph."""

__version__ = "0.1.0"
