"""Descriptions as pictures.  Plain data in, text out; it does not know torch."""
