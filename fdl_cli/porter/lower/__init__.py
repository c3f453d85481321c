"""Syntax trees become facts and dataflow IR; nothing is decided here."""
