"""Run `fdl` in a fork of a process that has already imported it: a process of its own, without the start.

The same for pytest, with torch imported and nothing of this project. `drawing` is `fdl` whose `fdl graph`
starts its other process as a fork, too: that one imports torch, which takes seconds.
Streams, environment, working folder, exit code and `exec` are those of a real process; what Python
itself reads when it starts (see AT_START) is not, so a change of it gets a real start.
"""

import contextlib
import gc
import importlib
import inspect
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import types
from pathlib import Path

# Read once, by Python or the C library, before `fdl` begins.
AT_START = ("PYTHON", "LC_", "LANG", "TZ", "LD_")
ANSWER = 32  # bytes of an answer
DRAWS = "flodl_verify.render"


def at_start(environ):
    """Return the part of an environment that a running Python no longer asks for."""
    return {name: value for name, value in environ.items() if name.startswith(AT_START)}


class ForkServer:
    """The tests' end: one process that waits, and forks for each run."""

    def __init__(self, environ, program="fdl"):
        self.environ = at_start(environ)
        self.program = program
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-P", __file__, str(theirs.fileno()), program]
        self.process = subprocess.Popen(
            command, env=environ, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()]
        )
        theirs.close()
        self.connection = ours

    def run(self, words, cwd, environ, timeout):
        """Run `fdl WORDS` or `pytest WORDS`, and return what `subprocess.run` would."""
        request = json.dumps({"words": words, "cwd": str(cwd), "environ": environ}).encode()
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
            # The length first: a message may come in pieces.
            head = len(request).to_bytes(8, "big")
            socket.send_fds(self.connection, [head], [output.fileno(), errors.fileno()])
            self.connection.sendall(request)
            child = self.answer()
            self.connection.settimeout(timeout)
            try:
                status = self.answer()
            except TimeoutError:
                os.kill(child, signal.SIGKILL)
                self.connection.settimeout(None)
                self.answer()
                raise
            self.connection.settimeout(None)
            code = os.waitstatus_to_exitcode(status)
            texts = [file.seek(0) or file.read().decode() for file in (output, errors)]
        return subprocess.CompletedProcess([self.program, *words], code, *texts)

    def answer(self):
        return int(self.connection.recv(ANSWER, socket.MSG_WAITALL))

    def close(self):
        """Let the server end."""
        self.connection.close()
        self.process.wait(30)


def serve(connection, run):
    """Answer each request with the number of a child, and then with how it ended."""
    while True:
        head, streams, _, _ = socket.recv_fds(connection, 8, 2)
        if not head:
            return
        request = connection.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL)
        output, errors = streams
        child = os.fork()
        if child == 0:
            connection.close()
            become(run, json.loads(request), output, errors)
        os.close(output)
        os.close(errors)
        connection.sendall(str(child).encode().ljust(ANSWER))
        connection.sendall(str(os.waitpid(child, 0)[1]).encode().ljust(ANSWER))


def become(run, request, output, errors):
    """Be another program from here on, such as `python -P -m fdl_cli`; does not return."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for stream, number in ((output, 1), (errors, 2)):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(request["environ"])
    os.chdir(request["cwd"])
    code = 1
    try:
        run(request["words"])
    except SystemExit as ended:
        code = ended.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


def run_fdl(words):
    """Run a command line of this checkout."""
    from fdl_cli import app

    sys.argv = [str(Path(app.__file__).with_name("__main__.py")), *words]
    app.entry()


class DrawingPopen(subprocess.Popen):
    """Starts the process that draws as a fork; any other program as ever."""

    def _execute_child(self, args, *rest):
        start = super()._execute_child
        if [str(each) for each in args[:3]] != [sys.executable, "-m", DRAWS]:
            start(args, *rest)
            return
        given = inspect.signature(start).bind(args, *rest).arguments
        assert given["start_new_session"]
        self.pid = os.fork()
        if self.pid == 0:
            os.setsid()
            os.dup2(given["p2cread"], 0)
            words = [str(each) for each in args[3:]]
            request = {"words": words, "cwd": given["cwd"], "environ": given["env"]}
            become(run_drawing, request, given["c2pwrite"], given["errwrite"])
        self._child_created = True
        pipes = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        self._close_pipe_fds(*(given[each] for each in pipes))


def run_drawing(words):
    """Draw what a request describes, as `python -m flodl_verify.render` does."""
    sys.path.insert(0, str(Path.cwd()))
    sys.exit(importlib.import_module(f"{DRAWS}.__main__").main(words))


def draw_in_forks():
    """Import what draws, and let `fdl graph` start it as a fork."""
    from fdl_cli.system import process

    importlib.import_module(f"{DRAWS}.__main__")
    names = {name: getattr(subprocess, name) for name in subprocess.__all__}
    process.subprocess = types.SimpleNamespace(**names | {"Popen": DrawingPopen})


def run_pytest(words):
    """Run tests of the working folder, with its sources."""
    import pytest

    sys.path.insert(0, str(Path.cwd()))
    sys.exit(int(pytest.main(words)))


def import_all():
    """Import every command, so that no fork has to."""
    from fdl_cli.commands.execution import load
    from fdl_cli.commands.registry import COMMANDS

    for entry in COMMANDS:
        load(entry)


if __name__ == "__main__":
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # a Ctrl-C is for the tests; they end this process
    if sys.argv[2] == "pytest":
        for name in ("libcst", "numpy", "torch"):  # pytest itself wants to import its plugins
            importlib.import_module(name)
        run = run_pytest
    else:
        sys.path.insert(
            0, str(Path(__file__).parents[2])
        )  # this checkout, wherever `.venv` points
        import_all()
        if sys.argv[2] == "drawing":
            draw_in_forks()
        run = run_fdl
    gc.freeze()  # or the first collection in each fork copies every page
    serve(socket.socket(fileno=int(sys.argv[1])), run)
