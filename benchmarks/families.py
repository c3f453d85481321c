"""Compare T5, DETR, DeBERTa-v2, Longformer and wav2vec2 with their ports, use by use.

Usage: `python benchmarks/families.py [FAMILY...] [--work FOLDER]` (about two minutes of processor time)

Configurations are small and random; DeBERTa-v2 has the settings of its third version.  Values, strides,
gradients, random state and buffers must be the same, in every call:

    family        eval, gradients, train    generate   half   bfloat16   save and load
    t5                             equal       equal  equal      equal           equal

`both raise`: the original raises, and the port raises as it does.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import world  # noqa: E402
from benchmarks.world_mutation.trial import BOTH, EQUAL, NO_CASE  # noqa: E402

FAMILIES = ("deberta_v2", "longformer", "t5", "detr", "wav2vec2")
# The columns, and the changes of the world whose names hold one of these words.
USES: dict[str, tuple[str, ...]] = {
    "eval, gradients, train": ("first calls", "the same call again"),
    "generate": ("generate",),
    "half": ("half",),
    "bfloat16": ("bfloat16",),
    "save and load": ("load_state_dict", "save_pretrained", "torch.save"),
}
_WORST_LAST = (NO_CASE, EQUAL, BOTH)


def status_of(result: dict[str, Any], words: tuple[str, ...]) -> str:
    """Return the worst status of the changes whose names hold one of the words, `-` for none."""
    found = {
        each["status"]
        for name, each in result.get("changes", {}).items()
        if any(word in name for word in words)
    }
    worse = sorted(found - {*_WORST_LAST})
    return next(iter(worse), None) or ("-" if not found else max(found, key=_WORST_LAST.index))


def text(results: list[dict[str, Any]]) -> str:
    """Return the table: one row a family, one column a use."""
    row = "{:12}" + "".join(f" {{:>{max(len(use), 18)}}}" for use in USES)
    lines = [row.format("family", *USES)]
    for result in results:
        if "error" in result:
            lines.append(f"{result['family']:12} {result['error']}")
        else:
            cells = [status_of(result, words) for words in USES.values()]
            lines.append(row.format(result["family"], *cells))
    return "\n".join(lines)


def main(words: list[str]) -> int:
    """Run the families and print the table; return 1 if anything differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("families", nargs="*", default=FAMILIES)
    parser.add_argument("--work", default=str(Path(tempfile.gettempdir()) / "fdl-families"))
    options = parser.parse_args(words)
    wanted = [word for words in USES.values() for word in words]
    results = world.run_all(
        list(options.families),
        world.arguments(["--work", options.work, "--budget-s", "600", "--changes", *wanted]),
    )
    print(text(results))
    good = {"-", NO_CASE, EQUAL, BOTH}
    return int(
        any("error" in r or {status_of(r, w) for w in USES.values()} - good for r in results)
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
