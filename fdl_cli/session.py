"""One run of `fdl`: from its arguments to a command, and from a failure to what people see."""

import contextlib
import io
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO, final

from fdl_cli import __version__
from fdl_cli.commands.global_options import GlobalOptions, Leading, asks_for_json, read_leading
from fdl_cli.commands.registry import CURRENT, CommandEntry, find, first_word, take_mode
from fdl_cli.console import Console, Terminal
from fdl_cli.context import Context, directories, find_project_root
from fdl_cli.errors import (
    EXIT_INTERNAL,
    EnvironmentLackingError,
    FdlError,
    OperationFailedError,
    UsageError,
)
from fdl_cli.terminal import is_terminal, line_width, may_ask, point_at_nothing, wants_color


@final
class Session:
    """One run of `fdl`: the facts known so far, so that an error can be shown in the right form."""

    def __init__(self, arguments: tuple[str, ...], environ: Mapping[str, str]) -> None:
        self.arguments = arguments
        self.environ = environ
        self.schema = "fdl/1"
        self.options = GlobalOptions(json=asks_for_json(arguments))
        self.out = _open_stream(sys.stdout)
        self.err = _open_stream(sys.stderr)
        self.console = self._console()

    def run(self) -> int:
        """Carry out the arguments and return the exit code."""
        leading = read_leading(self.arguments)
        self._use(leading.options)
        if leading.version:
            return self._version()
        if leading.help or not leading.rest:
            return self._overview()
        name = leading.rest[0]
        found = find(name)
        if found is None:
            return self._task(leading, overlay_word=True)
        if name == "run" and leading.rest[1:2] not in ((), ("--json-schema",)):
            return self._run(found, leading)
        return self._command(found, _with_task_options(leading.rest[1:], leading.task))

    def failed(self, error: FdlError) -> int:
        """Show an expected failure, as text on stderr or as JSON on stdout."""
        try:
            if error.error_id == "output-failed":
                point_at_nothing(1)
            if self.options.json and error.error_id != "output-failed":
                from fdl_cli.result import error_envelope

                self.console.line(error_envelope(self.schema, error))
            else:
                self.console.error(error)
            if self._debug():
                self._traceback(error)
            self.out.flush()
            self.err.flush()
        except BrokenPipeError:
            point_at_nothing(1)
        except OSError:
            # There is no room for the message; the exit code still tells the error.
            point_at_nothing(1)
            point_at_nothing(2)
        return error.exit_code

    def stopped_by_disk(self, problem: OSError) -> int:
        """Name the place that cannot be used or is full; other problems of the system are bugs of fdl."""
        from fdl_cli.errors import storage_error

        own = directories(self.environ)
        error = storage_error(
            problem, [str(each) for each in (own.config, own.cache, own.state, own.data)]
        )
        return self.crashed(problem) if error is None else self.failed(error)

    def crashed(self, problem: Exception) -> int:
        """Apologise in two lines and store a report."""
        from fdl_cli.crash import report_text, write_report

        text = report_text(problem, self.arguments, self.environ.get("HOME", ""))
        path = write_report(text, directories(self.environ).state)
        if path is None:
            self.err.write(text)
        where = "above" if path is None else f"in `{path}`"
        error = OperationFailedError(
            error_id="internal",
            message=f"fdl has a bug here: {type(problem).__name__}: {problem}",
            hint=f"please report it; what a developer needs is {where}",
        )
        self.failed(error)
        return EXIT_INTERNAL

    def _command(self, found: CommandEntry, arguments: tuple[str, ...]) -> int:
        from fdl_cli.commands.execution import choose, perform, prepare

        self.schema = f"fdl.{found.name}/1"
        chosen = choose(found, arguments, self.console)
        if chosen is None:
            return 0
        self.schema = chosen.command.schema
        execution = prepare(chosen, self.console)
        if execution is None:
            return 0
        self._use(self.options.merged(execution.common))
        return perform(execution, self._context())

    def _run(self, found: CommandEntry, leading: Leading) -> int:
        """`fdl run TASK`: the words of the task must not go through another parser."""
        self.schema = f"fdl.{found.name}/1"
        words = leading.rest[1:]
        if take_mode(found.name, words[: first_word(words)])[0] is not None:
            return self._command(found, _with_task_options(words, leading.task))
        inner = read_leading(words)
        if not (inner.help or inner.rest) and (self.options.json or inner.options.json):
            # Without a task, `--json` describes all of them.
            return self._command(found, ("--list", *words))
        if inner.help or not inner.rest:
            return self._command(found, ("--help",))
        self._use(self.options.merged(inner.options))
        return self._task(inner._replace(task=leading.task + inner.task), overlay_word=False)

    def _task(self, leading: Leading, *, overlay_word: bool) -> int:
        """Run a task of the project that this folder belongs to."""
        context = self._context()
        name, rest = leading.rest[0], leading.rest[1:]
        if context.project_root is None:
            raise _unknown_command(name, context.cwd)
        command = find(rest[0]) if overlay_word and rest else None
        if command is not None and (context.project_root / f"fdl.{name}.yml").is_file():
            # `fdl ci config show` is `fdl --env ci config show`.
            return self._command(command, _with_task_options(rest[1:], ("--env", name)))
        from fdl_cli.commands.execution import Execution, perform
        from fdl_cli.commands.run import COMMAND, RunOptions
        from fdl_cli.manifest.words import read_flags

        self.schema = COMMAND.schema
        flags, _ = read_flags(leading.task)
        options = RunOptions(words=leading.rest, flags=flags, overlay_word=overlay_word)
        return perform(Execution(COMMAND, options, self.options), context)

    def _version(self) -> int:
        if self.options.json:
            import platform

            from fdl_cli.result import CommandResult, envelope

            data = {"version": __version__, "python": platform.python_version()}
            self.console.line(envelope(CommandResult(schema="fdl.version/1", data=data)))
        else:
            self.console.line(f"fdl {__version__}")
        return 0

    def _overview(self) -> int:
        from fdl_cli.commands.overview import overview
        from fdl_cli.manifest.discover import in_project
        from fdl_cli.manifest.listing import task_rows

        tasks = task_rows(self.environ) if in_project() else []
        self.console.line(overview(self.console.width, tasks))
        return 0

    def _use(self, options: GlobalOptions) -> None:
        self.options = options._replace(json=options.json or self.options.json)
        self.console = self._console()

    def _console(self) -> Console:
        options = self.options
        terminal = is_terminal(self.err) and self.environ.get("TERM") != "dumb"
        look = Terminal(
            out=self.out,
            err=self.err,
            stdin=sys.stdin,
            color_out=wants_color(options.color, self.environ, self.out),
            color_err=wants_color(options.color, self.environ, self.err),
            width=line_width(self.environ, self.out),
            interactive=not options.no_input and may_ask(self.environ, sys.stdin, self.err),
            progress=terminal and not self.environ.get("FDL_NO_PROGRESS"),
            assume_yes=self.environ.get("FDL_YES", "").lower() not in ("", "0", "false"),
        )
        return Console(look, options.verbosity)

    def _context(self) -> Context:
        cwd = _working_folder()
        return Context(
            cwd=cwd,
            environ=self.environ,
            directories=directories(self.environ),
            project_root=find_project_root(cwd),
            verbosity=self.options.verbosity,
            json=self.options.json,
            interactive=self.console.interactive,
            console=self.console,
        )

    def _debug(self) -> bool:
        return self.environ.get("FDL_DEBUG", "0") not in ("", "0") or self.options.verbose >= 3

    def _traceback(self, error: FdlError) -> None:
        import traceback

        self.err.write("".join(traceback.format_exception(error)))


