"""A project with tasks of every kind, and `fdl` as a process in it."""

import json
import os
import subprocess
import sys

FDL = [sys.executable, "-P", "-m", "fdl_cli"]
ECHO = "import json, os, sys; print(json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]))"
MANIFEST = f"""
description: a project
env: {{LEVEL: project}}
commands:
  echo:
    description: Print what arrives
    run: [{sys.executable}, -ISc, {json.dumps(ECHO)}]
    forward: auto
  line: {{run: 'echo line'}}
  code: {{run: exit 7}}
  kill: {{run: kill -TERM $$}}
  wait: {{run: "trap 'echo got it; exit 9' TERM; echo ready; for i in $(seq 600); do sleep 0.05; done"}}
  forever: {{run: [/usr/bin/yes]}}
  where: {{run: pwd, cwd: sub}}
  secret: {{run: 'true', hidden: true}}
  ask: {{run: echo done, confirm: "Delete everything?"}}
  lost: {{run: [no-such-program-here]}}
  nowhere: {{run: 'true', cwd: no/such/folder}}
  train:
    entry: [{sys.executable}, train.py]
    options: {{lr: 0.1}}
    commands:
      quick: {{description: A fast one, options: {{lr: 5}}}}
"""
TRAIN = """
import argparse, sys
p = argparse.ArgumentParser(description="Train it.")
p.add_argument("--lr", type=float, default=1.0, help="learning rate")
p.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
a = p.parse_args()
print(sys.argv[1:])
"""


def make_project(tmp_path):
    (tmp_path / "fdl.yml").write_text(MANIFEST)
    (tmp_path / "fdl.ci.yml").write_text("commands: {line: {run: echo ci}}\nenv: {LEVEL: ci}\n")
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "sub" / "deep").mkdir(parents=True)
    return tmp_path


def runner(project):
    """Return a function that runs `fdl` in a project."""

    def start(*words, cwd=None, stdin=subprocess.DEVNULL, environ=None, **settings):
        merged = {**os.environ, "FDL_IN_CONTAINER": "0", **(environ or {})}
        return subprocess.run(
            [*FDL, *words], cwd=cwd or project, env=merged, stdin=stdin, capture_output=True,
            text=True, timeout=60, check=False, **settings,
        )  # fmt: skip

    return start
