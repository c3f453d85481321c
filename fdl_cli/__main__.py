"""Run `fdl` as `python -m fdl_cli`."""

from fdl_cli.app import entry

entry()
