"""Composite behaviour of graphs: ways to merge branches, loops.  It does not know how graphs run."""
