"""Checkpoint files for `fdl checkpoint`, read without torch; it knows the format and nothing of models."""
