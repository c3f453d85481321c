"""The task runner: `fdl.yml` and its overlays, from text to the process that a task becomes.

Modules that say so are on the path of `fdl <task>` and import next to nothing. This package must not
know typer, rich, docker or any other command of `fdl`.
"""
