"""The page of a monitor: one file with its style, its script and its charts, no request to anybody."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path
from typing import Any, Final

from flodl.monitor.events import json_text

_FOLDER: Final = Path(__file__).parent / "page"
_STYLES: Final = ("vendor/uPlot.min.css", "page.css")
_SCRIPTS: Final = ("vendor/uPlot.iife.min.js", "store.js", "charts.js", "panels.js", "main.js")


def page_html(archive: Any = None) -> str:
    """Return the page.

    Args:
        archive: the data that it shows without a server.
    """
    # "<" cannot end the script element early when it is written as an escape.
    data = json_text(archive).replace("<", "\\u003c")
    return (
        _asset("page.html")
        .replace("/*POLICY*/", content_policy())
        .replace("/*STYLE*/", _style())
        .replace("/*DATA*/", data)
        .replace("/*SCRIPT*/", _script())
    )


@cache
def content_policy() -> str:
    """Return the rights of the page: run its own script, and query its own server.

    It is a header of the server and a `meta` element of the page, which holds for saved pages as well:
    a picture or a name that contains a script runs nothing.
    """
    return (
        f"default-src 'none'; script-src {_hash(_script())}; style-src 'unsafe-inline'; "
        "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'"
    )


@cache
def _script() -> str:
    return "\n".join(_asset(name) for name in _SCRIPTS)


@cache
def _style() -> str:
    return "\n".join(_asset(name) for name in _STYLES)


@cache
def _asset(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


def _hash(script: str) -> str:
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"'sha256-{digest}'"
