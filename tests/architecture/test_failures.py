"""One boundary catches everything; each kind of failure has its own, documented exit code."""

import ast

from fdl_cli import errors


def failure_kinds():
    return [errors.FdlError, *errors.FdlError.__subclasses__()]


def test_exit_codes_are_unique():
    codes = [kind.exit_code for kind in errors.FdlError.__subclasses__()]
    assert len(set(codes)) == len(codes)
    special = [errors.EXIT_INTERNAL, errors.EXIT_INTERRUPTED, errors.EXIT_BROKEN_PIPE]
    assert not set(codes) & set(special)


def test_exit_codes_are_documented(root):
    listed = [item.code for item in errors.EXIT_CODES]
    assert len(set(listed)) == len(listed)
    used = {str(kind.exit_code) for kind in failure_kinds()} | {
        "0", "128+n", str(errors.EXIT_INTERNAL), str(errors.EXIT_INTERRUPTED),
        str(errors.EXIT_BROKEN_PIPE),
    }  # fmt: skip
    assert set(listed) == used
    manual = (root / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")
    for item in errors.EXIT_CODES:
        assert f"| {item.code} | {item.name} | {item.meaning} |" in manual


def catches_everything(handler):
    names = [handler.type] if not isinstance(handler.type, ast.Tuple) else handler.type.elts
    broad = {"Exception", "BaseException"}
    return any(name is None or getattr(name, "id", "") in broad for name in names)


# Where else everything may be caught, and why.
ALSO_CATCH_ALL = {
    "fdl_cli/net/download.py": "a worker thread hands its failure to the caller",
    "fdl_cli/torch_setup/smoke_test_child.py": "a process of its own, which reports what happened",
}


def test_only_the_boundary_catches_everything(sources):
    found = set()
    for source in sources:
        for node in source.nodes:
            if isinstance(node, ast.ExceptHandler) and catches_everything(node):
                reraises = any(isinstance(part, ast.Raise) for part in ast.walk(node))
                if source.name.startswith("fdl_cli") and not reraises:
                    found.add(source.path)
    assert found - set(ALSO_CATCH_ALL) == {"fdl_cli/app.py"}


def calls(sources):
    for source in sources:
        for node in source.nodes:
            if isinstance(node, ast.Call):
                yield source, node


def test_every_failure_has_an_id_and_a_hint(sources):
    kinds = {kind.__name__ for kind in errors.FdlError.__subclasses__()}
    wrong = []
    for source, node in calls(sources):
        if isinstance(node.func, ast.Name) and node.func.id in kinds:
            given = {word.arg: word.value for word in node.keywords}
            hint = given.get("hint")
            empty = isinstance(hint, ast.Constant) and not hint.value
            if None not in given and (not {"error_id", "message", "hint"} <= set(given) or empty):
                wrong.append(source.at(node))
    assert wrong == []


def test_commands_neither_print_nor_exit(sources):
    wrong = []
    for source, node in calls(sources):
        if not source.name.startswith("fdl_cli.commands"):
            continue
        name = ast.unparse(node.func)
        if name in ("print", "sys.exit", "exit", "typer.echo", "typer.secho", "typer.Exit"):
            wrong.append(f"{source.at(node)} {name}")
    assert wrong == []
