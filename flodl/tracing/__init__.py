"""Tracing of flows: the proxy `Flow`, the tracer, guards and side effects; knows no builder and no module."""
