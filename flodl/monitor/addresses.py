"""Addresses under which users reach a page on this machine."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping


def address_lines(url: str, environ: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Return the address, and how to get there through Jupyter or SSH if we are behind one.

    Args:
        url: the address on this machine.
        environ: the environment, that of the process if not given.

    Example:
        >>> from flodl.monitor.addresses import address_lines
        >>> address_lines("http://127.0.0.1:8420/?token=x", {"JUPYTERHUB_SERVICE_PREFIX": "/user/me/"})
        ('http://127.0.0.1:8420/?token=x', 'through Jupyter: /user/me/proxy/8420/?token=x')
    """
    known = os.environ if environ is None else environ
    parts = urlsplit(url)
    prefix = known.get("JUPYTERHUB_SERVICE_PREFIX") or ("/" if "JPY_PARENT_PID" in known else "")
    if prefix:
        path = f"{prefix.rstrip('/')}/proxy/{parts.port}/?{parts.query}"
        return url, f"through Jupyter: {path}"
    if "SSH_CONNECTION" in known and parts.hostname == "127.0.0.1":
        port, host = parts.port, socket.gethostname()
        return url, f"from where you sit: ssh -N -L {port}:127.0.0.1:{port} {host}"
    return (url,)
