"""Runs the probes, each in a process as a worker of a proof has: `python probing.py ROOT FOLDER`."""

import json
import os
import socket
import sys
import tempfile
import traceback
from pathlib import Path


def main(root, folder):
    sys.path.insert(0, root)
    from flodl_verify.sandbox.containment import contained
    from flodl_verify.sandbox.write_barrier import forbid_writes, landlock_version
    from tests.flodl_verify.probes import PROBES

    parent = os.getpid()
    tcp, udp = socket.create_server(("127.0.0.1", 0)), socket.socket(type=socket.SOCK_DGRAM)
    udp.bind(("127.0.0.1", 0))
    unix, abstract = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
    unix.bind(f"{folder}/unix")
    name = f"fdl-probe-{parent}".encode()
    abstract.bind(b"\0" + name)
    for each in (unix, abstract):
        each.listen(100)
    outcomes = {"version": landlock_version()}
    for probe, (_, code) in PROBES.items():
        outside, work = (Path(tempfile.mkdtemp(dir=folder)) for _ in range(2))
        (outside / "empty").mkdir()
        (outside / "data.txt").write_text("data", encoding="utf-8")
        known = {
            "FILE": str(outside / "data.txt"), "OUT": str(outside), "WORK": str(work), "PARENT": parent,
            "PORT": tcp.getsockname()[1], "UDP": udp.getsockname()[1], "UNIX": f"{folder}/unix",
            "ABSTRACT": name,
        }  # fmt: skip
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.setsid()
            tempfile.tempdir = str(work)
            forbid_writes([work])
            try:
                with contained(work, (outside,)):
                    exec(
                        "import ctypes, os, signal, socket, struct, subprocess\n" + code,
                        dict(known),
                    )
                text = "done"
            except Exception:
                text = traceback.format_exc().splitlines()[-1]
            os.write(write, text.encode())
            os._exit(0)
        os.close(write)
        os.waitpid(pid, 0)
        with os.fdopen(read) as file:
            outcomes[probe] = file.read()
    Path("/dev/shm/fdl-probe").unlink(missing_ok=True)
    sys.stdout.write(json.dumps(outcomes))


if __name__ == "__main__":
    main(*sys.argv[1:])
