"""Reads checkpoint files for `fdl checkpoint` without torch; it knows the format and nothing of models."""
