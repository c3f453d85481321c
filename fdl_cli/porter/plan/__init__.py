"""Facts become decisions: which classes are described, in which words; no text is made here."""

from typing import Final

from fdl_cli.porter.plan import (
    branches,
    chain,
    fixed_loop,
    module_branches,
    module_loop,
    residual,
    skip,
)
from fdl_cli.porter.plan.pattern import Pattern

# Tried in this order at the end of a block, again and again, until none matches.
PATTERNS: Final[tuple[Pattern, ...]] = (
    module_loop,
    fixed_loop,
    module_branches,
    residual,
    skip,
    branches,
    chain,
)
