"""A transport for direct connections whose bodies can be read straight into a buffer.

Between a socket and its reader the ordinary way copies every byte three times, each time into new
memory. Here the head of an answer goes that way and stops where the body begins, so that the body
can be received into a buffer that is used again. The public interfaces of httpx and httpcore are
all that is used.
"""

import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Final, final

import httpcore
import httpx  # noqa: TID253 - this module is only imported to make a client

READ_BYTES: Final = 256 * 1024
_HEAD_END: Final = b"\r\n\r\n"
_INTERIM: Final = b"HTTP/1.1 1"

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
    """Sends requests over connections whose bodies `direct_body` can read."""

    def __init__(self) -> None:
        # Reading the certificates takes longer than many a file: only https pays for it.
        self._plain: httpcore.ConnectionPool | None = None
        self._secure: httpcore.ConnectionPool | None = None
        self._making = threading.Lock()

    def _pool(self, scheme: str) -> httpcore.ConnectionPool:
        with self._making:
            if scheme != "https":
                if self._plain is None:
                    self._plain = httpcore.ConnectionPool(network_backend=_Backend())
                return self._plain
            if self._secure is None:
                self._secure = httpcore.ConnectionPool(
                    ssl_context=httpx.create_ssl_context(), network_backend=_Backend()
                )
            return self._secure

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request."""
        assert isinstance(request.stream, httpx.SyncByteStream)
        with _httpx_errors():
            answer = self._pool(request.url.scheme).handle_request(
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
        for pool in (self._plain, self._secure):
            if pool is not None:
                pool.close()


@final
class DirectBody:
    """A body that is received into the caller's memory; the connection is of no use after it."""

    def __init__(self, stream: "_Stream", length: int) -> None:
        self.length = length
        self._stream = stream

    def read_into(self, view: memoryview) -> int:
        """Receive some bytes; 0 when the server has closed the connection.

        Raises:
            httpx.TransportError: the connection broke, or nothing came for too long.
        """
        try:
            return self._stream.read_into(view)
        except TimeoutError as problem:
            raise httpx.ReadTimeout(str(problem)) from problem
        except OSError as problem:
            raise httpx.ReadError(str(problem)) from problem


def direct_body(response: httpx.Response) -> DirectBody | None:
    """Return the body of an answer of `FastTransport`; None when it has to be decoded."""
    stream = response.extensions.get("network_stream")
    length = response.headers.get("Content-Length", "")
    if (
        not isinstance(stream, _Stream)
        or not length.isdecimal()
        or "Transfer-Encoding" in response.headers
        or "Content-Encoding" in response.headers
        or response.extensions.get("http_version") != b"HTTP/1.1"
    ):
        return None
    return DirectBody(stream, int(length))


@final
class _Body(httpx.SyncByteStream):
    """The body of an answer, with httpx's names for its failures."""

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
    """A connection that returns the head of an answer and keeps what comes after it."""

    def __init__(self, inner: httpcore.NetworkStream) -> None:
        self._inner = inner
        self._in_head = False
        self._rest = memoryview(b"")

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Read the available bytes: of an answer first its head alone, then large pieces."""
        if self._rest:
            data = bytes(self._rest)
            self._rest = memoryview(b"")
        else:
            data = self._inner.read(max(max_bytes, READ_BYTES), timeout)
        return self._head_of(data, timeout) if self._in_head else data

    def read_into(self, view: memoryview) -> int:
        """Read some bytes into memory that the caller owns."""
        if self._rest:
            count = min(len(view), len(self._rest))
            view[:count] = self._rest[:count]
            self._rest = self._rest[count:]
            return count
        connection = self._inner.get_extra_info("socket")
        assert isinstance(connection, socket.socket)
        return connection.recv_into(view)

    def _head_of(self, data: bytes, timeout: float | None) -> bytes:
        while (end := data.find(_HEAD_END)) < 0 and len(data) < READ_BYTES:
            more = self._inner.read(READ_BYTES, timeout)
            if not more:
                return data
            data += more
        end = end + len(_HEAD_END) if end >= 0 else len(data)
        # An interim answer is followed by the head of the real one.
        self._in_head = data.startswith(_INTERIM)
        self._rest = memoryview(data)[end:]
        return data[:end]

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Write; the next bytes read are the head of an answer."""
        self._in_head = True
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
