"""Completion in shells: the words that may follow on a command line, and the shells' scripts.

This package knows words and a table of options; it must not know typer or the manifest.
"""
