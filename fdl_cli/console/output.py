"""The terminal: data on stdout, messages on stderr; built for one command by `app`."""

import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TextIO, final

from fdl_cli.errors import FdlError, NeedsTerminalError, Notice, OperationFailedError

Style = Literal["success", "error", "warning", "hint", "path", "strong", "dim"]

_ANSI: Final[dict[Style, str]] = {
    "success": "\x1b[32m",
    "error": "\x1b[1;31m",
    "warning": "\x1b[33m",
    "hint": "\x1b[36m",
    "path": "\x1b[36m",
    "strong": "\x1b[1m",
    "dim": "\x1b[2m",
}
_RESET: Final = "\x1b[0m"


def page_address(page: str) -> str:
    """Return the address of a page of the reference, such as `codes/FDL305`.

    Example:
        >>> page_address("codes/FDL305")
        'https://flodl.github.io/flodl/reference/codes/FDL305.html'
    """
    return f"https://flodl.github.io/flodl/reference/{page}.html"


class Progress(Protocol):
    """The progress of one piece of work; `total` may be learnt late."""

    def advance(self, amount: float) -> None:
        """Add to the finished amount."""

    def set_total(self, total: float) -> None:
        """Set the total amount."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Terminal:
    """The three streams of one command and the facts about them.

    `color_out` and `color_err` hold for each stream by itself. `interactive` says whether
    questions are possible, `progress` whether bars may be drawn, `assume_yes` whether the answer to
    every question is yes.
    """

    out: TextIO
    err: TextIO
    stdin: TextIO
    color_out: bool = False
    color_err: bool = False
    width: int = 100
    interactive: bool = False
    progress: bool = False
    assume_yes: bool = False


@final
class Console:
    """Writes to the streams of one command; meaning is never carried by colour alone."""

    def __init__(self, terminal: Terminal, verbosity: int = 0) -> None:
        self.out = terminal.out
        self.err = terminal.err
        self.width = terminal.width
        self.interactive = terminal.interactive
        self.assume_yes = terminal.assume_yes
        self.verbosity = verbosity
        self._stdin = terminal.stdin
        self._color_out = terminal.color_out
        self._color_err = terminal.color_err
        self._progress = terminal.progress

    def styled(self, text: str, style: Style) -> str:
        """Return text for stdout in a style, plain when stdout has no colour."""
        return f"{_ANSI[style]}{text}{_RESET}" if self._color_out else text

    def line(self, text: str = "", style: Style | None = None) -> None:
        """Write one line of data to stdout."""
        self.write((self.styled(text, style) if style else text) + "\n")

    def write(self, text: str) -> None:
        """Write data to stdout exactly as it is.

        Raises:
            OperationFailedError: the disk is full, or stdout fails in another way.
        """
        try:
            self.out.write(text)
        except BrokenPipeError:
            raise
        except OSError as problem:
            raise output_failed(problem) from problem

    def flush(self) -> None:
        """Flush the buffers, so that a full disk is an error and not a silent loss.

        Raises:
            OperationFailedError: the disk is full, or stdout fails in another way.
        """
        try:
            self.out.flush()
        except BrokenPipeError:
            raise
        except OSError as problem:
            raise output_failed(problem) from problem

    def note(self, text: str, style: Style | None = None) -> None:
        """Write one message to stderr, unless quiet."""
        if self.verbosity >= 0:
            self._err(text, style)

    def detail(self, text: str, level: int = 1) -> None:
        """Write a message to stderr that only `-v` (or `-vv` for level 2) shows."""
        if self.verbosity >= level:
            self._err(text, "dim")

    def echo(self, command: str) -> None:
        """Print the program that is about to run."""
        self.note(f"+ {command}", "dim")

    def warning(self, notice: Notice) -> None:
        """Show a warning with its stable id and its hint, unless quiet."""
        if self.verbosity >= 0:
            self._err(f"{self._mark(f'warning[{notice.id}]:', 'warning')} {notice.message}")
            if notice.hint:
                self._err(f"  {self._mark('hint:', 'hint')} {notice.hint}")

    def error(self, error: FdlError) -> None:
        """Show an expected failure: the error, its place, its cause, what to type next, and its page."""
        where = f"{error.location}: " if error.location else ""
        name = f"error[{error.error_id}]:"
        self._err(f"{self._mark(name, 'error')} {where}{error.message}")
        for cause in error.causes:
            self._err(f"  cause: {cause}")
        if error.hint:
            self._err(f"  {self._mark('hint:', 'hint')} {error.hint}")
        self._err(f"  page: {page_address(f'errors/{error.error_id}')}", "dim")

    def table(self, headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Write a table to stdout; cells are wrapped to the width, never cut off."""
        from rich.console import Console as RichConsole
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, header_style="bold", expand=False)
        for header in headers:
            table.add_column(Text(header), overflow="fold")
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        rich = RichConsole(
            file=self.out,
            width=self.width,
            force_terminal=self._color_out,
            no_color=not self._color_out,
            color_system="standard" if self._color_out else None,
            highlight=False,
            legacy_windows=False,
        )
        with rich.capture() as capture:
            rich.print(table)
        # rich fills lines with blanks up to the column's width, which are unwanted in a pipe.
        self.write("".join(f"{text.rstrip()}\n" for text in capture.get().splitlines()))

    def diff(self, text: str) -> None:
        """Write a unified diff to stdout, coloured by line where colour is on."""
        for text_line in text.splitlines(keepends=True):
            style = _diff_style(text_line)
            self.write(self.styled(text_line, style) if style else text_line)

    def paragraph(self, text: str, indent: str = "") -> None:
        """Write prose to stdout, wrapped to the width."""
        self.line(
            textwrap.fill(
                text,
                self.width,
                initial_indent=indent,
                subsequent_indent=indent,
                break_long_words=False,
                break_on_hyphens=False,
            )
        )

    def confirm(self, question: str, *, flag: str, default: bool = False) -> bool:
        """Prompt for yes or no on stderr; `FDL_YES=1` has answered all prompts with yes.

        Raises:
            NeedsTerminalError: no terminal to prompt on; the error names the flag to pass.
        """
        if self.assume_yes:
            return True
        if not self.interactive:
            raise NeedsTerminalError(
                error_id="needs-terminal",
                message=f"cannot ask here: {question}",
                hint=f"pass `{flag}` to answer without a terminal",
            )
        choices = "[Y/n]" if default else "[y/N]"
        while True:
            self.err.write(f"{question} {choices} ")
            self.err.flush()
            answer = self._stdin.readline()
            word = answer.strip().lower()
            if not answer or not word:
                # The end of input is not consent: only an empty line takes the default.
                return default and bool(answer)
            if word in ("y", "yes", "n", "no"):
                return word.startswith("y")
            self.err.write("please answer y or n\n")

    def ask(self, question: str) -> str:
        """Prompt for one line on stderr and return it; empty at the end of input.

        Only where `interactive` is true: no answer can come elsewhere.
        """
        self.err.write(question)
        self.err.flush()
        return self._stdin.readline()

    @contextmanager
    def progress(self, title: str, total: float | None = None) -> Iterator[Progress]:
        """Show a progress bar on stderr while the block runs; nothing where there is no terminal.

        Amounts are bytes. `FDL_NO_PROGRESS`, quiet mode and pipes turn it off.
        """
        if not self._progress or self.verbosity < 0:
            yield _SilentProgress()
            return
        from fdl_cli.console.progress import progress_bar

        with progress_bar(self.err, title, total, color=self._color_err) as bar:
            yield bar

    def _err(self, text: str, style: Style | None = None) -> None:
        self.err.write((self._mark(text, style) if style else text) + "\n")

    def _mark(self, text: str, style: Style) -> str:
        return f"{_ANSI[style]}{text}{_RESET}" if self._color_err else text


@final
class _SilentProgress:
    """Takes progress and shows none."""

    def advance(self, amount: float) -> None:
        """Forget it."""

    def set_total(self, total: float) -> None:
        """Forget it."""


def output_failed(problem: OSError) -> OperationFailedError:
    """Return the error for a stdout that takes no more."""
    return OperationFailedError(
        error_id="output-failed",
        message=f"cannot write the output: {problem.strerror}",
        hint="free some space, or send the output elsewhere",
    )


def _diff_style(text: str) -> Style | None:
    if text.startswith(("+++", "---")):
        return "strong"
    if text.startswith("@@"):
        return "hint"
    if text.startswith("+"):
        return "success"
    if text.startswith("-"):
        return "error"
    return None
