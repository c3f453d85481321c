"""Completion in shells: what may come next on a command line, and the scripts that ask.

This room knows words and a table of options; it must not know typer or the manifest.
"""
