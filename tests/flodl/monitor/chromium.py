"""A headless Chromium that is driven through two pipes, with nothing but the standard library."""

import base64
import contextlib
import json
import os
import shutil
import subprocess
import time
from multiprocessing.connection import wait

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--hide-scrollbars",
    "--disable-dev-shm-usage", "--remote-debugging-pipe",
)  # fmt: skip


class Chromium:
    """One browser with one page."""

    def __init__(self, profile, width=1280, height=900):
        to_browser, self._to = os.pipe()
        self._from, from_browser = os.pipe()
        # The browser reads from descriptor 3 and writes to 4.
        command = f'exec 3<&{to_browser} 4>&{from_browser}; exec "$@"'
        self._process = subprocess.Popen(
            ["bash", "-c", command, "bash", BROWSER, *FLAGS, f"--user-data-dir={profile}",
             f"--window-size={width},{height}", "about:blank"],
            pass_fds=(to_browser, from_browser),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_browser)
        os.close(from_browser)
        self._buffer = b""
        self._number = 0
        self.requests = []
        self.problems = []
        self._session = None
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(each for each in targets if each["type"] == "page")
        attached = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self._send({"id": 0, "method": "Browser.close"})
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._to)
        os.close(self._from)

    def call(self, method, timeout=30, **params):
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        self._send(message)
        limit = time.monotonic() + timeout
        while True:
            answer = self._receive(limit)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return answer["result"]

    def evaluate(self, source, timeout=30):
        """Return the value of a JavaScript expression; a promise is waited for."""
        answer = self.call(
            "Runtime.evaluate", timeout, expression=source, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise AssertionError(json.dumps(answer["exceptionDetails"])[:600])
        return answer["result"].get("value")

    def open(self, url):
        self.call("Page.navigate", url=url)

    def load(self, url):
        """Open a page and wait until it is complete."""
        # A page that is open already would look complete at once.
        self.open("about:blank")
        self.open(url)
        limit = time.monotonic() + 30
        state = f"location.href === {url!r} && document.readyState === 'complete'"
        while not self.evaluate(state):
            assert time.monotonic() < limit, url
            time.sleep(0.02)

    def wait(self, source, timeout=15):
        """Wait until an expression is true; while a page is loading, it is not."""
        limit = time.monotonic() + timeout
        while time.monotonic() < limit:
            # A node by value is an empty table, so the truth is asked for in JavaScript.
            if self.evaluate(f"typeof fm === 'object' && Boolean({source})"):
                return
            time.sleep(0.05)
        raise AssertionError(f"never true: {source}; problems: {self.problems}")

    def resize(self, width, height, *, mobile=False):
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=mobile,
        )  # fmt: skip

    def theme(self, name):
        features = [{"name": "prefers-color-scheme", "value": name}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def key(self, name):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=name)

    def screenshot(self, path, *, whole=True):
        answer = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(answer["data"]))

    def _send(self, message):
        os.write(self._to, json.dumps(message).encode() + b"\0")

    def _receive(self, limit):
        while True:
            while b"\0" not in self._buffer:
                left = limit - time.monotonic()
                if not wait([self._from], max(left, 0)):
                    raise AssertionError("the browser does not answer")
                data = os.read(self._from, 1 << 16)
                if not data:
                    raise AssertionError("the browser is gone")
                self._buffer += data
            raw, _, self._buffer = self._buffer.partition(b"\0")
            message = json.loads(raw)
            self._note(message)
            if "id" in message:
                return message

    def _note(self, message):
        params = message.get("params", {})
        match message.get("method"):
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])
            case "Runtime.exceptionThrown":
                self.problems.append(json.dumps(params["exceptionDetails"])[:500])
            case "Log.entryAdded":
                if params["entry"]["level"] == "error":
                    self.problems.append(params["entry"]["text"])
