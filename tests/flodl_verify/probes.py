"""Probes of the containment: Python that tries to leave the proof, and what becomes of it.

`refused` everywhere, `kernel N` from version N of Landlock on, `open` where docs/explanation/verification.md
says so.
"""

_NATIVE = "c = ctypes.CDLL(None, use_errno=True)\n"


def _native(call):
    return f"{_NATIVE}if {call} < 0: raise OSError(ctypes.get_errno(), 'refused')"


def _shell(command):
    return f"if os.system(f'{command}') != 0: raise OSError('refused')"


_TCP = "struct.pack('=HHI8x', socket.AF_INET, socket.htons(PORT), 0x0100007f)"
_UDP = "struct.pack('=HHI8x', socket.AF_INET, socket.htons(UDP), 0x0100007f)"
_UNIX = "struct.pack('=H108s', socket.AF_UNIX, os.fsencode(UNIX))"
_ABSTRACT = "struct.pack('=H', socket.AF_UNIX) + b'\\0' + ABSTRACT"

PROBES = {
    # ---- files, by Python
    "write": ("refused", "open(FILE, 'w').close()"),
    "append": ("refused", "open(FILE, 'a').close()"),
    "create": ("refused", "open(OUT + '/new', 'x').close()"),
    "remove": ("refused", "os.remove(FILE)"),
    "rename away": ("refused", "os.rename(FILE, WORK + '/moved')"),
    "rename onto": ("refused", "open(WORK + '/a', 'w').close(); os.rename(WORK + '/a', FILE)"),
    "make a folder": ("refused", "os.mkdir(OUT + '/folder')"),
    "remove a folder": ("refused", "os.rmdir(OUT + '/empty')"),
    "make a symbolic link": ("refused", "os.symlink('x', OUT + '/link')"),
    "make a hard link": ("refused", "open(WORK + '/b', 'w').close(); os.link(WORK + '/b', OUT + '/hard')"),
    "truncate": ("refused", "os.truncate(FILE, 0)"),
    "change the mode": ("refused", "os.chmod(FILE, 0o777)"),
    "change the mode by descriptor": ("refused", "os.fchmod(os.open(FILE, os.O_RDONLY), 0o777)"),
    "change the owner": ("refused", "os.chown(FILE, os.getuid(), os.getgid())"),
    "change the times": ("refused", "os.utime(FILE)"),
    "set an attribute": ("refused", "os.setxattr(FILE, 'user.x', b'1')"),
    "make a pipe": ("kernel 2", "os.mkfifo(OUT + '/pipe')"),
    "write to shared memory": ("refused", "open('/dev/shm/fdl-probe', 'w').close()"),
    # ---- files, past Python
    "native write": ("kernel 2", _native("c.open(os.fsencode(FILE), 1)")),
    "native create": ("kernel 2", _native("c.open(os.fsencode(OUT + '/new'), 65, 0o600)")),
    "native remove": ("kernel 2", _native("c.unlink(os.fsencode(FILE))")),
    "native rename": ("kernel 2", _native("c.rename(os.fsencode(FILE), os.fsencode(OUT + '/m'))")),
    "native truncate": ("kernel 3", _native("c.truncate(os.fsencode(FILE), ctypes.c_long(0))")),
    "native change of the mode": ("open", _native("c.chmod(os.fsencode(FILE), 0o777)")),
    "native change of the times": ("open", _native("c.utimes(os.fsencode(FILE), None)")),
    "program that writes": ("kernel 2", _shell("echo x > {FILE} 2>/dev/null")),
    "program that removes": ("kernel 2", _shell("rm -f {FILE} 2>/dev/null")),
    "program that changes the mode": ("open", _shell("chmod 777 {FILE}")),
    "program that starts": ("open", "subprocess.run(['true'], check=True)"),
    "program that downloads": ("refused", "subprocess.run(['curl', '--version'], check=True)"),
    "read": ("open", "open(FILE).read()"),
    # ---- network
    "lookup of a name": ("refused", "socket.getaddrinfo('example.org', 80)"),
    "TCP to another machine": ("refused", "socket.create_connection(('192.0.2.1', 80), timeout=1)"),
    "TCP to this machine": ("kernel 4", "socket.create_connection(('127.0.0.1', PORT), timeout=5)"),
    "native TCP": (
        "kernel 4", f"s = socket.socket()\n{_native(f'c.connect(s.fileno(), {_TCP}, 16)')}",
    ),
    "TCP port": ("kernel 4", "s = socket.socket(); s.bind(('127.0.0.1', 45677)); s.listen()"),
    "UDP to another machine": (
        "refused", "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 9))",
    ),
    "native UDP": (
        "open",
        "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        + _native(f"c.sendto(s.fileno(), b'x', 1, 0, {_UDP}, 16)"),
    ),
    "Unix socket of this machine": (
        "refused", "socket.socket(socket.AF_UNIX).connect(UNIX)",
    ),
    "native Unix socket": (
        "open", f"s = socket.socket(socket.AF_UNIX)\n{_native(f'c.connect(s.fileno(), {_UNIX}, 110)')}",
    ),
    "abstract Unix socket": (
        "refused", "socket.socket(socket.AF_UNIX).connect(b'\\0' + ABSTRACT)",
    ),
    "native abstract Unix socket": (
        "kernel 6",
        "s = socket.socket(socket.AF_UNIX)\n"
        + _native(f"c.connect(s.fileno(), {_ABSTRACT}, 3 + len(ABSTRACT))"),
    ),
    # ---- processes
    "signal to the parent": ("refused", "os.kill(PARENT, 0); os.kill(PARENT, signal.SIGURG)"),
    "native signal": ("kernel 6", _native("c.kill(PARENT, int(signal.SIGURG))")),
    "program that sends a signal": ("kernel 6", _shell("kill -URG {PARENT} 2>/dev/null")),
    "change of a priority": ("open", "os.setpriority(os.PRIO_PROCESS, PARENT, os.getpriority(0, PARENT))"),
}  # fmt: skip
