#!/usr/bin/env python3
"""Say in one short JSON document whether a port is proved equal to its original.

Exit code 0: every class is proved equal. 1: some class is not. 2: it could not be checked.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("original", help="the PyTorch file")
    parser.add_argument("ported", help="the file on flodl")
    parser.add_argument(
        "--example", action="append", default=[], help='"Net(10): torch.randn(2, 3)"'
    )
    arguments = parser.parse_args()
    fdl = shutil.which("fdl")
    if fdl is None:
        return fail("the command `fdl` is not on PATH; install flodl or activate its environment")
    command = [fdl, "port", "--verify-only", arguments.original, arguments.ported]
    command += ["--strict", "--json"]
    for example in arguments.example:
        command += ["--example", example]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        document = json.loads(done.stdout)
    except ValueError:
        return fail(done.stderr.strip() or "fdl printed nothing")
    if "error" in document:
        return fail(f"{document['error']['message']} ({document['error']['hint']})")
    classes = [
        {
            "name": item["name"],
            "status": item["status"],
            "proof": item["verify"]["status"],
            "detail": item["verify"]["detail"],
        }
        for file in document["data"]["files"]
        for item in file["classes"]
    ]
    print(
        json.dumps({"proved": done.returncode == 0, "stale": stale(document), "classes": classes})
    )
    return 0 if done.returncode == 0 else 1


def stale(document: dict) -> bool:
    """Say whether this skill was written for another version of fdl."""
    text = (Path(__file__).parent.parent / "SKILL.md").read_text(encoding="utf-8")
    found = re.search(r'version: "([^"]+)"', text)
    return found is None or found.group(1) != document["fdl"]


def fail(message: str) -> int:
    print(json.dumps({"proved": False, "error": message}))
    return 2


if __name__ == "__main__":
    sys.exit(main())
