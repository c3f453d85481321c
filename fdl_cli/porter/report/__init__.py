"""Outcomes become text for people and data for programs."""
