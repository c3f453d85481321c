"""Run one change of files in a child process that is killed at its n-th step."""

import importlib
import os
import signal
import sys

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


def main() -> None:
    number, words = int(sys.argv[1]), tuple(sys.argv[2:])
    sys.dont_write_bytecode = True
    # Everything is imported before, so that only the command's own steps count.
    for module in MODULES:
        importlib.import_module(module)
    arm(number)
    sys.exit(importlib.import_module("fdl_cli.app").main(words))


if __name__ == "__main__":
    main()
