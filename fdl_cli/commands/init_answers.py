"""Questions of `fdl init` on a terminal: author, licence and Python of the new project."""

import sys
from collections.abc import Callable
from dataclasses import replace

from fdl_cli.context import Context
from fdl_cli.errors import FdlError, Notice, UsageError
from fdl_cli.scaffold.answers import Answers
from fdl_cli.scaffold.metadata import (
    LICENSE_TEXTS,
    PYTHONS,
    is_older,
    read_author,
    read_license,
    read_python,
)

_NONE = "-"


def with_metadata(
    context: Context,
    answers: Answers,
    author: str | None,
    license_name: str | None,
    python: str | None,
    *,
    may_ask: bool,
) -> Answers:
    """Return the answers with author, licence and Python, as given or as typed at a terminal.

    Questions come only if none of the three is given, so that a command line with one of them never waits.

    Raises:
        UsageError: one of them cannot be used.
    """
    if author is not None or license_name is not None or python is not None:
        return replace(
            answers,
            author=read_author(author or ""),
            license=read_license(license_name or ""),
            python=read_python(python or PYTHONS[0]),
        )
    if not may_ask or not context.interactive or context.json or context.console.assume_yes:
        return answers
    return replace(
        answers,
        author=_asked(context, "author, as NAME <EMAIL>", git_author(context), read_author),
        license=_asked(context, "licence, such as MIT", "", read_license),
        python=_asked(context, f"oldest Python ({', '.join(PYTHONS)})", PYTHONS[0], read_python),
    )


def python_notice(answers: Answers) -> tuple[Notice, ...]:
    """Return a warning if the project needs a newer Python than the one that runs fdl."""
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    if answers.mode == "docker" or not is_older(own, answers.python):
        return ()
    import shutil

    name = f"python{answers.python}"
    notice = Notice(
        id="init-python-newer",
        message=f"the project needs Python {answers.python} or newer, and fdl runs on Python {own}",
        hint=f"set it up with `fdl setup --python {shutil.which(name) or f'/path/to/{name}'}`",
    )
    return (notice,)


def license_notice(answers: Answers) -> tuple[Notice, ...]:
    """Return a warning if the project has a licence without its text."""
    if not answers.license or answers.license in LICENSE_TEXTS:
        return ()
    notice = Notice(
        id="init-license-text",
        message=f"fdl does not have the text of {answers.license}, so the project has no LICENSE file",
        hint="save the text as `LICENSE` beside pyproject.toml",
    )
    return (notice,)


def git_author(context: Context) -> str:
    """Return the author that git is configured with; empty where there is none or no git."""
    name, email = (_git_setting(context, f"user.{key}") for key in ("name", "email"))
    try:
        return read_author(f"{name} <{email}>" if email else name)
    except UsageError:
        return ""


def _git_setting(context: Context, name: str) -> str:
    from fdl_cli.system.process import run

    try:
        done = run(["git", "config", "--get", name], env=context.environ, timeout=5, check=False)
    except FdlError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _asked(context: Context, what: str, usual: str, read: Callable[[str], str]) -> str:
    """Ask until the answer can be used; an empty line, or the end of input, takes the usual one."""
    none = f", {_NONE} for none" if usual and read is not read_python else ""
    while True:
        answer = context.console.ask(f"{what}{none} [{usual or 'none'}]: ").strip()
        if not answer:
            return usual
        try:
            return "" if none and answer == _NONE else read(answer)
        except UsageError as problem:
            context.console.note(f"{problem.message}; {problem.hint}", "dim")
