"""Files and functions stay small enough to be read in one go."""

import ast
import statistics

MEDIAN_LINES_OF_A_FILE = 180
MOST_LINES_OF_A_FILE = 600
MOST_LINES_OF_A_FUNCTION = 60
REASON = "One file because "  # in the docstring of a longer one


def too_long(lengths, texts):
    return {
        path: n
        for path, n in lengths.items()
        if n > MOST_LINES_OF_A_FILE and REASON not in texts[path][:2000]
    }


def test_files_over_the_limit_give_a_reason(sources):
    texts = {source.path: source.text for source in sources}
    assert too_long({path: text.count("\n") for path, text in texts.items()}, texts) == {}


def test_median_file_is_short(sources):
    assert statistics.median(source.text.count("\n") for source in sources) <= (
        MEDIAN_LINES_OF_A_FILE
    )


def test_size_rule_without_a_reason_reports_the_file():
    lengths = {"long.py": 601, "reasoned.py": 900, "short.py": 600}
    texts = {"long.py": '"""A."""', "reasoned.py": f'"""A.\n\n{REASON}B."""', "short.py": ""}
    assert too_long(lengths, texts) == {"long.py": 601}


def test_files_of_tests_are_short(root):
    files = [
        path
        for path in (root / "tests").rglob("*.py")
        if not path.is_relative_to(root / "tests/porter/cases")  # other people's style on purpose
        and not path.is_relative_to(root / "tests/data")
    ]
    texts = {str(path.relative_to(root)): path.read_text("utf-8") for path in files}
    assert too_long({path: text.count("\n") for path, text in texts.items()}, texts) == {}


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
