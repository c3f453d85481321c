"""The entry of `fdl`: the fast paths, and the one error boundary."""

import os
import sys
from typing import NoReturn

from fdl_cli import __version__

# The most frequent requests of people and shells are answered before anything else is imported.
_FAST_HELP = ((), ("--help",), ("-h",))
_HELP = ("--help", "-h")
_FAST_VERSION = (("--version",), ("-V",))


def entry() -> NoReturn:
    """Run `fdl` with the arguments of this process, and end the process."""
    sys.exit(main())


def main(arguments: tuple[str, ...] | None = None) -> int:
    """Run `fdl` and return the exit code."""
    words = tuple(sys.argv[1:]) if arguments is None else arguments
    try:
        if words not in _FAST_VERSION and _tool_is_missing():
            return _without_tool(words)
        code = _fast(words)
        return _full(words) if code is None else code
    except KeyboardInterrupt:
        from fdl_cli.errors import EXIT_INTERRUPTED

        return EXIT_INTERRUPTED
    except BrokenPipeError:
        from fdl_cli.errors import EXIT_BROKEN_PIPE
        from fdl_cli.terminal import point_at_nothing

        point_at_nothing(1)
        return EXIT_BROKEN_PIPE


def _tool_is_missing() -> bool:
    """Return True if the first library of the tool is not installed, as after `pip install flodl`."""
    # All commands but the fast ones import typer; importlib itself would have to be imported.
    return all(finder.find_spec("typer", None) is None for finder in sys.meta_path)


def _without_tool(words: tuple[str, ...]) -> int:
    """Say how to get the tool; a shell that completes gets no words, and no error either."""
    from fdl_cli.session import Session
    from fdl_cli.tool_libraries import tool_error

    error = tool_error()
    if error is None or words[:1] == ("__complete",):
        return 0
    return Session(words, os.environ).failed(error)


def _fast(words: tuple[str, ...]) -> int | None:
    """Answer `fdl`, `fdl --help` and `fdl --version`; nothing for all else."""
    if sys.stdout is None:
        return None
    text = _quick_text(words)
    if text is None:
        _start_task(words)
        return None
    try:
        try:
            sys.stdout.write(text + "\n")
        except UnicodeEncodeError:
            # The locale has no byte for a character: it costs that character, as on the long way.
            encoding = sys.stdout.encoding
            sys.stdout.write(text.encode(encoding, "replace").decode(encoding) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError:
        # The long way reports the error, in the form that every error has.
        return None
    return 0


def _quick_text(words: tuple[str, ...]) -> str | None:
    """Return the text that these words request, where it is known without the commands themselves."""
    if words in _FAST_VERSION:
        return f"fdl {__version__}"
    if words in _FAST_HELP:
        from fdl_cli.commands.overview import overview
        from fdl_cli.terminal import line_width

        return overview(line_width(os.environ, sys.stdout), _task_rows())
    if len(words) >= 2 and words[0] == "__complete":
        from fdl_cli.commands.complete import answer

        return answer(words[1], words[2:], os.environ)
    if len(words) == 2 and words[0] == "api-ref" and not words[1].startswith("-"):
        from fdl_cli.apiref.quick import quick_cache, quick_text

        return quick_text(words[1], quick_cache(os.environ))
    if words[-1] in _HELP:
        from fdl_cli.commands.quick_help import quick_help

        return quick_help(words, os.environ)
    return None


def _start_task(words: tuple[str, ...]) -> None:
    """Become a task of this project, where that takes no more than its name."""
    from fdl_cli.commands.registry import find

    if not words or words[0].startswith("-") or find(words[0]) is not None:
        return
    from fdl_cli.manifest.fast import start_task

    start_task(words, os.environ)


def _task_rows() -> list[tuple[str, str]]:
    """Return the tasks of the project around, for the overview."""
    from fdl_cli.manifest.discover import in_project

    if not in_project():
        return []
    from fdl_cli.manifest.listing import task_rows

    return task_rows(os.environ)


def _full(words: tuple[str, ...]) -> int:
    from fdl_cli.errors import FdlError
    from fdl_cli.session import Session
    from fdl_cli.tool_libraries import tool_error

    session = Session(words, os.environ)
    try:
        code = session.run()
        session.console.flush()
        if words and words[-1] in _HELP and code == 0:
            from fdl_cli.commands.quick_help import remember_help

            remember_help(words, os.environ)
    except FdlError as error:
        return session.failed(error)
    except (KeyboardInterrupt, BrokenPipeError):
        raise
    except OSError as problem:
        return session.stopped_by_disk(problem)
    except ModuleNotFoundError as problem:
        lacking = tool_error(problem.name)
        return session.crashed(problem) if lacking is None else session.failed(lacking)
    except Exception as problem:  # the boundary: a bug becomes a report, not a traceback
        return session.crashed(problem)
    return code
