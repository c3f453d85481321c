"""A transport for direct connections that reads large pieces from the socket.

httpx's own asks the kernel for 64 KiB at a time; on a fast line most of the time then goes into
the calls between. The public interfaces of httpx and httpcore are all that is used.
"""

import ssl
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Final, final

import httpcore
import httpx  # noqa: TID253 - this module is only imported to make a client

READ_BYTES: Final = 256 * 1024

_ERRORS: Final = MappingProxyType(
    {
        httpcore.ConnectTimeout: httpx.ConnectTimeout,
        httpcore.ReadTimeout: httpx.ReadTimeout,
        httpcore.WriteTimeout: httpx.WriteTimeout,
        httpcore.PoolTimeout: httpx.PoolTimeout,
        httpcore.ConnectError: httpx.ConnectError,
        httpcore.ReadError: httpx.ReadError,
        httpcore.WriteError: httpx.WriteError,
        httpcore.UnsupportedProtocol: httpx.UnsupportedProtocol,
        httpcore.LocalProtocolError: httpx.LocalProtocolError,
        httpcore.RemoteProtocolError: httpx.RemoteProtocolError,
    }
)


@final
class FastTransport(httpx.BaseTransport):
    """Sends requests over connections that read `READ_BYTES` at a time."""

    def __init__(self) -> None:
        self._pool = httpcore.ConnectionPool(
            ssl_context=httpx.create_ssl_context(), network_backend=_Backend()
        )

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request."""
        assert isinstance(request.stream, httpx.SyncByteStream)
        with _httpx_errors():
            answer = self._pool.handle_request(
                httpcore.Request(
                    method=request.method,
                    url=httpcore.URL(
                        scheme=request.url.raw_scheme,
                        host=request.url.raw_host,
                        port=request.url.port,
                        target=request.url.raw_path,
                    ),
                    headers=request.headers.raw,
                    content=request.stream,
                    extensions=request.extensions,
                )
            )
        assert isinstance(answer.stream, Iterable)
        return httpx.Response(
            status_code=answer.status,
            headers=answer.headers,
            stream=_Body(answer.stream, answer.close),
            extensions=answer.extensions,
        )

    def close(self) -> None:
        """Close all connections."""
        self._pool.close()


@final
class _Body(httpx.SyncByteStream):
    """The body of an answer, with httpx's names for what can go wrong."""

    def __init__(self, stream: Iterable[bytes], close: Callable[[], None] | None) -> None:
        self._stream = stream
        self._close = close

    def __iter__(self) -> Iterator[bytes]:
        with _httpx_errors():
            yield from self._stream

    def close(self) -> None:
        """Give the connection back, or close it when the body was not read to its end."""
        if self._close is not None:
            self._close()


@final
class _Backend(httpcore.NetworkBackend):
    """Opens connections whose reads are large."""

    def __init__(self) -> None:
        self._inner = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """Connect."""
        return _Stream(self._inner.connect_tcp(host, port, timeout, local_address, socket_options))


@final
class _Stream(httpcore.NetworkStream):
    """A connection that always asks the kernel for a large piece."""

    def __init__(self, inner: httpcore.NetworkStream) -> None:
        self._inner = inner

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Read what is there, up to a large piece."""
        return self._inner.read(max(max_bytes, READ_BYTES), timeout)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Write."""
        self._inner.write(buffer, timeout)

    def close(self) -> None:
        """Close."""
        self._inner.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        """Go on encrypted."""
        return _Stream(self._inner.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        """Return what the connection knows."""
        return self._inner.get_extra_info(info)


@contextmanager
def _httpx_errors() -> Iterator[None]:
    try:
        yield
    except tuple(_ERRORS) as problem:
        raise _ERRORS[type(problem)](str(problem)) from problem
