"""Entry point of `python -m fdl_cli`."""

from fdl_cli.app import entry

entry()
