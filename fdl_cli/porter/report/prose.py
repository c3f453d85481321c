"""Sentences and badges of the report as HTML."""

import re
from html import escape

_CODE = re.compile(r"`([^`\n]+)`")


def prose(text: str) -> str:
    """Return a sentence as HTML; what stands in backticks becomes code."""
    return _CODE.sub(r"<code>\1</code>", escape(text))


def badge(state: str, text: str = "") -> str:
    """Return a small label whose colour shows a state."""
    return f'<span class="badge {state}">{escape(text or state)}</span>'
