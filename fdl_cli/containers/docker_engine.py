"""The Docker engine, through the docker SDK, which is imported only when a container is wanted."""

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, final

from fdl_cli.containers.build_failure import build_failed, read_failure, shown_at_last
from fdl_cli.containers.context import LARGE_BYTES, context_digest, needs_buildkit
from fdl_cli.containers.engine import ContainerRun, ImageBuild, Say
from fdl_cli.containers.streams import ReaderLeftError, Wire
from fdl_cli.errors import EXIT_BROKEN_PIPE, EnvironmentLackingError, OperationFailedError

if TYPE_CHECKING:
    from docker import APIClient

DIGEST_LABEL: Final = "dev.flodl.context"
# A program that ignores the first signal gets this long before it is killed.
GRACE_S: Final = 10.0
FORWARDED: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@final
class DockerEngine:
    """Talks to one Docker engine."""

    def __init__(self, address: str) -> None:
        import docker
        from docker.errors import DockerException

        try:
            self._api: APIClient = docker.APIClient(base_url=address, version="auto")
        except DockerException as problem:
            raise EnvironmentLackingError(
                error_id="docker-unreachable",
                message=f"the Docker engine at `{address}` does not answer: {problem}",
                hint="start Docker, or run the task here with `--native`",
            ) from problem

    def ensure_image(self, build: ImageBuild, say: Say) -> bool:
        """Build the image if it is missing or if anything in its context changed."""
        if not build.dockerfile.is_file():
            raise EnvironmentLackingError(
                error_id="dockerfile-missing",
                message=f"there is no `{build.dockerfile}`",
                hint="add one with `fdl add docker`, or run the task with `--native`",
            )
        digest, size = context_digest(build)
        if self._label(build.tag) == digest:
            return False
        if size > LARGE_BYTES:
            say(f"the build context is {size / 1e6:.0f} MB; a `.dockerignore` makes it smaller")
        if needs_buildkit(build.dockerfile):
            raise BuildKitNeeded(digest)
        say(f"building {build.tag} from {build.dockerfile}")
        self._build(build, digest, say)
        return True

    def require_image(self, image: str, say: Say) -> None:
        """Pull an image that is not here yet."""
        from docker.errors import APIError

        if self._inspect(image) is not None:
            return
        say(f"fetching {image}")
        try:
            for event in self._api.pull(image, stream=True, decode=True):
                if "error" in event:
                    raise _pull_failed(image, str(event["error"]))
        except APIError as problem:
            raise _pull_failed(image, str(problem.explanation)) from problem

    def run(self, request: ContainerRun) -> int:
        """Run a command with this process's streams, and remove the container."""
        from docker.errors import APIError

        try:
            container = self._create(request)
        except APIError as problem:
            raise _start_failed(request, str(problem.explanation)) from problem
        # Also around the removal: one more Ctrl-C must not leave the container behind.
        with self.forwarding(container):
            try:
                return self._attached(container, request)
            except APIError as problem:
                raise _start_failed(request, str(problem.explanation)) from problem
            finally:
                self._api.remove_container(container, force=True, v=True)

    def _create(self, request: ContainerRun) -> str:
        folders = [mount for mount in request.mounts if mount.is_folder]
        binds = [
            f"{mount.source}:{mount.target}:{'ro' if mount.read_only else 'rw'}"
            for mount in (*folders, *(m for m in request.mounts if not m.is_folder))
        ]
        published, exposed = _ports(request.ports)
        host: dict[str, Any] = {
            "binds": binds,
            "shm_size": request.shm_size,
            "init": self._has_init() if request.init is None else request.init,
            "network_mode": request.network,
            "port_bindings": published,
        }
        if request.gpus:
            from docker.types import DeviceRequest

            host["device_requests"] = [DeviceRequest(count=-1, capabilities=[["gpu"]])]
        created = self._api.create_container(
            request.image,
            command=list(request.argv),
            entrypoint=list(request.entrypoint) or None,
            working_dir=request.folder,
            environment=dict(request.environment),
            user=request.user,
            tty=request.tty,
            stdin_open=True,
            ports=exposed,
            labels=dict(request.labels),
            host_config=self._api.create_host_config(
                **{name: value for name, value in host.items() if value is not None}
            ),
        )
        return str(created["Id"])

    def _attached(self, container: str, request: ContainerRun) -> int:
        ways = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
        answer = self._api.attach_socket(container, params=ways)
        with _connection(answer.fileno()) as connection:
            self._api.start(container)
            with _raw_terminal(request, lambda: self._resize(container)):
                try:
                    stdin = None if sys.stdin is None else 0
                    Wire(connection, tty=request.tty, stdin=stdin).pump()
                except ReaderLeftError:
                    # The engine would wait forever to deliver output without a reader.
                    connection.shutdown(socket.SHUT_RDWR)
                    self._kill(container, "SIGKILL")
                    return EXIT_BROKEN_PIPE
            return int(self._api.wait(container)["StatusCode"])

    @contextmanager
    def forwarding(
        self, container: str, otherwise: Callable[[], None] = lambda: None
    ) -> Iterator[None]:
        """Hand signals on to the container; the second one, or patience, ends it by force.

        `otherwise` is called instead as long as there is no such container.
        """
        timers: list[threading.Timer] = []

        def forward(number: int, _: FrameType | None) -> None:
            if timers:
                self._kill(container, "SIGKILL")
                return
            if not self._kill(container, signal.Signals(number).name):
                otherwise()
                return
            timers.append(threading.Timer(GRACE_S, self._kill, (container, "SIGKILL")))
            timers[0].daemon = True
            timers[0].start()

        before = {number: signal.signal(number, forward) for number in FORWARDED}
        try:
            yield
        finally:
            for timer in timers:
                timer.cancel()
            for number, handler in before.items():
                signal.signal(number, handler)

    def end_of(self, container: str) -> int | None:
        """Wait for a container that is still there and remove it; None if there is none any more."""
        from docker.errors import APIError, NotFound

        try:
            code = int(self._api.wait(container)["StatusCode"])
            self._api.remove_container(container, force=True, v=True)
        except NotFound:
            return None
        except APIError as problem:
            if problem.status_code == 409:  # whoever made it is removing it
                return None
            raise
        return code

    def _kill(self, container: str, name: str) -> bool:
        from docker.errors import APIError, NotFound

        try:
            self._api.kill(container, name)
        except NotFound:
            return False
        except APIError:
            # It ended in the same moment; its exit code is about to be read.
            return True
        return True

    def _resize(self, container: str) -> None:
        size = os.get_terminal_size(0)
        self._api.resize(container, height=size.lines, width=size.columns)

    def _has_init(self) -> bool:
        commit = self._api.info().get("InitCommit") or {}
        return str(commit.get("ID", "N/A")) != "N/A"

    def _inspect(self, image: str) -> Mapping[str, Any] | None:
        from docker.errors import ImageNotFound

        try:
            found: Mapping[str, Any] = self._api.inspect_image(image)  # type: ignore[no-untyped-call]
        except ImageNotFound:
            return None
        return found

    def _label(self, image: str) -> str | None:
        found = self._inspect(image)
        labels = ((found or {}).get("Config") or {}).get("Labels") or {}
        return labels.get(DIGEST_LABEL)

    def _build(self, build: ImageBuild, digest: str, say: Say) -> None:
        lines: list[str] = []
        events = self._api.build(
            path=str(build.context),
            dockerfile=str(build.dockerfile.relative_to(build.context)),
            tag=build.tag,
            target=build.target or "",
            buildargs=dict(build.args),
            labels={DIGEST_LABEL: digest},
            network_mode=build.network,
            rm=True,
            forcerm=True,
            decode=True,
        )
        for event in events:
            for line in str(event.get("stream", "")).rstrip("\n").splitlines():
                lines.append(line)
                if shown := shown_at_last(line):
                    say(f"  {shown}")
            if "error" in event:
                said = str(event["error"])
                failure = read_failure("\n".join(lines), build.dockerfile, said)
                raise build_failed(f"the image `{build.tag}`", failure)


