"""An event stream as a browser reads it, and requests over real HTTP."""

import http.client
import json
import socket
from urllib.parse import parse_qs, urlsplit


class Stream:
    """One connection to `/events`; `last` is the number of the last whole message."""

    def __init__(self, url, last="", room=0):
        parts = urlsplit(url)
        self.last = last
        self._socket = socket.socket()
        if room:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
        self._socket.settimeout(10)
        self._file = self._socket.makefile("rb")
        try:
            self._socket.connect((parts.hostname, parts.port))
            header = f"Last-Event-ID: {last}\r\n" if last else ""
            host = f"{parts.hostname}:{parts.port}"
            self._socket.sendall(f"GET /events HTTP/1.1\r\nHost: {host}\r\n{header}\r\n".encode())
            self.status = int(self._file.readline().split()[1])
            while self._file.readline().strip():
                pass
        except OSError:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self._file.close()
        self._socket.close()

    def messages(self):
        """Yield (kind, data) until the server ends the stream."""
        found = {}
        while line := self._file.readline():
            text = line.decode().rstrip("\n")
            if text:
                name, _, value = text.partition(": ")
                found[name] = value
            elif "data" in found:
                self.last = found["id"]
                yield found["event"], json.loads(found["data"])
                found = {}
            else:
                found = {}


def request(url, path="/", method="GET", body=None, **headers):
    """Return (status, headers, body) of one request."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=10)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, body=body, headers=named)
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    return answer.status, answer.headers, data


def token_of(url):
    return parse_qs(urlsplit(url).query)["token"][0]
