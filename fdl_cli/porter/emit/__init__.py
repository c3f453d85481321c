"""Decisions become text; nothing is decided here."""
