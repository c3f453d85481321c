"""`fdl init --from script.py`: the script, ported, as a module of the new project."""

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

from fdl_cli.context import Context
from fdl_cli.errors import Notice, OperationFailedError, UsageError
from fdl_cli.scaffold.answers import Answers
from fdl_cli.scaffold.rendering import ProjectFile


def ported_files(
    context: Context, answers: Answers, script: Path
) -> tuple[tuple[ProjectFile, ...], tuple[Notice, ...]]:
    """Port a script and return it and its original as files of the project.

    Raises:
        UsageError: the script cannot be read.
        OperationFailedError: the port computes something else than the script.
    """
    from fdl_cli.commands import port

    try:
        original = script.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise UsageError(
            error_id="init-script",
            message=f"cannot read `{script}`: {problem}",
            hint="pass a Python file: `fdl init my-proj --from model.py`",
        ) from problem
    with tempfile.TemporaryDirectory(prefix="fdl-init-") as folder:
        target = Path(folder) / f"{answers.ported}.py"
        options = port.parse(paths=[script], output=target)
        result = port.run(context, options)
        if result.exit_code != 0 or not target.is_file():
            raise OperationFailedError(
                error_id="init-port-failed",
                message=f"`{script.name}` could not be ported and proved equal",
                hint=f"see why: `fdl port --diff {script}`",
                file=str(script),
            )
        ported = target.read_text(encoding="utf-8")
    files = (
        ProjectFile(path=f"src/{answers.package}/{answers.ported}.py", text=ported),
        ProjectFile(path=f"reference/{answers.ported}.py", text=original),
    )
    names = [item.name for file in result.data.files for item in file.classes]
    chosen = model_class(original, names)
    warnings = result.warnings if chosen is None else (*result.warnings, _advice(answers, chosen))
    return files, warnings


def model_class(source: str, names: Sequence[str]) -> str | None:
    r"""Return the class that is most likely the whole model: one that no other class is made of.

    Of several, the one that the script itself makes, else the last.

    Example:
        >>> text = "class A: ...\nclass Net:\n    part = A()\nclass B: ...\nmodel = Net()\n"
        >>> model_class(text, ["A", "Net", "B"])
        'Net'
    """
    blocks = re.split(r"^(?=\S)", source, flags=re.MULTILINE)
    owners = [(re.match(r"class (\w+)", block), block) for block in blocks]
    classes = [(found[1], block) for found, block in owners if found]
    script = "".join(block for found, block in owners if not found)

    def is_part(name: str) -> bool:
        word = re.compile(rf"\b{name}\b")
        return any(word.search(block) for owner, block in classes if owner != name)

    whole = [name for name in names if not is_part(name)]
    made = [name for name in whole if re.search(rf"\b{name}\(", script)]
    best = made or whole
    return best[-1] if best else None


def _advice(answers: Answers, name: str) -> Notice:
    place = f"{answers.package}.{answers.ported}"
    return Notice(
        id="init-build-model",
        message=f"`{name}` looks like the model of this script; the project still trains its "
        "own example, whose data it may not fit",
        hint=f"in src/{answers.package}/model.py write `from {place} import {name}` and return "
        f"`{name}(...)` from build_model; let data.py serve what it reads",
    )
