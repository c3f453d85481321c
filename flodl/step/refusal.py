"""The refusal to run a step in another way than eagerly."""

from __future__ import annotations

from typing import final

from flodl.errors import FlodlError


@final
class RefusedStepError(FlodlError):
    """A step cannot be captured or compiled; the message is the reason, and eager steps continue."""
