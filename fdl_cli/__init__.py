"""The `fdl` command-line tool: it knows the machine, the project and the templates.

It must never import `torch` or `flodl`, because `fdl` has to work before either is installed.
"""

__version__ = "0.1.0"
