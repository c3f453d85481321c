"""Tasks through `docker compose run`, with the two duties of its caller: signals and leftovers.

A signal ends `docker compose run` at once and leaves the container running (seen in 2.26). So compose
makes the container under a name of ours, and signals go to the container itself, through the engine, which
also gives the exit code. No `--rm`: with the container its exit code would be gone.
"""

import contextlib
import os
import re
import secrets
import shlex
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, final

from fdl_cli.containers.build_failure import build_failed, build_shown, read_failure
from fdl_cli.containers.docker_engine import DockerEngine
from fdl_cli.containers.engine import Say
from fdl_cli.manifest.docker_tasks.places import inside, mounts_of
from fdl_cli.manifest.docker_tasks.services import Service, pairs
from fdl_cli.manifest.model import Invocation
from fdl_cli.manifest.supervise import Ended
from fdl_cli.system.process import child_of, run, run_quietly

# The lines of a build to show: output of a step, a layer on its way, an error. Cached steps are not.
_NEWS: Final = re.compile(r"#\d+ (\d+\.\d+ |sha256:|ERROR)| ---> Running in ")


@final
class Compose:
    """The compose program with the files of one service."""

    def __init__(
        self, cli: str, service: Service, environ: Mapping[str, str], *, gpus: bool
    ) -> None:
        self._service = service
        self._environ = environ
        files = [service.file]
        if gpus and service.gpu_file is not None:
            files.append(service.gpu_file)
        self._words = [cli, "compose", *(f"--file={file}" for file in files)]

    def build(self, say: Say, *, terminal: bool) -> None:
        """Build the image of the service; without a terminal, only news are shown.

        Raises:
            OperationFailedError: compose ended with an error.
        """
        if not {"build", "depends_on"} & set(self._service.settings):
            return
        wish = ["build", "--with-dependencies", self._service.name]
        if terminal:
            done = run([*self._words, *wish], env=self._environ, capture=False, check=False)
        else:
            words = [self._words[0], "compose", "--progress=plain", *self._words[2:], *wish]
            done = run_quietly(words, env=self._environ, news=_NEWS, say=say)
        if done.returncode != 0:
            what = f"the image of the service `{self._service.name}`"
            if not done.stdout:
                raise build_shown(what, self._dockerfile())
            raise build_failed(what, read_failure(done.stdout, self._dockerfile()))

    def _dockerfile(self) -> Path:
        build = self._service.settings.get("build")
        settings = build if isinstance(build, Mapping) else {"context": str(build or ".")}
        context = self._service.file.parent / str(settings.get("context") or ".")
        return context.resolve() / str(settings.get("dockerfile") or "Dockerfile")

    def run_command(self, invocation: Invocation, name: str, *, tty: bool) -> tuple[str, ...]:
        """Return the `docker compose run` for a task; arguments stay one word each."""
        settings = self._service.settings
        mounts = mounts_of(self._service)
        folder = inside(invocation.folder, mounts) or str(settings.get("working_dir", "/"))
        words = [*self._words, "run", "--name", name]
        words += [] if tty else ["-T"]
        words += ["--workdir", folder, "--env", "FDL_IN_CONTAINER=1"]
        if os.getuid() != 0 and "HOME" not in dict(pairs(settings.get("environment"))):
            words += ["--env", "HOME=/tmp"]  # the caller's uid has no home in the image
        for change in invocation.changes:
            value = change.value
            if change.name == "FDL_ROOT" and value is not None:
                value = inside(value, mounts) or value
            if value is not None:
                words += ["--env", f"{change.name}={value}"]
        # Compose splits the entry point into words, as a shell does.
        words += ["--entrypoint", shlex.quote(invocation.argv[0]), self._service.name]
        return (*words, *invocation.argv[1:])

    def run(self, invocation: Invocation, engine: DockerEngine, *, tty: bool) -> Ended:
        """Run the task to its end; no container stays, however it ends."""
        task = re.sub(r"[^a-zA-Z0-9_.-]", "-", "-".join(invocation.task))
        name = f"fdl-{task}-{os.getpid()}-{secrets.token_hex(3)}"
        words = self.run_command(invocation, name, tty=tty)
        started = time.monotonic()
        # In a separate session Ctrl-C does not reach compose, which would leave the container to
        # itself; but only a process of this session may read the terminal.
        child = child_of(words, self._environ, own_session=not os.isatty(0))

        def not_there_yet() -> None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, 15)

        with engine.forwarding(name, otherwise=not_there_yet):
            try:
                code = child.wait()
            finally:
                left = engine.end_of(name)
        code = left if left is not None else code
        return Ended(code if code >= 0 else 128 - code, time.monotonic() - started)
