"""Files and functions stay small enough to be read in one go."""

import ast

MOST_LINES_OF_A_FILE = 400
MOST_LINES_OF_A_FUNCTION = 60


def test_files_are_short(sources):
    lengths = {source.path: source.text.count("\n") for source in sources}
    assert {path: n for path, n in lengths.items() if n > MOST_LINES_OF_A_FILE} == {}


def test_files_of_tests_are_short(root):
    files = [
        path
        for path in (root / "tests").rglob("*.py")
        if not path.is_relative_to(root / "tests/porter/cases")  # other people's style on purpose
        and not path.is_relative_to(root / "tests/data")
    ]
    lengths = {str(path.relative_to(root)): path.read_bytes().count(b"\n") for path in files}
    assert {path: n for path, n in lengths.items() if n > MOST_LINES_OF_A_FILE} == {}


def length(source, node):
    # The parameters of a command's `parse` are a table of its options, not code.
    table = source.name.startswith("fdl_cli.commands.") and node.name.startswith("parse")
    first = node.body[0].lineno if table else node.lineno
    return node.end_lineno - first + 1


def test_functions_are_short(sources):
    long = {
        f"{source.at(node)} {node.name}": length(source, node)
        for source in sources
        for node in source.nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and length(source, node) > MOST_LINES_OF_A_FUNCTION
    }
    assert long == {}
