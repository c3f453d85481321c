"""Queries to pip: the contents of its configured indexes, and the files of an installation."""

import importlib.util
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final
from urllib.parse import unquote, urlsplit

from fdl_cli.console import Console
from fdl_cli.errors import EnvironmentLackingError, OperationFailedError
from fdl_cli.net.artefact import Artefact, checked_sha256
from fdl_cli.net.simple_index import IndexLink
from fdl_cli.system.process import Completed, run
from fdl_cli.system.python_env import Environment

Echo = Callable[[str], None]
SECONDS: Final = 900.0

_FOUND = re.compile(r"Found link (?P<url>\S+)(?: \(from [^)]*\))?.*?, version: ")
_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+@")
# Lines of pip's own, and the last line of the traceback of a build.
_ERROR = re.compile(r"ERROR: |[A-Za-z_.]*(Error|Exception): ")
_NO_CAUSE: Final = (
    "WARNING: ",
    "note: ",
    "hint: ",
    "[notice]",
    "error: subprocess-exited-with-error",
)
_CAUSES: Final = 6


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Pip:
    """The pip of one interpreter; `interpreter` is the one that is installed for."""

    words: tuple[str, ...]
    interpreter: Path


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Needed:
    """One file of the closure that an installation consists of."""

    project: str
    version: str
    artefact: Artefact


# Older builds were compiled for the ABI of numpy 1.
_NUMPY_2: Final = (2, 3)


def find_pip(environment: Environment, python: Path | None = None) -> Pip:
    """Return a pip that can resolve for an environment: our own, the environment's, or uv's.

    `python` is the interpreter of an environment that does not exist yet.

    Raises:
        EnvironmentLackingError: there is no pip anywhere.
    """
    exists = environment.kind != "missing"
    interpreter = environment.interpreter if exists else python or Path(sys.executable)
    aimed = ("--python", str(interpreter)) if interpreter != Path(sys.executable) else ()
    if importlib.util.find_spec("pip") is not None:
        return Pip(words=(sys.executable, "-m", "pip", *aimed), interpreter=interpreter)
    if exists and any(environment.folder.glob("lib/python3*/site-packages/pip")):
        return Pip(words=(str(interpreter), "-m", "pip"), interpreter=interpreter)
    if shutil.which("uv") is not None:
        aimed = ("--python", str(interpreter))
        return Pip(words=("uv", "tool", "run", "pip", *aimed), interpreter=interpreter)
    raise EnvironmentLackingError(
        error_id="pip-missing",
        message="there is neither pip nor uv here, and one of them must resolve the packages",
        hint=f"`{interpreter} -m ensurepip`, or install uv",
    )


def install_pip(pip: Pip, interpreter: Path, *, echo: Echo) -> None:
    """Install pip for another interpreter, which has none.

    Raises:
        OperationFailedError: the index has no pip, or cannot be reached.
    """
    words = pip.words[: pip.words.index("--python")] if "--python" in pip.words else pip.words
    aimed = Pip(words=(*words, "--python", str(interpreter)), interpreter=interpreter)
    done = _pip(aimed, ("install", "pip"), echo=echo)
    if done.returncode != 0:
        raise OperationFailedError(
            error_id="pip-missing",
            message=f"`{pip.interpreter}` brings no pip, and none could be installed",
            causes=pip_causes(done.stderr),
            hint="install Python's own: `apt install python3-venv` on Debian and Ubuntu",
        )


def configured_links(
    pip: Pip, project: str, *, offline: tuple[str, ...] = ()
) -> tuple[IndexLink, ...]:
    """Return the files of a project that pip would consider for this interpreter.

    Raises:
        EnvironmentLackingError: pip's indexes hold nothing, or cannot be reached.
    """
    done = _pip(pip, ("index", "versions", project, "-vvv", "--retries", "1", *offline), echo=None)
    links = tuple(_links(done.stdout + done.stderr))
    if not links:
        raise EnvironmentLackingError(
            error_id="configured-index-empty",
            message=f"pip finds no {project} for {pip.interpreter} in its configured indexes",
            hint="check the network and `pip config list`, or name an index with `--index-url`",
            causes=tuple(without_credentials(done.stderr).strip().splitlines()[-3:]),
        )
    return links


