"""Bytes of a file become text, a syntax tree and places; knows nothing of torch or of graphs."""
