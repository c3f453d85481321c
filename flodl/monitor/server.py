"""The web server of a monitor: a page, an event stream, and data on request, on loopback unless told."""

from __future__ import annotations

import contextlib
import gzip
import json
import math
import socket
import threading
import time
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final, cast, final
from urllib.parse import parse_qs, urlsplit

from flodl.monitor.access import Access
from flodl.monitor.broadcast import Broadcaster
from flodl.monitor.events import json_text
from flodl.monitor.export import csv_of_epochs, series_data
from flodl.monitor.page import content_policy, page_html
from flodl.monitor.store.records import record_data, without_nan

if TYPE_CHECKING:
    from collections.abc import Callable

    from flodl.monitor.events import EventHub
    from flodl.monitor.store.frames import Group
    from flodl.monitor.store.rundata import RunData

    Control = Callable[[str, str], str]

MOST_POINTS: Final = 20_000
MOST_BODY: Final = 1 << 16
# The server shares descriptors and threads with a training, and leaves it enough: a request has to arrive
# within this time, however slowly its bytes come, and this many connections are open at once.
REQUEST_SECONDS: Final = 20.0
MOST_REQUESTS: Final = 128
MOST_STREAMS: Final = 256
_EXPLANATIONS: Final = {
    "wrong host": (
        "This monitor does not answer under this name. Open the address with ?token=... that was "
        "printed when it started, or start it with this name among its hosts.\n"
    ),
    "no token": "This needs the token: open the address that was printed at the start.\n",
}