def resolve_torch(
    pip: Pip, requirement: str, options: tuple[str, ...], console: Console
) -> tuple[Needed, ...]:
    """Find the closure of a torch with numpy beside it, which torch uses and does not require.

    Raises:
        OperationFailedError: pip finds no solution even without numpy.
    """
    version = requirement.partition("===")[2].partition("+")[0]
    old = tuple(int(part) for part in version.split(".")[:2]) < _NUMPY_2
    try:
        return resolve(
            pip, (requirement, "numpy<2" if old else "numpy"), options, echo=console.echo
        )
    except OperationFailedError:
        needed = resolve(pip, (requirement,), options, echo=console.echo)
    console.note("these indexes have no numpy for this Python; torch is installed without it")
    return needed


def resolve(
    pip: Pip, requirements: tuple[str, ...], options: tuple[str, ...], *, echo: Echo
) -> tuple[Needed, ...]:
    """Let pip find the closure of some requirements, without installing anything.

    Raises:
        OperationFailedError: pip finds no solution.
    """
    with tempfile.TemporaryDirectory(prefix="fdl-resolve-") as folder:
        report = Path(folder) / "report.json"
        done = _pip(
            pip,
            (
                "install", "--dry-run", "--ignore-installed", "--quiet",
                "--only-binary", ":all:", "--report", str(report), *options, *requirements,
            ),
            echo=echo,
        )  # fmt: skip
        if done.returncode != 0 or not report.is_file():
            raise OperationFailedError(
                error_id="resolve-failed",
                message=f"pip finds no set of packages for {' '.join(requirements)}",
                hint="see the causes; another index can be named with `--index-url`",
                causes=pip_causes(done.stderr),
            )
        text = report.read_text(encoding="utf-8")
    try:
        return tuple(_needed(item) for item in json.loads(text)["install"])
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise OperationFailedError(
            error_id="resolve-failed",
            message=f"what pip says about {' '.join(requirements)} cannot be read: {problem}",
            hint="look at the index with `pip config list`; another can be named with `--index-url`",
        ) from problem


def _pip(pip: Pip, words: tuple[str, ...], *, echo: Echo | None) -> Completed:
    argv = (*pip.words, *words, "--disable-pip-version-check", "--no-input")
    say = None if echo is None else (lambda text: echo(without_credentials(text)))
    return run(argv, timeout=SECONDS, check=False, echo=say)


def _links(text: str) -> Iterator[IndexLink]:
    seen: set[str] = set()
    for found in _FOUND.finditer(text):
        address, _, fragment = found.group("url").partition("#")
        name = unquote(urlsplit(address).path.rsplit("/", maxsplit=1)[-1])
        if name in seen:
            continue
        seen.add(name)
        checksum = re.search(r"sha256=([0-9a-f]{64})", fragment)
        yield IndexLink(
            name=name,
            url=address,
            sha256=checksum.group(1) if checksum else None,
            size=None,
            yanked=False,
        )


def _needed(item: dict[str, Any]) -> Needed:
    download = item["download_info"]
    url = str(download["url"])
    hashes = (download.get("archive_info") or {}).get("hashes") or {}
    local = Path(unquote(urlsplit(url).path)) if url.startswith("file:") else None
    return Needed(
        project=str(item["metadata"]["name"]),
        version=str(item["metadata"]["version"]),
        artefact=Artefact(
            name=unquote(urlsplit(url).path.rsplit("/", maxsplit=1)[-1]),
            urls=(url,),
            sha256=checked_sha256(hashes.get("sha256")),
            size=local.stat().st_size if local is not None and local.is_file() else None,
        ),
    )


def without_credentials(text: str) -> str:
    """Return text without the user names and passwords of addresses."""
    return _CREDENTIALS.sub("", text)


def pip_causes(stderr: str) -> tuple[str, ...]:
    """Return the lines in which pip, or a build that it ran, names the cause of a failure.

    pip ends with notes such as "see above for output", so the last lines do not tell.
    """
    lines = [line.strip(" │") for line in without_credentials(stderr).splitlines()]
    lines = [line for line in lines if line and not line.startswith(_NO_CAUSE)]
    errors = [line for line in lines if _ERROR.match(line)]
    return tuple(dict.fromkeys(errors or lines))[-_CAUSES:]
