"""`fdl init --from script.py`: the script, ported, as a module of the new project."""

import tempfile
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
    return files, result.warnings
