"""The command line: `python -m {{ package }} train|resume|eval`."""

import argparse
import json
import sys
import time
from pathlib import Path

from {{ package }}.config import (
    Config,
    ConfigError,
    changed,
    combinations,
    load,
    stored,
    with_logger,
    words_of,
)


def parser() -> argparse.ArgumentParser:
    """Return the parser; torch is not imported for `--help`."""
    top = argparse.ArgumentParser(
        prog="{{ package }}",
        description="Train and measure the model.",
    )
    words = top.add_subparsers(dest="command", required=True)
    train = words.add_parser(
        "train",
        help="train a new model",
        epilog="\n".join(["settings:", *(f"  {word}" for word in words_of(defaults()))]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    train.add_argument(
        "--config",
        type=Path,
        action="append",
        default=[],
        help="a TOML file over configs/default.toml; several are merged, the last one wins",
    )
    train.add_argument("--output", type=Path, help="the folder of this run")
    train.add_argument(
        "overrides", nargs="*", metavar="KEY=VALUE", help="train.epochs=3; a sweep: seed=1,2"
    )
    resume = words.add_parser("resume", help="continue from the newest checkpoint of a run")
    evaluation = words.add_parser("eval", help="measure the newest checkpoint of a run")
    for each, what in ((resume, "a run"), (evaluation, "a run, or a checkpoint")):
        each.add_argument(
            "words",
            nargs="*",
            metavar="RUN|KEY=VALUE",
            help=f"the folder or the name of {what}, by default the newest; then what to change",
        )
    return top


def defaults() -> Config:
    """Return the settings of a run without words, for the help text: a mistake is named later."""
    try:
        return load([], [])
    except ConfigError:
        return Config()


def main(words: list[str] | None = None) -> int:
    """Run one command and return the exit code."""
    arguments = parser().parse_args(words)
    # Not above: `--help` ends before, and needs no torch.
    from flodl import CheckpointError, DeviceError, RunError

    try:
        if arguments.command == "train":
            sweep = combinations(arguments.overrides)
            if len(sweep) > 1:
                return run_sweep(arguments.config, sweep, arguments.output)
            config = load(arguments.config, arguments.overrides)
            return run_train(config, arguments.output or new_folder(config))
        place, overrides = split(arguments.words)
        if arguments.command == "resume":
            return run_resume(place or newest_run(), overrides)
        return run_eval(place or newest_run(), overrides)
    except (ConfigError, FileNotFoundError, CheckpointError, DeviceError, RunError) as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2


def run_train(config: Config, folder: Path) -> int:
    """Train from the start."""
    from flodl import RunDirectory

    from {{ package }}.train import fit

    if RunDirectory(folder).checkpoints.entries():
        raise ConfigError(f"{folder}: a run has begun here already; `resume {folder}` continues it")
    print(f"run: {folder}")
    fit(config, folder)
    return 0


def run_sweep(files: list[Path], sweep: list[list[str]], output: Path | None) -> int:
    """Check all combinations, then train each in its own folder, and print how they ended."""
    from flodl import FlodlError

    from {{ package }}.train import fit

    if output is not None:
        raise ConfigError("--output is the folder of one run; for a sweep, write output=FOLDER")
    configs = [with_logger(load(files, words)) for words in sweep]
    rows = [("run", "settings", "last loss")]
    failed = False
    try:
        for words, config in zip(sweep, configs, strict=True):
            folder = new_folder(config)
            settings = " ".join(word for word in words if any(word not in each for each in sweep))
            print(f"run: {folder}, {len(rows)} of {len(sweep)}: {settings}")
            try:
                history = fit(config, folder).history
                loss = f"{history[-1].avg_loss:.4f}" if history else "-"
            except FlodlError as problem:
                print(f"error: {problem}", file=sys.stderr)
                loss, failed = type(problem).__name__, True
            rows.append((str(folder), settings, loss))
    finally:  # an interrupted sweep shows what it has
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            print("  ".join(map(str.ljust, row, widths)).rstrip())
    return 1 if failed else 0


def run_resume(folder: Path, overrides: list[str]) -> int:
    """Train on, bit for bit as if the run had never stopped."""
    from flodl import RunDirectory

    from {{ package }}.train import fit

    config = changed(stored(folder), overrides)
    newest = RunDirectory(folder).checkpoints.latest()
    print(f"run: {folder}, from epoch {newest.epoch if newest else 0}")
    fit(config, folder, resume=True)
    return 0


def run_eval(place: Path, overrides: list[str]) -> int:
    """Print the metrics of a checkpoint, or of the newest one of a run, as JSON."""
    from flodl import RunDirectory

    from {{ package }}.evaluate import evaluate_checkpoint
    from {{ package }}.train import pick_device

    # A run holds its checkpoints in a folder.
    run = RunDirectory(place.parent.parent if place.is_file() else place)
    config = changed(stored(run.path), overrides)
    newest = run.checkpoints.latest()
    if place.is_dir() and newest is None:
        raise FileNotFoundError(f"there is no checkpoint in {place}")
    path = place if newest is None or place.is_file() else newest.path
    epochs = {each.path.resolve(): each.epoch for each in run.checkpoints.entries()}
    found = evaluate_checkpoint(path, config, pick_device(config.train.device))
    print(json.dumps({"epoch": epochs.get(path.resolve()), **found}, indent=2))
    return 0


def split(words: list[str]) -> tuple[Path | None, list[str]]:
    """Return the run that is named first, if one is, and the changes."""
    if not words or ("=" in words[0] and not Path(words[0]).exists()):
        return None, words
    place, named = Path(words[0]), Path(load([], []).output) / words[0]
    if not place.exists() and not named.exists():
        raise FileNotFoundError(f"there is no run {place}, nor {named}")
    return (place if place.exists() else named), words[1:]


def new_folder(config: Config) -> Path:
    """Return a folder that no other run has."""
    stem = Path(config.output) / f"{time.strftime('%Y%m%d-%H%M%S')}-{config.name}"
    for number in range(1, 1000):
        folder = stem if number == 1 else stem.with_name(f"{stem.name}-{number}")
        if not folder.exists():
            return folder
    raise FileNotFoundError(f"no free folder beside {stem}")


def newest_run() -> Path:
    """Return the run that was begun last."""
    from flodl import RunDirectory

    output = load([], []).output
    run = RunDirectory.latest(output)
    if run is None:
        raise FileNotFoundError(f"there is no run in {output}; train first")
    return run.path


if __name__ == "__main__":
    sys.exit(main())