@final
class BuildKitNeeded(Exception):  # noqa: N818 - an answer to `ensure_image`, not a failure
    """The Dockerfile has features that the SDK cannot build; `docker build` with BuildKit can."""

    def __init__(self, digest: str) -> None:
        super().__init__(digest)
        self.digest = digest


@contextmanager
def _connection(descriptor: int) -> Iterator[socket.socket]:
    # A socket of our own: half-closing it tells the container that its input is at the end.
    connection = socket.socket(fileno=os.dup(descriptor))
    connection.setblocking(True)
    try:
        yield connection
    finally:
        connection.close()


@contextmanager
def _raw_terminal(request: ContainerRun, resize: Any) -> Iterator[None]:
    """Hand every key to the container's terminal, and put this one back at the end."""
    if not request.tty:
        yield
        return
    import termios
    import tty

    before = termios.tcgetattr(0)
    resize()
    handler = signal.signal(signal.SIGWINCH, lambda *_: resize())
    try:
        tty.setraw(0)
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)
        signal.signal(signal.SIGWINCH, handler)


def _ports(ports: tuple[str, ...]) -> tuple[dict[str, Any], list[str]]:
    published: dict[str, Any] = {}
    for text in ports:
        *host, inside = text.split(":")
        where = host[-1] if host else None
        published[inside] = (host[0], where) if len(host) == 2 else where
    return published, list(published)


def _pull_failed(image: str, reason: str) -> OperationFailedError:
    return OperationFailedError(
        error_id="pull-failed",
        message=f"the image `{image}` cannot be fetched: {reason.strip()}",
        hint="check its name and the network; `docker login` for a private one",
    )


def _start_failed(request: ContainerRun, reason: str) -> OperationFailedError:
    return OperationFailedError(
        error_id="container-failed",
        message=f"`{Path(request.argv[0]).name}` cannot run in `{request.image}`: {reason.strip()}",
        hint="correct the service, or run the task here with `--native`",
    )
