"""Structural patterns: statements become flow words; a wrong one would change what is computed."""
