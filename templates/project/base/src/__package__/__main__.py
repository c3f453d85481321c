"""The command line: `python -m {{ package }} train|resume|eval`."""

import argparse
import json
import sys
import time
from pathlib import Path

from {{ package }}.config import Config, ConfigError, load


def parser() -> argparse.ArgumentParser:
    """Return the parser; torch is not imported for `--help`."""
    top = argparse.ArgumentParser(
        prog="{{ package }}",
        description="Train and measure the model.",
    )
    words = top.add_subparsers(dest="command", required=True)
    train = words.add_parser("train", help="train a new model")
    train.add_argument(
        "--config",
        type=Path,
        action="append",
        default=[],
        help="a TOML file; several are merged, the last one wins",
    )
    train.add_argument("--output", type=Path, help="the folder of this run")
    train.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="such as train.epochs=3")
    resume = words.add_parser("resume", help="go on from the newest checkpoint of a run")
    resume.add_argument("run", type=Path, nargs="?", help="its folder; by default the newest")
    evaluation = words.add_parser("eval", help="measure a checkpoint")
    evaluation.add_argument("checkpoint", type=Path, nargs="?", help="by default the newest")
    return top


def main(words: list[str] | None = None) -> int:
    """Run one command and return the exit code."""
    arguments = parser().parse_args(words)
    try:
        if arguments.command == "train":
            config = load(arguments.config, arguments.overrides)
            return run_train(config, arguments.output or new_folder(config))
        if arguments.command == "resume":
            return run_resume(arguments.run or newest_run())
        return run_eval(arguments.checkpoint or newest_checkpoint(newest_run()))
    except (ConfigError, FileNotFoundError) as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2


def run_train(config: Config, folder: Path) -> int:
    """Train from the start."""
    from {{ package }}.train import fit, start

    print(f"run: {folder}")
    fit(start(config), folder)
    return 0


def run_resume(folder: Path) -> int:
    """Train on, bit for bit as if the run had never stopped."""
    from {{ package }} import checkpoint
    from {{ package }}.config import from_dict
    from {{ package }}.train import fit, start

    state = checkpoint.load(newest_checkpoint(folder))
    training = start(from_dict(state["config"]))
    training.load(state)
    print(f"run: {folder}, from epoch {training.epoch}")
    fit(training, folder)
    return 0


def run_eval(path: Path) -> int:
    """Print the metrics of a checkpoint as JSON."""
    from {{ package }}.evaluate import evaluate_checkpoint

    print(json.dumps({"checkpoint": str(path), **evaluate_checkpoint(path)}, indent=2))
    return 0


def new_folder(config: Config) -> Path:
    """Return a folder that no other run has."""
    stem = Path(config.output) / f"{time.strftime('%Y%m%d-%H%M%S')}-{config.name}"
    for number in range(1, 1000):
        folder = stem if number == 1 else stem.with_name(f"{stem.name}-{number}")
        if not folder.exists():
            return folder
    raise FileNotFoundError(f"no free folder beside {stem}")


def newest_run(output: Path = Path("runs")) -> Path:
    """Return the newest run that has a checkpoint."""
    runs = {path.parent for path in output.glob("*/epoch-*.pt")}
    if not runs:
        raise FileNotFoundError(f"there is no run with a checkpoint in {output}; train first")
    return max(runs, key=lambda folder: (folder.stat().st_mtime, folder.name))


def newest_checkpoint(folder: Path) -> Path:
    """Return the newest checkpoint of a run."""
    found = sorted(folder.glob("epoch-*.pt"))
    if not found:
        raise FileNotFoundError(f"there is no checkpoint in {folder}")
    return found[-1]


if __name__ == "__main__":
    sys.exit(main())
