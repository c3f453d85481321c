"""Reads of Python values in a flow, and the guards that make each of them hold in every call."""
