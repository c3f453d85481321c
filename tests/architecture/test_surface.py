"""The words of the command line and the public names of `flodl` are lists that somebody froze."""

import ast
from pathlib import Path

from fdl_cli.commands.command import CommandGroup
from fdl_cli.commands.execution import load
from fdl_cli.commands.parsing import parameters
from fdl_cli.commands.registry import COMMANDS

HERE = Path(__file__).parent


def surface():
    for entry in COMMANDS:
        if entry.name == "torch":  # the same module as libtorch
            continue
        loaded = load(entry)
        name = entry.today or entry.name
        if not isinstance(loaded, CommandGroup):
            yield name, loaded
        elif entry.today and len(loaded.commands) == 1:
            yield name, *loaded.commands.values()
        else:
            for word, command in loaded.commands.items():
                yield f"{name} {word}", command


def test_the_command_line_is_frozen(golden):
    lines = []
    for name, command in surface():
        lines.append(f"fdl {name}")
        lines += [f"    {item}" for item in parameters(command.parse)]
    golden(HERE / "cli_surface.txt", "\n".join(lines) + "\n")


def test_every_command_is_documented(root):
    manual = (root / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")
    for name, _ in surface():
        assert f"`fdl {name}`" in manual, name


def public_names(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return sorted(
        alias.asname
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name
    )


def test_the_public_names_of_flodl_are_frozen(root, golden):
    names = public_names(root / "flodl" / "__init__.py")
    assert len(names) > 10
    golden(HERE / "flodl_public_api.txt", "\n".join(names) + "\n")
