"""Redaction of personal data and secrets in a report that is pasted in public."""

import re
from collections.abc import Mapping
from typing import Final

_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+@")
_SECRET = re.compile(
    r"(?i)\b([\w.-]*(?:token|secret|passw(?:or)?d|api[_-]?key|credential)[\w.-]*)(\s*[=:]\s*)(\S+)"
)
_UUID = re.compile(r"\b(GPU|MIG)-[0-9a-fA-F-]{8,}")
_SHORTEST: Final = 3


def redact(text: str, environ: Mapping[str, str]) -> str:
    """Replace home, user and host names, credentials in addresses, and secrets.

    Example:
        >>> redact("/home/ann/x https://u:p@host/ API_KEY=abc", {"HOME": "/home/ann"})
        '~/x https://<redacted>@host/ API_KEY=<redacted>'
    """
    home = environ.get("HOME") or environ.get("USERPROFILE") or ""
    if len(home) > 1:
        text = text.replace(home, "~")
    text = _CREDENTIALS.sub("<redacted>@", text)
    text = _SECRET.sub(r"\1\2<redacted>", text)
    text = _UUID.sub(r"\1-<redacted>", text)
    for name in ("USER", "LOGNAME", "USERNAME", "HOSTNAME", "COMPUTERNAME"):
        value = environ.get(name, "")
        # `root` and short names are no secret and occur in many paths.
        if len(value) > _SHORTEST and value != "root":
            text = re.sub(rf"\b{re.escape(value)}\b", f"<{name.lower()}>", text)
    return text
