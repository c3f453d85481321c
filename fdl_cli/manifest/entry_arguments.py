"""The arguments of an entry: options from the manifest and its presets, then the user's words.

On the path of `fdl <task>`. The order of precedence is: command line, the option's own
environment variable, preset, the entry's `options:`, the entry's default.
"""

import os
from collections.abc import Mapping

from fdl_cli.manifest.entry_files import schema_key, signature, watched
from fdl_cli.manifest.model import OPTION_SECTIONS, Stored, Trouble, Value
from fdl_cli.manifest.resolve import Found, table
from fdl_cli.manifest.schema import Option, Schema, read_schema
from fdl_cli.manifest.schema_check import Given, check_value, check_words, require_complete
from fdl_cli.manifest.store import entry_path, read_entry
from fdl_cli.manifest.words import Words


def known_arguments(
    stored: Stored, found: Found, given: Words, environ: Mapping[str, str]
) -> tuple[str, ...] | None:
    """Return the arguments if the entry's schema is remembered and fresh, else nothing.

    Raises:
        Trouble: the arguments do not fit the schema.
    """
    known, schema = remembered_schema(stored, found, environ)
    return entry_arguments(found, schema, given, environ) if known else None


def remembered_schema(
    stored: Stored, found: Found, environ: Mapping[str, str]
) -> tuple[bool, Schema | None]:
    """Return whether the answer of a program is known, and its schema if it has one.

    The program is that of an entry, or that of a `run` task, whose options only TAB takes from here.
    """
    if (found.entry or found.task).get("schema") is False:
        return True, None
    key = schema_key(stored, found)
    value = read_entry(entry_path("schemas", key, environ))
    if not isinstance(value, tuple) or len(value) != 4 or value[0] != key:
        return False, None
    if value[1] != signature(watched(found)):
        return False, None
    document = value[2]
    return True, read_schema(document) if isinstance(document, dict) else None


def entry_arguments(
    found: Found, schema: Schema | None, given: Words, environ: Mapping[str, str]
) -> tuple[str, ...]:
    """Return exactly the words that the entry gets; words after `--` are passed on unread.

    Raises:
        Trouble: the arguments, or the manifest's options, do not fit the schema.
    """
    command = "fdl " + " ".join(found.names)
    configured = configured_options(found, schema)
    if schema is None:
        spelled = {word.partition("=")[0] for word in given.before}
        read = Given(frozenset(n for n in configured if f"--{n}" in spelled), ())
    else:
        read = check_words(schema, given.before, command)
    words: list[str] = []
    names = set(read.names)
    for name, value in configured.items():
        option = _option(schema, name, command)
        if option is not None and option.environment and environ.get(option.environment):
            names.add(option.name)
            continue
        if (option.name if option else name) not in read.names:
            words += _spelled(option, name, value, command)
            names.add(option.name if option else name)
    if schema is not None and given.after is None:
        named = names | {o.name for o in schema.options if environ.get(o.environment or "")}
        require_complete(schema, frozenset(named), read, command)
    return (*words, *given.all)


def configured_options(found: Found, schema: Schema | None) -> dict[str, Value]:
    """Return the options that the manifest sets, by the names that the entry has for them.

    A preset wins over the entry. Inside one task, `options:` wins over `output:`, and that over `training:`.
    """
    # By a spelling that does not tell `batch_size` from `batch-size`, so that a preset replaces either.
    options: dict[str, tuple[str, Value]] = {}
    counts = False
    for task in (*found.parents, found.task):
        counts = counts or task is found.entry
        for section in OPTION_SECTIONS if counts else ():
            for key, value in table(task, section).items():
                name = _name_of(schema, section, key)
                options[name.replace("_", "-")] = (name, value)
    return dict(options.values())


def _name_of(schema: Schema | None, section: str, key: str) -> str:
    """Return the option that a key of a section means: `dir` of `output` may be `--output-dir`."""
    guesses = [key]
    if section == "output":
        guesses = [f"output-{key}", key, *(["output"] if key == "dir" else [])]
    for guess in guesses if schema is not None else ():
        option = schema.named(guess) if schema is not None else None
        if option is not None:
            return option.name
    return key if section == "options" else key.replace("_", "-")


def _option(schema: Schema | None, name: str, command: str) -> Option | None:
    option = schema.named(name) if schema is not None else None
    if schema is not None and option is None and schema.strict:
        known = ", ".join(item.name for item in schema.options) or "none"
        message = f"fdl.yml sets the option `{name}`, which `{command}` does not have"
        raise Trouble("option", message, f"its options: {known}")
    return option


def _spelled(option: Option | None, name: str, value: Value, command: str) -> list[str]:
    spelling = option.spellings[0] if option is not None else f"--{name}"
    if isinstance(value, bool):
        if value:
            return [spelling]
        return [option.negated[0]] if option is not None and option.negated else []
    values = [str(item) for item in value] if isinstance(value, list) else [str(value)]
    if option is not None:
        for item in values:
            check_value(option, spelling, item, f"{command} (in fdl.yml)")
    if option is not None and option.values is not None:
        return [spelling, *values]
    # One word each: a value that begins with a dash stays a value.
    if len(spelling) > 2:
        return [f"{spelling}={item}" for item in values]
    return [word for item in values for word in (spelling, item)]


def write_schema(
    stored: Stored,
    found: Found,
    document: Mapping[str, object] | None,
    reason: str,
    environ: Mapping[str, str],
) -> str:
    """Remember an entry's answer (or that it has none); return the file."""
    from fdl_cli.manifest.store import write_entry

    key = schema_key(stored, found)
    path = entry_path("schemas", key, environ)
    kept = dict(document) if document is not None else None
    write_entry(path, (key, signature(watched(found)), kept, reason))
    return os.fspath(path)
