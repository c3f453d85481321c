"""Proves that a ported file computes what its original computes.

This package imports user code in a separate process. It knows torch and files, not the porter: a
port is any Python file that offers the same names as its original.
"""