def _working_folder() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError as problem:
        raise EnvironmentLackingError(
            error_id="folder-removed",
            message="the current folder has been removed",
            hint="change to a folder that exists: `cd ~`",
        ) from problem


def _with_task_options(arguments: tuple[str, ...], task: tuple[str, ...]) -> tuple[str, ...]:
    """Hand `--env NAME` before a command's name to the command itself."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    return (*arguments[:end], *task, *arguments[end:])


def _unknown_command(name: str, folder: Path) -> UsageError:
    import difflib

    from fdl_cli.manifest.discover import other_manifest_hint

    near = difflib.get_close_matches(name, [item.name for item in CURRENT], n=1)
    guess = f"did you mean `fdl {near[0]}`?" if near else "see `fdl --help`"
    return UsageError(
        error_id="command-unknown",
        message=f"there is no command `{name}`",
        hint=other_manifest_hint(str(folder)) or guess,
    )


def _open_stream(stream: TextIO | None) -> TextIO:
    # Python sets a stream to None when the shell closed it (`fdl >&-`).
    if stream is None:
        return Path(os.devnull).open("w", encoding="utf-8")
    # An odd encoding or file name must cost one character, not the whole output.
    if isinstance(stream, io.TextIOWrapper):
        # The rest of an earlier write cannot be written now either.
        with contextlib.suppress(OSError):
            stream.reconfigure(errors="replace")
    return stream
