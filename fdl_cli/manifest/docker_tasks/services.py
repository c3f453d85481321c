"""The Docker services of a project: from `services:` of fdl.yml, else from its compose file.

Compose itself is not needed for the keys that one command in one container has; a key that is not
understood here is an error, never ignored.
"""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

from fdl_cli.errors import ConfigError
from fdl_cli.manifest.model import Stored, Trouble
from fdl_cli.manifest.project import explained
from fdl_cli.manifest.reading.rules import BUILD_KEYS, SERVICE_KEYS
from fdl_cli.manifest.resolve import table
from fdl_cli.manifest.variables import fill_in

COMPOSE_FILES: Final = ("compose.yml", "compose.yaml", "docker-compose.yml", "docker-compose.yaml")
GPU_FILE: Final = "compose.gpu.yml"
WORKSPACE: Final = "/workspace"
# Of these, fdl decides itself, or they mean nothing for one command.
_WITHOUT_EFFECT: Final = frozenset(
    (
        "tty", "stdin_open", "profiles", "healthcheck", "restart", "container_name", "develop",
        "command", "labels", "hostname", "stop_signal", "stop_grace_period", "pull_policy",
    )
)  # fmt: skip


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """One service, filled in; `file` describes it, `gpu_file` adds the GPU."""

    name: str
    file: Path
    gpu_file: Path | None
    settings: Mapping[str, Any]

    @property
    def from_compose(self) -> bool:
        """Return True if a compose file describes it."""
        return self.file.name in COMPOSE_FILES


def find_service(stored: Stored, name: str, environ: Mapping[str, str]) -> Service:
    """Return the service with a name.

    Raises:
        ConfigError: there is no such service, or it has keys that fdl does not understand.
    """
    root = Path(stored.root)
    own = table(stored.tree, "services")
    if own:
        if not isinstance(own.get(name), dict):
            raise _unknown(name, list(own), root / "fdl.yml")
        filled = _filled(own[name], environ, name)
        return Service(name=name, file=root / "fdl.yml", gpu_file=None, settings=filled)
    file = compose_file(root)
    if file is None:
        raise ConfigError(
            error_id="service-unknown",
            message=f"the service `{name}` is described nowhere",
            hint="add a `compose.yml`, or `services:` in fdl.yml (`fdl add docker` does)",
            file=str(root / "fdl.yml"),
        )
    services = _read(file)
    if not isinstance(services.get(name), dict):
        raise _unknown(name, list(services), file)
    gpu = file.parent / GPU_FILE
    return Service(
        name=name,
        file=file,
        gpu_file=gpu if gpu.is_file() else None,
        settings=_filled(services[name], environ, name),
    )


def compose_file(root: Path) -> Path | None:
    """Return the project's compose file."""
    return next((root / name for name in COMPOSE_FILES if (root / name).is_file()), None)


def require_understood(service: Service) -> None:
    """Refuse features that only compose has.

    Raises:
        ConfigError: with the key.
    """
    known = set(SERVICE_KEYS) | _WITHOUT_EFFECT
    wrong = [key for key in service.settings if key not in known and not key.startswith("x-")]
    build = service.settings.get("build")
    if isinstance(build, Mapping):
        wrong += [f"build.{key}" for key in build if key not in BUILD_KEYS]
    wrong += ["volumes" for each in service.settings.get("volumes") or () if not _is_mount(each)]
    override = service.file.with_name(service.file.stem + ".override" + service.file.suffix)
    if service.from_compose and override.is_file():
        wrong.append(override.name)
    if wrong:
        raise ConfigError(
            error_id="compose-needed",
            message=f"`{wrong[0]}` of the service `{service.name}` needs the compose plugin",
            hint="install docker-compose-plugin, or remove it, or run the task with `--native`",
            file=str(service.file),
        )


def pairs(value: Any) -> tuple[tuple[str, str], ...]:
    """Return a mapping, or a list of `KEY=value`, as pairs.

    Example:
        >>> pairs(["A=1", "B"]), pairs({"A": True})
        ((('A', '1'), ('B', '')), (('A', 'true'),))
    """
    if isinstance(value, Mapping):
        return tuple((str(name), _scalar(item)) for name, item in value.items())
    found = []
    for item in value or ():
        name, _, text = str(item).partition("=")
        found.append((name, text))
    return tuple(found)


def _scalar(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def _filled(value: Any, environ: Mapping[str, str], where: str) -> Any:
    if isinstance(value, Mapping):
        return {k: _filled(item, environ, f"{where}.{k}") for k, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, environ, where) for item in value]
    if not isinstance(value, str):
        return value
    try:
        return fill_in(value, environ, where)
    except Trouble as trouble:
        raise explained(trouble) from trouble


def _read(file: Path) -> Mapping[str, Any]:
    import yaml

    try:
        document = yaml.safe_load(file.read_bytes())
    except yaml.YAMLError as problem:
        mark = problem.problem_mark if isinstance(problem, yaml.MarkedYAMLError) else None
        raise ConfigError(
            error_id="compose-invalid",
            message=f"not valid YAML: {str(problem).splitlines()[0]}",
            hint="correct this line",
            file=str(file),
            line=mark.line + 1 if mark else None,
        ) from problem
    services = document.get("services") if isinstance(document, dict) else None
    return services if isinstance(services, dict) else {}


def _unknown(name: str, known: list[str], file: Path) -> ConfigError:
    near = difflib.get_close_matches(name, known, n=1)
    listed = ", ".join(known) or "none"
    return ConfigError(
        error_id="service-unknown",
        message=f"there is no service `{name}`",
        hint=f"did you mean `{near[0]}`?" if near else f"services there: {listed}",
        file=str(file),
    )


def _is_mount(volume: object) -> bool:
    """Return True if an item of `volumes` is a folder or a named volume, in the short or the long form."""
    if not isinstance(volume, Mapping):
        return True
    keys = {"type", "source", "target", "read_only"}
    return set(volume) <= keys and volume.get("type") in ("bind", "volume") and "source" in volume
