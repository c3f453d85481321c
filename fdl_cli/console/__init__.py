"""The terminal: the only package that knows `rich`, colours, widths, questions and progress.

It must not know what any command does; it shows text, tables and diffs that it is given.
"""

from fdl_cli.console.output import Console as Console
from fdl_cli.console.output import Progress as Progress
from fdl_cli.console.output import Style as Style
from fdl_cli.console.output import Terminal as Terminal
from fdl_cli.console.output import page_address as page_address
