"""A proxy as Jupyter has one: below a prefix, under a name of its own, streaming what comes."""

import http.client
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PREFIX = "/user/me/proxy/8420/"
OUTSIDE = "hub.example.org"


class Proxy:
    """Forwards what is asked for below the prefix to a port."""

    def __init__(self, port):
        self.asked = []
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                proxy.asked.append(self.path)
                if not self.path.startswith(PREFIX):
                    self.send_error(404)
                    return
                inner = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
                headers = {**dict(self.headers), "Host": OUTSIDE}
                inner.request(self.command, self.path[len(PREFIX) - 1 :], self._body(), headers)
                answer = inner.getresponse()
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    self.send_header(name, value)
                self.end_headers()
                try:
                    while data := answer.read1(65536):
                        self.wfile.write(data)
                        self.wfile.flush()
                except OSError:
                    pass
                inner.close()
                self.close_connection = True

            do_POST = do_GET  # noqa: N815

            def _body(self):
                length = int(self.headers.get("Content-Length") or 0)
                return self.rfile.read(length) if length else None

            def log_message(self, *args):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self.url = f"http://127.0.0.1:{self._server.server_port}{PREFIX}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
