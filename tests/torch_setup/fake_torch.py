"""Tiny wheels that look like torch to `fdl`, and a server that offers them as an index.

The fake torch computes with Python lists: enough for the proof to run its three kernels, and
breakable in the one way that matters, a kernel that answers wrongly.
"""

import base64
import hashlib
import io
import json
import threading
import time
import zipfile
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CODE = """
from torch import version
from torch.version import __version__

_WRONG = {wrong}


class _Tensor:
    def __init__(self, values):
        self.values = list(values)

    def relu(self):
        return _Tensor([-1.0 if _WRONG else max(0.0, v) for v in self.values])

    def add_(self, number):
        return _Tensor([v + number for v in self.values])

    def cpu(self):
        return self

    def tolist(self):
        return self.values

    def item(self):
        return self.values[0]

    def min(self):
        return _Tensor([min(self.values)])

    def max(self):
        return _Tensor([max(self.values)])

    def sum(self):
        return self

    def __mul__(self, other):
        if isinstance(other, _Tensor):
            self.grad = other
            return _Loss(self, other)
        return _Tensor([v * other for v in self.values])

    def __matmul__(self, other):
        return _Tensor([2.0])


class _Loss:
    def __init__(self, weight, values):
        self.weight, self.values = weight, values

    def sum(self):
        return self

    def backward(self):
        self.weight.grad = self.values


def tensor(values, device=None):
    return _Tensor(values)


def ones(*shape, device=None, requires_grad=False):
    return _Tensor([1.0] * shape[0])


def eye(size, device=None):
    return _Tensor([1.0])


class cuda:
    @staticmethod
    def is_available():
        return False

    @staticmethod
    def get_arch_list():
        return []


class backends:
    class mps:
        @staticmethod
        def is_available():
            return False


__file__ = __file__
"""


def wheel(name, version, files, *, requires=(), scripts=None, tag="py3-none-any"):
    """Return the file name and the bytes of a wheel."""
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata += "".join(f"Requires-Dist: {item}\n" for item in requires)
    members = {
        **files,
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: {tag}\n",
    }
    if scripts:
        lines = "".join(f"{key} = {value}\n" for key, value in scripts.items())
        members[f"{info}/entry_points.txt"] = f"[console_scripts]\n{lines}"
    record = []
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in members.items():
            raw = content if isinstance(content, bytes) else content.encode()
            archive.writestr(path, raw)
            digest = base64.urlsafe_b64encode(hashlib.sha256(raw).digest()).rstrip(b"=").decode()
            record.append(f"{path},sha256={digest},{len(raw)}")
        record.append(f"{info}/RECORD,,")
        archive.writestr(f"{info}/RECORD", "\n".join(record) + "\n")
    return f"{name}-{version}-{tag}.whl", data.getvalue()


def torch_wheel(version, *, wrong=False, ballast=0, variant="cpu", cuda=None):
    """Return a fake torch; `ballast` bytes make its download long."""
    files = {
        "torch/__init__.py": CODE.replace("{wrong}", str(wrong)),
        "torch/version.py": (
            f"__version__ = '{version}+{variant}'\ncuda: 'str | None' = {cuda!r}\nhip = None\n"
        ),
        "torch/lib/ballast.bin": bytes(ballast) if ballast < 2 else noise(ballast),
        f"torch-{version}+{variant}.data/data/share/torch/note.txt": "data files go here\n",
        f"torch-{version}+{variant}.data/scripts/torch-script": "#!python\nprint('hello')\n",
    }
    return wheel(
        "torch", f"{version}+{variant}", files, requires=("tinydep>=1.0",),
        scripts={"torchrun": "torch.version:__doc__"}, tag="cp311-cp311-manylinux_2_17_x86_64",
    )  # fmt: skip


def noise(size):
    import random

    return random.Random(1).randbytes(size)


def tiny_wheel(version="1.5"):
    return wheel("tinydep", version, {"tinydep.py": f"VERSION = {version!r}\n"})


def numpy_wheel(version="2.1.0"):
    return wheel("numpy", version, {"numpy/__init__.py": f"__version__ = {version!r}\n"})


class Index:
    """The wheels of a server, with the two forms of its pages and a speed limit."""

    def __init__(self):
        self.wheels = {}
        self.form = "html"
        self.rate = None
        self.lie = False
        self.log = []
        self.url = ""

    def add(self, *pairs):
        for name, data in pairs:
            self.wheels[name] = data

    def page(self, project):
        names = [
            name
            for name in self.wheels
            if name.partition("-")[0].lower().replace("_", "-") == project
        ]
        sums = {name: hashlib.sha256(self.wheels[name]).hexdigest() for name in names}
        if self.lie:
            sums = dict.fromkeys(names, "0" * 64)
        if self.form == "json":
            files = [
                {"filename": name, "url": f"/files/{name.replace('+', '%2B')}",
                 "hashes": {"sha256": sums[name]}, "size": len(self.wheels[name])}
                for name in names
            ]  # fmt: skip
            document = {"meta": {"api-version": "1.0"}, "name": project, "files": files}
            return "application/vnd.pypi.simple.v1+json", json.dumps(document)
        anchors = "".join(
            f'<a href="/files/{name.replace("+", "%2B")}#sha256={sums[name]}">{name}</a>\n'
            for name in names
        )
        return "text/html", f"<!DOCTYPE html><html><body>{anchors}</body></html>"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    index: Index

    def log_message(self, *args):
        pass

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        index = self.index
        index.log.append((self.command, self.path))
        parts = self.path.strip("/").split("/")
        if parts[0] == "files":
            return self.send_file(index, parts[1].replace("%2B", "+"))
        if parts[0] in ("simple", "whl") and len(parts) == 2:
            kind, text = index.page(parts[1])
            return self.send(200, kind, text.encode())
        return self.send(404, "text/plain", b"")

    def send(self, status, kind, body, start=0, total=None):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", '"v1"')
        if status == 206:
            self.send_header("Content-Range", f"bytes {start}-{total - 1}/{total}")
        self.end_headers()
        if self.command == "HEAD":
            return
        step = 16384 if self.index.rate else len(body) or 1
        try:
            for at in range(0, len(body), step):
                self.wfile.write(body[at : at + step])
                if self.index.rate:
                    time.sleep(step / self.index.rate)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def send_file(self, index, name):
        data = index.wheels.get(name)
        if data is None:
            return self.send(404, "text/plain", b"")
        asked = self.headers.get("Range")
        if asked is None:
            return self.send(200, "application/zip", data)
        start = int(asked.removeprefix("bytes=").partition("-")[0])
        return self.send(206, "application/zip", data[start:], start, len(data))


@contextmanager
def serve_index():
    """Run an index and yield it; its pages are under /simple/ and /whl/."""
    index = Index()
    handler = type("BoundHandler", (Handler,), {"index": index})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    index.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield index
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
