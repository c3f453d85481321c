"""Map from folders of this machine to the container of a service."""

import os
from collections.abc import Mapping
from pathlib import Path

from fdl_cli.containers.engine import Mount
from fdl_cli.manifest.docker_tasks.services import WORKSPACE, Service


def mounts_of(service: Service) -> tuple[Mount, ...]:
    """Return the mounts of a service; without `volumes` of fdl.yml that is the project."""
    volumes = service.settings.get("volumes")
    if volumes is None and not service.from_compose:
        return (Mount(source=str(service.file.parent), target=WORKSPACE, read_only=False),)
    found = []
    for each in volumes or ():
        if isinstance(each, Mapping):
            source, target = str(each.get("source") or ""), str(each.get("target") or "")
            read_only = bool(each.get("read_only"))
        else:
            source, _, rest = str(each).partition(":")
            target, _, mode = rest.partition(":")
            read_only = "ro" in mode.split(",")
        if source.startswith((".", "~", "/")):
            source = os.path.normpath(service.file.parent / Path(source).expanduser())
        found.append(Mount(source=source, target=target or source, read_only=read_only))
    return tuple(found)


def inside(folder: str, mounts: tuple[Mount, ...]) -> str | None:
    """Return where a folder of this machine is in the container."""
    path = os.path.normpath(folder)
    fitting = [m for m in mounts if m.is_folder and (path + "/").startswith(m.source + "/")]
    if not fitting:
        return None
    mount = max(fitting, key=lambda item: len(item.source))
    return os.path.normpath(mount.target + path[len(mount.source) :])
