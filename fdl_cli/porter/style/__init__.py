"""Patterns that only improve the text; correctness does not depend on them."""
