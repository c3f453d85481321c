"""Parsing of the words after a command's name into its options, with typer."""

import difflib
import inspect
import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any, NamedTuple, TypeVar, final

import typer
from typer.main import get_command

from fdl_cli.commands.global_options import ColorWord, GlobalOptions
from fdl_cli.errors import UsageError

Options = TypeVar("Options")


@final
class Parsed(NamedTuple):
    """The options of one command line, and how to talk."""

    options: Any
    common: GlobalOptions


@final
class SchemaRequest(Exception):  # noqa: N818 - not an error: it ends parsing early, as --help does
    """Raised by `--json-schema`, so that a command need not be complete to be described."""


def parse(
    prog: str, function: Callable[..., Options], arguments: Sequence[str], epilog: str = ""
) -> Parsed | None:
    """Parse the arguments of one command; nothing is returned when help was shown.

    `epilog` ends the help page.

    Raises:
        UsageError: the arguments do not fit.
        SchemaRequest: the JSON Schema is wanted instead.
    """
    command = _typer_command(function, epilog)
    try:
        outcome = command.main(args=list(arguments), prog_name=prog, standalone_mode=False)
    except typer.TyperException as problem:
        options = [name for item in command.params for name in item.opts]
        raise _usage_error(prog, problem.format_message(), options) from problem
    return outcome if isinstance(outcome, Parsed) else None


def help_text(prog: str, function: Callable[..., object], epilog: str = "") -> str:
    """Return the text of `fdl <command> --help`."""
    command = _typer_command(function, epilog)
    context = command.make_context(prog, [], resilient_parsing=True)
    return str(command.get_help(context))


def parameters(function: Callable[..., object]) -> tuple[str, ...]:
    """Return a command's own arguments and options as people write them, in their order.

    Example:
        >>> def parse(topic: str, *, loud: bool = False) -> None: ...
        >>> parameters(parse)
        ('TOPIC', '--loud --no-loud')
    """
    shared = inspect.signature(_common).parameters
    return tuple(
        " ".join((*item.opts, *item.secondary_opts))
        if item.param_type_name == "option"
        else str(item.name).upper()
        for item in _typer_command(function).params
        if item.name not in shared
    )


@final
class ParameterFacts(NamedTuple):
    """One parameter of a command: its spelling, and its values."""

    is_option: bool
    names: tuple[str, ...]
    summary: str
    takes_value: bool
    choices: tuple[str, ...]
    is_path: bool
    repeats: bool


def parameter_facts(function: Callable[..., object]) -> tuple[ParameterFacts, ...]:
    """Return the facts about each parameter, those that all commands share included."""
    return tuple(
        ParameterFacts(
            is_option=item.param_type_name == "option",
            names=(*item.opts, *item.secondary_opts),
            summary=" ".join(str(item.help or "").split()),
            takes_value=not (vars(item).get("is_flag") or vars(item).get("count")),
            choices=tuple(str(choice) for choice in vars(item.type).get("choices", ())),
            is_path=item.type.name == "path",
            repeats=bool(item.multiple if item.param_type_name == "option" else item.nargs != 1),
        )
        for item in _typer_command(function).params
    )


@final
class _GroupedCommand(typer.core.TyperCommand):
    """A command whose options stand in the groups that they name, before those of all commands."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write one block for each `rich_help_panel`, and the ungrouped options as ever."""
        arguments: list[tuple[str, str]] = []
        blocks: dict[str, list[tuple[str, str]]] = {}
        for item in self.get_params(ctx):
            record = item.get_help_record(ctx)
            if record is None:
                continue
            if item.param_type_name == "argument":
                arguments.append(record)
            else:
                title = vars(item).get("rich_help_panel") or "Options"
                blocks.setdefault(title, []).append(record)
        plain = blocks.pop("Options", [])
        for title, rows in (("Arguments", arguments), *blocks.items(), ("Options", plain)):
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the lines of the epilog as they are: their columns are no paragraph."""
        del ctx
        if self.epilog:
            formatter.write(f"\n{self.epilog}\n")


def _typer_command(function: Callable[..., object], epilog: str = "") -> Any:
    # Without rich: its help costs twice the start-up time and is no easier to read.
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command(
        cls=_GroupedCommand,
        epilog=epilog,
        context_settings={"help_option_names": ["-h", "--help"]},
    )(_with_common(function))
    return get_command(app)


def _request_schema(wanted: bool) -> None:
    if wanted:
        raise SchemaRequest


def _common(
    *,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document on stdout.")
    ] = False,
    json_schema: Annotated[
        bool,
        typer.Option(
            "--json-schema",
            is_eager=True,
            callback=_request_schema,
            help="Print the JSON Schema of --json, and exit.",
        ),
    ] = False,
    verbose: Annotated[
        int, typer.Option("--verbose", "-v", count=True, help="Say more; -vv for details.")
    ] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only data and errors.")] = False,
    color: Annotated[ColorWord, typer.Option("--color", help="When to use colour.")] = "auto",
    ansi: Annotated[
        bool | None, typer.Option("--ansi/--no-ansi", help="Same as --color always or never.")
    ] = None,
    no_input: Annotated[
        bool, typer.Option("--no-input", help="Never ask; exit with code 7 instead.")
    ] = False,
) -> GlobalOptions:
    del json_schema  # answered by its callback
    if ansi is not None:
        color = "always" if ansi else "never"
    return GlobalOptions(json=json, verbose=verbose, quiet=quiet, color=color, no_input=no_input)


def _with_common(function: Callable[..., object]) -> Callable[..., Parsed]:
    own = inspect.signature(function, eval_str=True)
    shared = inspect.signature(_common, eval_str=True)
    parameters = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in (*own.parameters.values(), *shared.parameters.values())
    ]

    def both(**values: Any) -> Parsed:
        common = {name: values.pop(name) for name in shared.parameters}
        return Parsed(function(**values), _common(**common))

    both.__doc__ = function.__doc__
    # typer reads the signature and the annotations; neither knows the other's parameters.
    both.__annotations__ = {item.name: item.annotation for item in parameters}
    vars(both)["__signature__"] = inspect.Signature(parameters)
    return both


def _usage_error(prog: str, message: str, options: Sequence[str]) -> UsageError:
    text = " ".join(message.split()).rstrip(".")
    unknown = re.match(r"No such option:? (\S+)", text)
    if unknown:
        word = unknown.group(1).strip("'\"`")
        near = difflib.get_close_matches(word, options, n=1)
        return UsageError(
            error_id="option-unknown",
            message=f"`{prog}` has no option `{word}`",
            hint=f"did you mean `{near[0]}`?" if near else f"see `{prog} --help`",
        )
    return UsageError(
        error_id="usage", message=text[:1].lower() + text[1:], hint=f"see `{prog} --help`"
    )