@final
class MonitorServer:
    """Serves the runs of a hub until it is closed.

    Attributes:
        port: the port it listens on.
        access: who may ask what.
    """

    def __init__(
        self, hub: EventHub, *, access: Access, port: int = 0, control: Control | None = None
    ) -> None:
        """Start to serve.

        Args:
            hub: the runs.
            access: the access rules; its host is where to listen.
            port: the port, 0 for a free one.
            control: carries out the request of a page and returns the result.

        Raises:
            OSError: the port is taken.
        """
        self.access = access
        self._http = _Http((access.host, port), hub=hub, access=access, control=control)
        self.port = int(self._http.server_address[1])
        serve = partial(self._http.serve_forever, poll_interval=0.05)
        self._thread = threading.Thread(target=serve, name="flodl-http", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """The URL of the page; its token lets the page change things, too."""
        host = self.access.host
        shown = "127.0.0.1" if host in ("", "0.0.0.0") else "[::1]" if host == "::" else host
        if ":" in shown and not shown.startswith("["):
            shown = f"[{shown}]"
        return f"http://{shown}:{self.port}/?token={self.access.token}"

    def close(self) -> None:
        """Send what is under way, close every stream and release the port."""
        self._http.shutdown()
        self._http.broadcaster.stop()
        self._http.server_close()
        self._thread.join(timeout=5)


@final
class _Http(ThreadingHTTPServer):
    """One thread per request; event streams go to the one thread that serves them all."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(
        self, address: tuple[str, int], *, hub: EventHub, access: Access, control: Control | None
    ) -> None:
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, _Handler)
        self.hub, self.access, self.control = hub, access, control
        self.broadcaster = Broadcaster(hub)
        self.page = page_html().encode()
        self.packed_page = gzip.compress(self.page, 9, mtime=0)
        self.detached: set[socket.socket] = set()
        # Connections in the order in which they came, with the time by which their request must be here.
        self._deadlines: dict[socket.socket, float] = {}
        self._lock = threading.Lock()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread for a connection; when there are too many, the oldest one gives way."""
        with self._lock:
            if len(self._deadlines) >= MOST_REQUESTS:
                self._hang_up(next(iter(self._deadlines)))
            self._deadlines[request] = time.monotonic() + REQUEST_SECONDS
        super().process_request(request, client_address)

    def service_actions(self) -> None:
        """Hang up on clients whose request has not arrived in time; called after every poll."""
        now = time.monotonic()
        with self._lock:
            for request in [each for each, end in self._deadlines.items() if end < now]:
                self._hang_up(request)

    def request_arrived(self, request: socket.socket) -> None:
        """Note that a request has been read; writing the answer has the time limit of its socket."""
        with self._lock:
            if request in self._deadlines:
                self._deadlines[request] = math.inf

    def shutdown_request(self, request: Any) -> None:
        """Close a connection, unless it became an event stream."""
        with self._lock:
            self._deadlines.pop(request, None)
        if request in self.detached:
            self.detached.discard(request)
            return
        super().shutdown_request(request)

    def _hang_up(self, request: socket.socket) -> None:
        """End a connection under the lock; its thread notices and closes it."""
        del self._deadlines[request]
        with contextlib.suppress(OSError):
            request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing: a browser that goes away is no news for a training."""


@final
class _Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    protocol_version = "HTTP/1.1"
    server_version = "flodl"
    sys_version = ""
    timeout = 20

    @property
    def http(self) -> _Http:
        return cast("_Http", self.server)

    def do_GET(self) -> None:
        path, query = self._asked()
        self.http.request_arrived(self.connection)
        verdict = self.http.access.may_read(cast("Any", self.headers), query)
        if verdict != "yes":
            self._answer(HTTPStatus.FORBIDDEN, "text/plain", _EXPLANATIONS[verdict].encode())
            return
        answer = _ROUTES.get(path)
        if answer is None:
            self._answer(HTTPStatus.NOT_FOUND, "text/plain", b"there is no such page\n")
            return
        try:
            answer(self, query)
        except _BadRequestError as problem:
            self._answer(HTTPStatus.BAD_REQUEST, "text/plain", f"{problem}\n".encode())

    def do_POST(self) -> None:
        path, _ = self._asked()
        verdict = self.http.access.may_change(cast("Any", self.headers))
        length = self.headers.get("Content-Length") or "0"
        body = self.rfile.read(min(int(length), MOST_BODY)) if length.isdecimal() else b""
        self.http.request_arrived(self.connection)
        if verdict != "yes":
            self._answer(HTTPStatus.FORBIDDEN, "text/plain", _EXPLANATIONS[verdict].encode())
        elif path != "/api/control" or self.http.control is None:
            self._answer(HTTPStatus.NOT_FOUND, "text/plain", b"nothing can be changed here\n")
        else:
            self._control(body, self.http.control)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the name of the base
        """Print nothing: the terminal belongs to the training."""

    # ---- what is answered ---------------------------------------------------------------------

    def page(self, query: dict[str, list[str]]) -> None:
        packed = "gzip" in (self.headers.get("Accept-Encoding") or "")
        body = self.http.packed_page if packed else self.http.page
        extra = {"Content-Security-Policy": content_policy()}
        if packed:
            extra["Content-Encoding"] = "gzip"
        access = self.http.access
        # Readers on this machine need no token, so being allowed to read is no reason to get one.
        if any(map(access.is_right, query.get("token", ()))):
            # No path: the browser takes the folder of the address that it knows, proxy included.
            extra["Set-Cookie"] = f"{access.cookie}={access.token}; HttpOnly; SameSite=Strict"
        self._answer(HTTPStatus.OK, "text/html; charset=utf-8", body, extra)

    def events(self, query: dict[str, list[str]]) -> None:
        if self.http.hub.audience >= MOST_STREAMS:
            text = f"{MOST_STREAMS} pages are open; close one of them\n"
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, "text/plain", text.encode())
            return
        last_seen = self.headers.get("Last-Event-ID") or (query.get("after") or [""])[0]
        self.close_connection = True
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Accel-Buffering", "no")
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(b"retry: 1000\n\n")
        self.wfile.flush()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.http.detached.add(self.connection)
        self.http.broadcaster.attach(self.connection, last_seen)

    def snapshot(self, _: dict[str, list[str]]) -> None:
        self._json(self.http.hub.snapshot())

    def history(self, query: dict[str, list[str]]) -> None:
        with self.http.hub.lock:
            epochs = tuple(self._run(query).epochs)
        self._json(
            [without_nan({**record_data(each), "epoch": each.epoch + 1}) for each in epochs]
        )

    def series(self, query: dict[str, list[str]]) -> None:
        group = cast("Group", (query.get("group") or ["metrics"])[0])
        start, stop = _number(query, "from", -math.inf), _number(query, "to", math.inf)
        points = int(min(max(_number(query, "points", 1500), 2), MOST_POINTS))
        answer: dict[str, Any] = {}
        coarse = []
        with self.http.hub.lock:
            run = self._run(query)
            members = run.series.get(group, {})
            for name in query.get("name") or tuple(members):
                if name in members:
                    window = members[name].window(start, stop, points)
                    if window.per > 1 and len(window.steps) * window.per <= MOST_POINTS:
                        coarse.append(name)
                    answer[name] = series_data(window)
                    answer[name] |= {"count": members[name].count, "last": members[name].last_step}
        # Files are read without the lock: no other thread waits for the disk.
        for name in coarse if group == "metrics" else ():
            fine = run.point_index.read(name, start, stop)
            if fine is not None:
                counted = {key: answer[name][key] for key in ("count", "last")}
                answer[name] = series_data(fine.window(points=points)) | counted
        self._json(answer)

    def picture(self, query: dict[str, list[str]]) -> None:
        with self.http.hub.lock:
            picture = self._run(query).picture
        if not picture:
            self._answer(HTTPStatus.NOT_FOUND, "text/plain", b"there is no picture of the model\n")
            return
        extra = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}
        self._answer(HTTPStatus.OK, "image/svg+xml; charset=utf-8", picture.encode(), extra)

    def csv(self, query: dict[str, list[str]]) -> None:
        with self.http.hub.lock:
            epochs = tuple(self._run(query).epochs)
        extra = {"Content-Disposition": 'attachment; filename="epochs.csv"'}
        self._answer(
            HTTPStatus.OK, "text/csv; charset=utf-8", csv_of_epochs(epochs).encode(), extra
        )

    # ---- how ----------------------------------------------------------------------------------

    def _asked(self) -> tuple[str, dict[str, list[str]]]:
        parts = urlsplit(self.path)
        return parts.path, parse_qs(parts.query, keep_blank_values=True)

    def _run(self, query: dict[str, list[str]]) -> RunData:
        runs = self.http.hub.runs
        name = (query.get("run") or [next(iter(runs), "")])[0]
        if name not in runs:
            raise _BadRequestError(f"there is no run {name!r}")
        return runs[name]

    def _control(self, body: bytes, control: Control) -> None:
        try:
            asked = json.loads(body)
            done = control(str(asked.get("run", "")), str(asked["action"]))
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            self._answer(HTTPStatus.BAD_REQUEST, "text/plain", f"{problem}\n".encode())
            return
        self._json({"done": done})

    def _json(self, data: Any) -> None:
        body = json_text(data).encode()
        extra = {}
        if len(body) > 4096 and "gzip" in (self.headers.get("Accept-Encoding") or ""):
            body, extra = gzip.compress(body, 1), {"Content-Encoding": "gzip"}
        self._answer(HTTPStatus.OK, "application/json", body, extra)

    def _answer(
        self, status: HTTPStatus, kind: str, body: bytes, extra: dict[str, str] | None = None
    ) -> None:
        self.close_connection = True
        headers = {
            "Content-Type": kind,
            "Content-Length": str(len(body)),
            "Cache-Control": "no-store",
            "Connection": "close",
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            **(extra or {}),
        }
        with contextlib.suppress(ConnectionError):
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)


@final
class _BadRequestError(Exception):
    """A request names something that does not exist."""


_ROUTES: Final[dict[str, Callable[[_Handler, dict[str, list[str]]], None]]] = {
    "/": _Handler.page,
    "/events": _Handler.events,
    "/graph.svg": _Handler.picture,
    "/api/snapshot": _Handler.snapshot,
    "/api/history": _Handler.history,
    "/api/series": _Handler.series,
    "/epochs.csv": _Handler.csv,
}


def _number(query: dict[str, list[str]], name: str, default: float) -> float:
    try:
        value = float(query[name][0]) if name in query else default
    except ValueError as problem:
        raise _BadRequestError(f"{name} must be a number") from problem
    return default if math.isnan(value) else value
