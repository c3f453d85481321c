"""A local HTTP server that misbehaves as told, and remembers what it was asked."""

import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Faults:
    """What goes wrong; each fault happens `times` times, then the server behaves."""

    times: int = 1
    status: int | None = None
    headers: dict = field(default_factory=dict)
    close_after: int | None = None
    ignore_range: bool = False
    wrong_range: bool = False
    flip_byte: bool = False
    drip: float | None = None
    silent: float | None = None
    wrong_length: int = 0
    gzip: bool = False
    chunked: bool = False
    redirect: str | None = None
    change_etag: bool = False
    rate: float | None = None


@dataclass
class Site:
    """The files of a server, its faults, and the log of requests."""

    files: dict
    faults: Faults = field(default_factory=lambda: Faults(times=0))
    etag: str | None = '"strong-1"'
    log: list = field(default_factory=list)
    url: str = ""

    def ranges(self):
        return [headers.get("Range") for _, headers in self.log]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    site: Site

    def log_message(self, *args):
        pass

    def do_GET(self):
        site = self.site
        site.log.append((self.path, dict(self.headers)))
        fault = site.faults if site.faults.times > 0 else Faults(times=0)
        site.faults.times -= 1
        if fault.silent:
            time.sleep(fault.silent)
        if fault.redirect:
            self.plain(302, {"Location": fault.redirect + self.path})
            return
        if fault.status:
            self.plain(fault.status, fault.headers)
            return
        content = site.files.get(self.path)
        if content is None:
            self.plain(404, {})
            return
        if site.etag and self.headers.get("If-None-Match") == site.etag:
            self.plain(304, {"ETag": site.etag})
            return
        self.serve(site, fault, content)

    def plain(self, status, headers):
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def serve(self, site, fault, content):
        asked = self.headers.get("Range")
        validator = self.headers.get("If-Range")
        if fault.change_etag:
            site.etag = '"strong-2"'
        start = 0
        status = 200
        if asked and not fault.ignore_range and (validator is None or validator == site.etag):
            start = int(asked.removeprefix("bytes=").rstrip("-"))
            status = 206
            if start >= len(content):
                self.plain(416, {"Content-Range": f"bytes */{len(content)}"})
                return
        body = content[start:]
        if fault.flip_byte:
            body = body[:10] + bytes([body[10] ^ 1]) + body[11:]
        if fault.gzip:
            import gzip

            body = gzip.compress(body)
        self.send_response(status)
        if site.etag:
            self.send_header("ETag", site.etag)
        if fault.gzip:
            self.send_header("Content-Encoding", "gzip")
        if status == 206:
            shift = 7 if fault.wrong_range else 0
            last = len(content) - 1
            self.send_header("Content-Range", f"bytes {start + shift}-{last}/{len(content)}")
        if fault.chunked:
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Content-Length", str(len(body) + fault.wrong_length))
        self.end_headers()
        self.send_body(fault, body)

    def send_body(self, fault, body):
        try:
            if fault.chunked:
                body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
            if fault.close_after is not None:
                self.wfile.write(body[: fault.close_after])
                self.close_connection = True
                return
            if fault.drip:
                for byte in body[:200]:
                    self.wfile.write(bytes([byte]))
                    self.wfile.flush()
                    time.sleep(fault.drip)
                self.close_connection = True
                return
            if fault.rate:
                for at in range(0, len(body), 65536):
                    self.wfile.write(body[at : at + 65536])
                    time.sleep(65536 / fault.rate)
                return
            self.wfile.write(body)
            if fault.wrong_length > 0:
                self.close_connection = True
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True


@contextmanager
def serve(files, **settings):
    """Run a server for `{path: bytes}` and yield its site."""
    site = Site(files=files, **settings)
    handler = type("BoundHandler", (Handler,), {"site": site})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    site.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield site
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
