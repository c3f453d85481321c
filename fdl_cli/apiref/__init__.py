"""The API reference: read from the source of `flodl` without importing it, and printed.

This package knows Python's syntax; it must not know torch, the runtime or the terminal.
"""
