"""The HTTP client: time limits, proxies and certificates from the environment."""

from typing import TYPE_CHECKING, Final
from urllib.request import getproxies

from fdl_cli import __version__
from fdl_cli.errors import EnvironmentLackingError, FdlError, UsageError
from fdl_cli.net.artefact import Patience

if TYPE_CHECKING:
    import httpx

USER_AGENT: Final = f"fdl/{__version__}"


def make_client(patience: Patience, proxy: str | None = None) -> "httpx.Client":
    """Return a client that follows redirects and honours HTTP(S)_PROXY, NO_PROXY, SSL_CERT_FILE.

    httpx sends credentials of an address only to that host, also after a redirect.

    Raises:
        UsageError: the proxy's address is wrong.
    """
    import httpx

    from fdl_cli.net.fast_transport import FastTransport

    timeout = httpx.Timeout(patience.stall_seconds, connect=patience.connect_seconds)
    # A given transport would hide the proxies of the environment from httpx.
    direct = proxy is None and not getproxies()
    try:
        return httpx.Client(
            timeout=timeout,
            follow_redirects=True,
            proxy=proxy,
            transport=FastTransport() if direct else None,
            headers={"User-Agent": USER_AGENT},
        )
    except (ValueError, httpx.InvalidURL) as problem:
        raise UsageError(
            error_id="proxy-wrong",
            message=f"the proxy setting cannot be used: {problem}",
            hint="write it as http://host:port, in `--proxy` or HTTPS_PROXY",
        ) from problem


def is_certificate_problem(problem: BaseException) -> bool:
    """Return True if a connection failed because a certificate was not trusted."""
    import ssl

    seen: BaseException | None = problem
    while seen is not None:
        if isinstance(seen, ssl.SSLError) or "CERTIFICATE_VERIFY_FAILED" in str(seen):
            return True
        seen = seen.__cause__ or seen.__context__
    return False


def certificate_error(url: str, problem: BaseException) -> FdlError:
    """Return the error for an untrusted certificate; trying again would not help."""
    return EnvironmentLackingError(
        error_id="tls-untrusted",
        message=f"the certificate of {host_of(url)} is not trusted: {problem}",
        hint="behind a proxy with its own authority set SSL_CERT_FILE to its certificate; "
        "also check the clock of this machine",
    )


def host_of(url: str) -> str:
    """Return the host of an address, without credentials."""
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    return parts.hostname or url
