"""Files and functions stay small enough to be read in one go."""

import ast

MOST_LINES_OF_A_FILE = 400
MOST_LINES_OF_A_FUNCTION = 60


def test_files_are_short(sources):
    lengths = {source.path: source.text.count("\n") for source in sources}
    assert {path: n for path, n in lengths.items() if n > MOST_LINES_OF_A_FILE} == {}


def test_functions_are_short(sources):
    long = {
        f"{source.at(node)} {node.name}": node.end_lineno - node.lineno + 1
        for source in sources
        for node in ast.walk(source.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno - node.lineno + 1 > MOST_LINES_OF_A_FUNCTION
    }
    assert long == {}
