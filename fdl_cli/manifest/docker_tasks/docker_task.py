"""Tasks in their Docker service: through compose where that exists, else through the engine."""

import os
import re
import time
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from fdl_cli.containers.build_failure import build_failed, build_shown, read_failure
from fdl_cli.containers.docker_engine import BuildKitNeeded, DockerEngine
from fdl_cli.containers.engine import ContainerRun, ImageBuild, Say
from fdl_cli.errors import EnvironmentLackingError
from fdl_cli.manifest.docker_tasks.compose import Compose
from fdl_cli.manifest.docker_tasks.places import inside, mounts_of
from fdl_cli.manifest.docker_tasks.services import (
    Service,
    find_service,
    pairs,
    require_understood,
)
from fdl_cli.manifest.model import Invocation, Stored
from fdl_cli.manifest.project import Project
from fdl_cli.manifest.supervise import Ended
from fdl_cli.system.docker_probe import DockerFacts, probe_docker

DIGEST_LABEL: Final = "dev.flodl.context"
PROJECT_LABEL: Final = "dev.flodl.project"
DEFAULT_SHM: Final = "2gb"


def run_in_service(
    project: Project, invocation: Invocation, environ: Mapping[str, str], say: Say
) -> Ended:
    """Run the task in a fresh container of its service.

    Raises:
        EnvironmentLackingError: something of Docker is missing; the message says what.
        ConfigError: the service is not described, or needs compose.
        OperationFailedError: the image cannot be built or the container not started.
    """
    stored = project.stored
    assert invocation.service is not None
    known = {**environ, "FDL_UID": str(os.getuid()), "FDL_GID": str(os.getgid())}
    if "torch" in stored.tree:
        known.setdefault("TORCH", str(stored.tree["torch"]))
    service = find_service(stored, invocation.service, known)
    facts = probe_docker(environ)
    require_engine(facts, invocation)
    engine = DockerEngine(environ.get("DOCKER_HOST") or f"unix://{facts.socket}")
    if service.from_compose and facts.compose and facts.cli is not None:
        compose = Compose(facts.cli, service, known, gpus=_has_gpu(facts))
        compose.build(say, terminal=os.isatty(2))
        return compose.run(invocation, engine, tty=_is_terminal())
    require_understood(service)
    image = _ready_image(engine, service, stored, environ, facts, say)
    request = container_run(service, invocation, stored, image, gpus=_wants_gpu(service, facts))
    started = time.monotonic()
    code = engine.run(request)
    return Ended(code, time.monotonic() - started)


def require_engine(facts: DockerFacts, invocation: Invocation) -> None:
    """Refuse to continue without an engine, and say which part of it is missing.

    Raises:
        EnvironmentLackingError: with what to do.
    """
    name = " ".join(invocation.task)
    native = f"or run it here: `fdl --native {name}`"
    reasons = {
        "absent": (
            "docker-missing" if facts.cli is None else "docker-not-running",
            "Docker is not installed"
            if facts.cli is None
            else f"the Docker engine is not running: there is no `{facts.socket}`",
            "install Docker Engine" if facts.cli is None else "`sudo systemctl start docker`",
        ),
        "no_daemon": (
            "docker-not-running",
            f"nothing answers at `{facts.socket}`",
            "`sudo systemctl start docker`",
        ),
        "no_permission": (
            "docker-permission",
            f"this user may not use `{facts.socket}`",
            "`sudo usermod -aG docker $USER`, then log in again",
        ),
        "timeout": (
            "docker-timeout",
            f"the Docker engine at `{facts.socket}` does not answer in time",
            "`sudo systemctl restart docker`",
        ),
    }
    if facts.status in reasons:
        error_id, message, hint = reasons[facts.status]
        raise EnvironmentLackingError(
            error_id=error_id,
            message=f"the task `{name}` runs in Docker, and {message}",
            hint=f"{hint}, {native}",
        )


def container_run(
    service: Service, invocation: Invocation, stored: Stored, image: str, *, gpus: bool
) -> ContainerRun:
    """Return the container for a task."""
    settings = service.settings
    mounts = mounts_of(service)
    folder = inside(invocation.folder, mounts) or str(settings.get("working_dir") or "/")
    environment = dict(pairs(settings.get("environment")))
    environment["FDL_IN_CONTAINER"] = "1"
    if os.getuid() != 0:
        # The caller's uid has no home in the image; programs that insist on one get a writable folder.
        environment.setdefault("HOME", "/tmp")
    for change in invocation.changes:
        value = change.value
        if change.name == "FDL_ROOT" and value is not None:
            value = inside(value, mounts) or value
        if value is not None:
            environment[change.name] = value
    entrypoint = settings.get("entrypoint")
    fixed = tuple(entrypoint) if isinstance(entrypoint, list) else ()
    return ContainerRun(
        image=image,
        argv=invocation.argv if fixed else invocation.argv[1:],
        entrypoint=fixed or invocation.argv[:1],
        folder=folder,
        environment=tuple(environment.items()),
        mounts=mounts,
        ports=tuple(str(port) for port in settings.get("ports") or ()),
        user=str(settings.get("user") or f"{os.getuid()}:{os.getgid()}"),
        shm_size=str(settings.get("shm_size") or DEFAULT_SHM),
        init=settings.get("init"),
        gpus=gpus,
        network=settings.get("network_mode"),
        tty=_is_terminal(),
        labels=((PROJECT_LABEL, stored.root),),
    )


