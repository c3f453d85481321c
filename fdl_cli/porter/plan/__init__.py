"""Facts become decisions: which classes are described, in which words; no text is made here."""

from typing import Final

from fdl_cli.porter.rewrite import (
    branches,
    chain,
    choice,
    encoder_decoder,
    module_branches,
    optional,
    residual,
    routed,
    scan,
    skip,
    slice_map,
    squeeze_excite,
)
from fdl_cli.porter.rewrite.pattern import Pattern
from fdl_cli.porter.style import inline, returned

# Tried in this order at the end of a block, again and again, until none matches.
STRUCTURE: Final[tuple[Pattern, ...]] = (
    scan,
    module_branches,
    slice_map,
    routed,
    residual,
    skip,
    branches,
    choice,
    optional,
    chain,
)
# Once the structure is found, what is left of its values may lose their names.
NAMELESS: Final[tuple[Pattern, ...]] = (*STRUCTURE, squeeze_excite, inline, returned)
# A tag is the name of one value of a graph: only what runs once in it may give one.
PATTERNS: Final[tuple[Pattern, ...]] = (*NAMELESS, encoder_decoder)
