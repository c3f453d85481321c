"""Ranks in forks of a process that has imported torch: processes of their own, without the start.

    pytest                        the launcher starts a rank
      server                      has imported torch and flodl, and has no thread
        (a fork that ends)
          rank                    now a child of pytest, as if the launcher had started Python

To import torch takes each rank seconds of a core. Signals, exit status, environment, working folder, session
and log are those of a real process. What Python and OpenMP read when they start is that of the server.
"""

import atexit
import ctypes
import gc
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
import types
from pathlib import Path

ROOT = Path(__file__).parents[1]
MODULE = "flodl.distributed.team.worker"
ANSWER = 32  # bytes of an answer
PR_SET_CHILD_SUBREAPER = 36


class ForkedRank:
    """What the launcher needs of `subprocess.Popen`."""

    def __init__(self, pid):
        self.pid = pid
        self.returncode = None

    def wait(self):
        if self.returncode is None:
            _, status = os.waitpid(self.pid, 0)
            self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


class RankForks:
    """The tests' end: one process that waits, and forks for each rank; the first rank starts it."""

    def __init__(self):
        self.process = self.connection = None

    def begin(self):
        """Start the process."""
        ours, theirs = socket.socketpair()
        environ = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        self.process = subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno())],
            env=environ, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()],
        )  # fmt: skip
        theirs.close()
        self.connection = ours

    def start(self, command, *, stdout, env, **rest):
        """Start a rank as `subprocess.Popen` would with these arguments."""
        # Another command or other streams: a launcher that changed, and this file did not.
        assert command[:3] == [sys.executable, "-m", MODULE]
        assert rest == {
            "stdin": subprocess.DEVNULL,
            "stderr": subprocess.STDOUT,
            "start_new_session": True,
        }
        if self.process is None:
            self.begin()
        request = {"words": command[3:], "cwd": str(Path.cwd()), "environ": env}
        data = json.dumps(request).encode()
        adopt_orphans(True)
        try:
            # The length first: a message may come in pieces.
            socket.send_fds(self.connection, [len(data).to_bytes(8, "big")], [stdout.fileno()])
            self.connection.sendall(data)
            return ForkedRank(int(self.connection.recv(ANSWER, socket.MSG_WAITALL)))
        finally:
            adopt_orphans(False)

    def close(self):
        """Let the server end."""
        if self.process is None:
            return
        self.connection.close()
        self.process.wait(30)


def adopt_orphans(wanted):
    """Let processes whose parent ends become children of this one, or of the first process of the system."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(wanted), 0, 0, 0)


def launcher_modules(forks):
    """Return what the launcher finds under the name `subprocess`."""
    return types.SimpleNamespace(
        Popen=forks.start, DEVNULL=subprocess.DEVNULL, STDOUT=subprocess.STDOUT
    )


def serve(connection):
    """Answer each request with the number of the rank's process."""
    while True:
        head, (*streams,), _, _ = socket.recv_fds(connection, 8, 1)
        if not head:
            return
        data = connection.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL)
        reading, writing = os.pipe()
        middle = os.fork()
        if middle == 0:
            parent, orphan = os.getpid(), os.fork()
            if orphan == 0:
                os.close(reading)
                os.close(writing)
                connection.close()
                become_rank(json.loads(data), streams[0], parent)
            os.write(writing, str(orphan).encode())
            os._exit(0)
        os.close(streams[0])
        os.close(writing)
        os.waitpid(middle, 0)
        connection.sendall(os.read(reading, ANSWER).ljust(ANSWER))
        os.close(reading)


def become_rank(request, log, parent):
    """Be `python -m flodl.distributed.team.worker` from here on; does not return."""
    from flodl.distributed.team import worker

    while os.getppid() == parent:  # until it is a child of the tests
        time.sleep(0.0005)
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (1, 2):
        os.dup2(log, number)
    os.close(log)
    os.environ.clear()
    os.environ.update(request["environ"])
    os.chdir(request["cwd"])
    random.seed()
    sys.argv = [worker.__file__, *request["words"]]
    status = 1
    try:
        status = worker.main(Path(request["words"][0]), int(request["words"][1]))
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def import_all():
    """Import what a rank needs, so that no fork has to."""
    import cloudpickle
    import torch._dynamo  # the first step of an optimizer imports it

    import flodl.train.cadence.cadence_step
    import flodl.train.sync.processes
    from flodl.distributed.team import worker

    return cloudpickle, torch, flodl, worker


if __name__ == "__main__":
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # a Ctrl-C is for the tests; they end this process
    import_all()
    gc.freeze()  # or the first collection in each fork copies every page
    serve(socket.socket(fileno=int(sys.argv[1])))