def image_build(service: Service, stored: Stored) -> ImageBuild | None:
    """Return the build of the service's image; nothing if it names an image only."""
    build = service.settings.get("build")
    if build is None:
        return None
    settings = build if isinstance(build, Mapping) else {"context": str(build)}
    context = (service.file.parent / str(settings.get("context") or ".")).resolve()
    dockerfile = context / str(settings.get("dockerfile") or "Dockerfile")
    args = dict(pairs(settings.get("args")))
    torch = stored.tree.get("torch")
    if isinstance(torch, str) and "TORCH" not in args and _declares(dockerfile, "TORCH"):
        args["TORCH"] = torch
    return ImageBuild(
        tag=str(service.settings.get("image") or default_tag(stored.root, service.name)),
        context=context,
        dockerfile=dockerfile,
        target=str(settings["target"]) if settings.get("target") else None,
        args=tuple(sorted(args.items())),
        network=str(settings["network"]) if settings.get("network") else None,
    )


def default_tag(root: str, service: str) -> str:
    """Return an image name that is this project's own.

    Example:
        >>> default_tag("/home/ada/My Project", "dev")
        'fdl-my-project-2e7a218d-dev'
    """
    name = re.sub(r"[^a-z0-9]+", "-", Path(root).name.lower()).strip("-") or "project"
    return f"fdl-{name}-{zlib.crc32(root.encode(errors='surrogateescape')):08x}-{service}"


def _ready_image(
    engine: DockerEngine,
    service: Service,
    stored: Stored,
    environ: Mapping[str, str],
    facts: DockerFacts,
    say: Say,
) -> str:
    build = image_build(service, stored)
    if build is None:
        image = str(service.settings.get("image") or "")
        engine.require_image(image, say)
        return image
    try:
        engine.ensure_image(build, say)
    except BuildKitNeeded as needed:
        _build_with_cli(build, needed.digest, environ, facts, say)
    return build.tag


def _build_with_cli(
    build: ImageBuild, digest: str, environ: Mapping[str, str], facts: DockerFacts, say: Say
) -> None:
    from fdl_cli.system.process import run, run_quietly

    if facts.cli is None:
        raise EnvironmentLackingError(
            error_id="buildkit-missing",
            message=f"`{build.dockerfile}` needs BuildKit, and there is no `docker` program",
            hint="install docker-cli with the buildx plugin, or remove `--mount` from the file",
        )
    words = [facts.cli, "build", "--tag", build.tag, "--file", str(build.dockerfile)]
    words += ["--label", f"{DIGEST_LABEL}={digest}"]
    words += ["--target", build.target] if build.target else []
    words += ["--network", build.network] if build.network else []
    for name, value in build.args:
        words += ["--build-arg", f"{name}={value}"]
    say(f"building {build.tag} from {build.dockerfile} with BuildKit")
    what = f"the image `{build.tag}`"
    settings = {**environ, "DOCKER_BUILDKIT": "1"}
    if _is_terminal():
        done = run([*words, str(build.context)], env=settings, capture=False, check=False)
        if done.returncode != 0:
            raise build_shown(what, build.dockerfile)
        return
    words += ["--progress", "plain", str(build.context)]
    done = run_quietly(words, env=settings, news=re.compile(""), say=say)
    if done.returncode != 0:
        raise build_failed(what, read_failure(done.stdout, build.dockerfile))


def _declares(dockerfile: Path, name: str) -> bool:
    if not dockerfile.is_file():
        return False
    text = dockerfile.read_text(encoding="utf-8", errors="replace")
    return re.search(rf"^\s*ARG\s+{name}\b", text, re.MULTILINE | re.IGNORECASE) is not None


def _is_terminal() -> bool:
    return os.isatty(0) and os.isatty(1)


def _has_gpu(facts: DockerFacts) -> bool:
    return bool(facts.nvidia) and os.path.exists("/dev/nvidiactl")


def _wants_gpu(service: Service, facts: DockerFacts) -> bool:
    wish = str(service.settings.get("gpus") or "none")
    if wish == "all" and not _has_gpu(facts):
        raise EnvironmentLackingError(
            error_id="docker-gpu-missing",
            message=f"the service `{service.name}` needs a GPU, and Docker has none here",
            hint="install nvidia-container-toolkit, or write `gpus: auto`",
        )
    return _has_gpu(facts) and (wish in ("auto", "all") or service.gpu_file is not None)
