"""Run one change of files in a child process that is killed at its n-th step.

killing.py NUMBER WORDS...       here, killed before step NUMBER
killing.py every FOLDER WORDS... in FOLDER/1, FOLDER/2, ..., each killed one step later
"""

import importlib
import os
import signal
import sys
from pathlib import Path
from typing import NoReturn

MODULES = (
    "jinja2", "fdl_cli.commands.add", "fdl_cli.commands.init", "fdl_cli.commands.skill",
    "fdl_cli.scaffold.writing",
)  # fmt: skip


def arm(number: int) -> None:
    """Make the process kill itself just before its n-th step that touches the disk."""
    left = [number]
    events = {
        "os.rename",
        "os.remove",
        "os.mkdir",
        "os.rmdir",
        "os.chmod",
        "shutil.rmtree",
        "open",
    }

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if event not in events:
            return
        if event == "open" and not (isinstance(arguments[2], int) and arguments[2] & os.O_CREAT):
            return
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def run_killed(number: int, words: tuple[str, ...]) -> NoReturn:
    arm(number)
    sys.exit(importlib.import_module("fdl_cli.app").main(words))


def kill_at_every_step(folder: Path, words: tuple[str, ...]) -> None:
    """Go on until a run has fewer steps than asked for; that one ends by itself."""
    number = 0
    while True:
        number += 1
        place = folder / str(number)
        place.mkdir()
        child = os.fork()
        if child == 0:
            os.chdir(place)
            run_killed(number, words)
        _, status = os.waitpid(child, 0)
        if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
            sys.exit(os.waitstatus_to_exitcode(status))


def main() -> None:
    first, words = sys.argv[1], tuple(sys.argv[2:])
    sys.dont_write_bytecode = True
    # Everything is imported before, so that only the command's own steps count.
    for module in MODULES:
        importlib.import_module(module)
    if first == "every":
        kill_at_every_step(Path(words[0]), words[1:])
    run_killed(int(first), words)


if __name__ == "__main__":
    main()
