"""Everything `fdl diagnose` looks at, gathered once; the checks then only read it."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from fdl_cli.system.collect import collect
from fdl_cli.system.docker_probe import DockerFacts, probe_docker
from fdl_cli.system.facts import SystemFacts
from fdl_cli.system.python_env import Environment, environment_at, find_environment, read_python
from fdl_cli.torch_setup.install.installed import InstalledTorch, read_installed, read_record
from fdl_cli.torch_setup.project_files import read_local_variant


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """The machine, the environment and the project, as they are."""

    facts: SystemFacts
    environment: Environment
    installed: InstalledTorch | None
    record: Mapping[str, Any] | None
    docker: DockerFacts
    project: Path | None
    wanted_variant: str | None
    snapshot_age_s: float | None


def inspect(
    *,
    environ: Mapping[str, str],
    cwd: Path,
    project: Path | None,
    named: Path | None,
    snapshot_age_s: float | None,
) -> Inspection:
    """Look at everything without importing, installing or writing, and without the network."""
    root = project or cwd
    environment = find_environment(named, tuple(dict.fromkeys((root, cwd))), environ)
    installed = read_installed(environment)
    if environment.kind == "missing" and named is None:
        # Then commands work in the Python of the tool, if that has a torch: see `find_user_python`.
        own = environment_at(Path(sys.prefix), "the Python of fdl itself")
        installed = read_installed(own)
        environment = environment if installed is None else own
    return Inspection(
        facts=collect(environ, cwd, read_python(environment)),
        environment=environment,
        installed=installed,
        record=read_record(environment),
        docker=probe_docker(environ),
        project=project,
        wanted_variant=read_local_variant(root),
        snapshot_age_s=snapshot_age_s,
    )
