"""Completions for the end of a command line, from the table of options.

On the path of every TAB: named tuples and plain containers only.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, final


@final
class Candidate(NamedTuple):
    """One word that fits, and one line about it."""

    value: str
    summary: str = ""


@final
class OptionFacts(NamedTuple):
    """One option or argument: its spelling, and its values."""

    names: tuple[str, ...]
    summary: str
    takes_value: bool
    choices: tuple[str, ...]
    is_path: bool
    repeats: bool


@final
class CommandFacts(NamedTuple):
    """The options and positional arguments of one command."""

    options: tuple[OptionFacts, ...]
    arguments: tuple[OptionFacts, ...]


@final
class Completion(NamedTuple):
    """The candidates; `files` requests the shell's own file names, `prefix` stays before a value.

    `wanted` names the argument to be completed, for candidates that only the caller knows.
    """

    candidates: tuple[Candidate, ...] = ()
    files: bool = False
    prefix: str = ""
    wanted: str = ""


def facts_from(document: Any) -> CommandFacts:
    """Read the facts of a command as they are stored: lists of lists."""
    groups = [tuple(_facts(item) for item in document[key]) for key in ("options", "arguments")]
    return CommandFacts(*groups)


def complete_command(facts: CommandFacts, words: Sequence[str], current: str) -> Completion:
    """Return the candidates for `current` after the words of a command."""
    position, waiting, only_arguments = _walk(facts, words)
    if waiting is not None:
        return value_completion(waiting)
    if current.startswith("-") and not only_arguments:
        name, equals, _ = current.partition("=")
        option = _named(facts, name)
        if equals and option is not None and option.takes_value:
            return value_completion(option)._replace(prefix=f"{name}=")
        return Completion(candidates=_option_candidates(facts, words))
    argument = _argument(facts, position)
    return Completion() if argument is None else value_completion(argument)


def value_completion(facts: OptionFacts) -> Completion:
    """Return the values of an option or argument."""
    if facts.choices:
        return Completion(candidates=tuple(Candidate(choice) for choice in facts.choices))
    return Completion(files=facts.is_path, wanted=facts.names[0])


def matching(completion: Completion, current: str) -> Completion:
    """Keep the candidates that begin like the word under the cursor."""
    word = current.removeprefix(completion.prefix)
    kept = tuple(item for item in completion.candidates if item.value.startswith(word))
    return completion._replace(candidates=kept)


def _walk(facts: CommandFacts, words: Sequence[str]) -> tuple[int, OptionFacts | None, bool]:
    """Return how many arguments were given, the option that waits, and whether `--` stood."""
    position = 0
    waiting: OptionFacts | None = None
    for index, word in enumerate(words):
        if waiting is not None:
            waiting = None
        elif word == "--":
            return position + len(words) - index - 1, None, True
        elif word.startswith("-") and len(word) > 1:
            option = _named(facts, word.partition("=")[0])
            if option is not None and option.takes_value and "=" not in word:
                waiting = option
        else:
            position += 1
    return position, waiting, False


def _option_candidates(facts: CommandFacts, words: Sequence[str]) -> tuple[Candidate, ...]:
    given = {word.partition("=")[0] for word in words}
    return tuple(
        Candidate(name, option.summary)
        for option in facts.options
        if option.repeats or not given & set(option.names)
        for name in option.names
    )


def _named(facts: CommandFacts, name: str) -> OptionFacts | None:
    for option in facts.options:
        if name in option.names:
            return option
    return None


def _argument(facts: CommandFacts, position: int) -> OptionFacts | None:
    if position < len(facts.arguments):
        return facts.arguments[position]
    if facts.arguments and facts.arguments[-1].repeats:
        return facts.arguments[-1]
    return None


def _facts(item: Any) -> OptionFacts:
    names, summary, takes_value, choices, is_path, repeats = item
    return OptionFacts(tuple(names), summary, takes_value, tuple(choices), is_path, repeats)
