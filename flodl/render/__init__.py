"""Draws one model of one file in a process of its own: `python -m flodl.render`."""
