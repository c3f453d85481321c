"""Probe of the Docker engine over its socket: program, permission, daemon, compose, GPU runtime.

The docker program is not started for this: it takes longer than everything else together.
"""

import errno
import http.client
import json
import shutil
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, final

DockerStatus = Literal["ok", "absent", "no_daemon", "no_permission", "timeout", "not_asked"]

DEFAULT_SOCKET: Final = "/var/run/docker.sock"
SECONDS: Final = 1.0
_PLUGIN_FOLDERS: Final = (
    "/usr/libexec/docker/cli-plugins",
    "/usr/lib/docker/cli-plugins",
    "/usr/local/libexec/docker/cli-plugins",
    "/usr/local/lib/docker/cli-plugins",
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class DockerFacts:
    """The facts about Docker here; None where it was not probed."""

    cli: str | None
    socket: str
    status: DockerStatus
    version: str | None = None
    compose: bool = False
    nvidia: bool | None = None


@final
class _SocketConnection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=SECONDS)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket file."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(SECONDS)
        self.sock.connect(self._path)


def probe_docker(environ: Mapping[str, str]) -> DockerFacts:
    """Return the facts about Docker; nothing here waits longer than two seconds."""
    named = environ.get("DOCKER_HOST", "")
    path = named.removeprefix("unix://") if named.startswith("unix://") else DEFAULT_SOCKET
    cli = shutil.which("docker")
    compose = _has_compose(environ)
    if sys.platform == "win32" or (named and not named.startswith("unix://")):
        return DockerFacts(cli=cli, socket=named, status="not_asked", compose=compose)
    status, version, nvidia = _ask(path)
    return DockerFacts(
        cli=cli, socket=path, status=status, version=version, compose=compose, nvidia=nvidia
    )


def _ask(path: str) -> tuple[DockerStatus, str | None, bool | None]:
    try:
        version = _get(path, "/version")
        info = _get(path, "/info")
    except TimeoutError:
        return "timeout", None, None
    except (OSError, http.client.HTTPException, ValueError) as problem:
        return _status_of(problem), None, None
    runtimes = info.get("Runtimes") or {}
    specs = json.dumps(info.get("CDISpecDirs") or []) + json.dumps(
        info.get("DiscoveredDevices") or []
    )
    return "ok", str(version.get("Version", "")), "nvidia" in runtimes or "nvidia.com" in specs


def _get(path: str, address: str) -> dict[str, Any]:
    connection = _SocketConnection(path)
    try:
        connection.request("GET", address)
        answer = json.loads(connection.getresponse().read())
    finally:
        connection.close()
    if not isinstance(answer, dict):
        raise http.client.HTTPException("the engine answered with no object")
    return answer


def _status_of(problem: Exception) -> DockerStatus:
    number = problem.errno if isinstance(problem, OSError) else None
    if number in (errno.EACCES, errno.EPERM):
        return "no_permission"
    return "absent" if number == errno.ENOENT else "no_daemon"


def _has_compose(environ: Mapping[str, str]) -> bool:
    home = environ.get("HOME", "")
    folders = (f"{home}/.docker/cli-plugins", *_PLUGIN_FOLDERS)
    return any((Path(folder) / "docker-compose").exists() for folder in folders)
