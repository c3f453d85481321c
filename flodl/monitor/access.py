"""Access rules of a server: foreign web pages get nothing, people without the token change nothing."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
import socket
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING, Final, Literal, final

if TYPE_CHECKING:
    from collections.abc import Mapping

HEADER: Final = "X-Flodl-Token"
Answer = Literal["yes", "wrong host", "no token"]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The rules of one server.

    A page on the internet can point its name to 127.0.0.1 and then read the answers there (DNS rebinding).
    So the `Host` of a request must be one of ours, unless it brings the token: a proxy such as Jupyter's
    keeps the outside name.

    Attributes:
        host: the address that the server listens on.
        hosts: more names under which it may be reached.
        token: the secret that a request needs to change anything.
    """

    host: str
    hosts: tuple[str, ...] = ()
    token: str = field(default_factory=lambda: secrets.token_urlsafe(16))

    @property
    def cookie(self) -> str:
        """The name of the cookie: browsers keep one for all ports of a machine, and it is ours alone."""
        return f"flodl-{hashlib.sha256(self.token.encode()).hexdigest()[:12]}"

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach the server."""
        return is_loopback(self.host)

    def may_read(self, headers: Mapping[str, str], query: Mapping[str, list[str]]) -> Answer:
        """Decide about a request that changes nothing."""
        if self._brings_token(headers, query):
            return "yes"
        if not self._is_ours(headers.get("Host") or ""):
            return "wrong host"
        return "yes" if self.is_local else "no token"

    def may_change(self, headers: Mapping[str, str]) -> Answer:
        """Decide about a request that changes something: a cookie is not enough for it."""
        if not self.is_right(headers.get(HEADER) or ""):
            return "no token"
        return "yes"

    def _brings_token(self, headers: Mapping[str, str], query: Mapping[str, list[str]]) -> bool:
        try:
            cookie = SimpleCookie(headers.get("Cookie") or "").get(self.cookie)
        except CookieError:
            cookie = None
        given = (
            headers.get(HEADER) or "",
            *query.get("token", ()),
            cookie.value if cookie else "",
        )
        return any(map(self.is_right, given))

    def is_right(self, token: str) -> bool:
        """Return True if `token` is this server's, in a time that does not depend on the text."""
        return hmac.compare_digest(token.encode(), self.token.encode())

    def _is_ours(self, host: str) -> bool:
        name = _without_port(host).lower().rstrip(".")
        ours = {self.host.lower(), *(each.lower() for each in self.hosts)}
        if name in ours or name == "localhost" or is_loopback(name):
            return True
        # Numbers cannot be rebound, and the machine's own name is what colleagues type.
        return not self.is_local and (_is_address(name) or name == socket.gethostname().lower())


def is_loopback(host: str) -> bool:
    """Return whether an address is this machine's own."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if host.count(":") == 1 else host
