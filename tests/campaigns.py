"""Results of campaigns: what a long test found, at which commit, and which code that holds for.

A campaign is a test that takes minutes and runs outside CI. It says which code it covers, and
writes its result when all its checks have passed:

    @pytest.mark.campaign("load", covers=("flodl/checkpoint",))
    def test_load_campaign_of_ten_thousand_mutations(campaign):
        bounds = mutated_loads(10_000, seed=9)
        campaign.write(seed=9, cases=10_000, outcomes=bounds.outcomes, worst=bounds.worst)

The result, `benchmarks/results/campaigns/load.json`, is committed with the change. It holds a digest
of the code that is covered and of the campaign; when one of them changes, a fast test asks for a new run.
"""

import ast
import json
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, final

from benchmarks.shared import conditions
from tests.code_digest import digest

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "benchmarks" / "results" / "campaigns"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """One campaign: `covers` holds files and folders below the root, `test` the path and function."""

    name: str
    covers: tuple[str, ...]
    test: str
    root: Path = ROOT
    folder: Path = FOLDER

    @classmethod
    def of_mark(cls, test: str, name: str, *, covers: tuple[str, ...]) -> Self:
        """Return the campaign of a test by the arguments of its mark."""
        return cls(name=name, covers=covers, test=test)

    @property
    def path(self) -> Path:
        """The file of the result."""
        return self.folder / f"{self.name}.json"

    def digest(self) -> str:
        """Return the digest of the code, as it is now."""
        return digest(self.root, self.covers, self.test)

    def write(
        self,
        *,
        cases: int,
        outcomes: Mapping[str, int],
        worst: Mapping[str, float],
        seed: int | None = None,
    ) -> None:
        """Write the result; a campaign calls this after its last check."""
        assert sum(outcomes.values()) == cases, f"{outcomes} are not {cases} cases"
        result = {
            "campaign": self.name,
            "test": self.test,
            "measured": {
                **conditions.measured("torch"),
                "commit": _commit(self.root, (*self.covers, self.test.partition("::")[0])),
            },
            "covers": list(self.covers),
            "digest": self.digest(),
            "seed": seed,
            "cases": cases,
            "outcomes": {name: outcomes[name] for name in sorted(outcomes)},
            "worst": {name: round(worst[name], 4) for name in sorted(worst)},
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")

    def problem(self) -> str:
        """Return why there is no valid result, or an empty text."""
        try:
            result = json.loads(self.path.read_text(encoding="utf-8"))
        except (FileNotFoundError, json.JSONDecodeError):
            return "no result"
        if result["digest"] != self.digest():
            return f"the result of {result['measured']['date']} is older than the code it covers"
        return ""


def campaigns(folder: Path = ROOT / "tests") -> tuple[Campaign, ...]:
    """Return all campaigns by the marks in the tests, without importing any."""
    found: list[Campaign] = []
    for path in sorted(folder.rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if "\n@pytest.mark.campaign(" in text:
            name = path.relative_to(folder.parent).as_posix()
            found += _marked(ast.parse(text), name)
    return tuple(found)


def command(stale: tuple[Campaign, ...]) -> str:
    """Return what to type for new results."""
    files = " ".join(sorted({each.test.partition("::")[0] for each in stale}))
    return f"./fdl test -m campaign -n 2 {files} && git add {FOLDER.relative_to(ROOT)}"


def _marked(tree: ast.Module, path: str) -> Iterator[Campaign]:
    for node in tree.body:
        for mark in node.decorator_list if isinstance(node, ast.FunctionDef) else ():
            match mark:
                case ast.Call(func=ast.Attribute(attr="campaign"), args=args, keywords=keywords):
                    words: dict[str, Any] = {
                        str(each.arg): ast.literal_eval(each.value) for each in keywords
                    }
                    yield Campaign.of_mark(
                        f"{path}::{node.name}", *map(ast.literal_eval, args), **words
                    )


def _commit(root: Path, paths: tuple[str, ...]) -> str:
    """Return the commit, with `-dirty` if one of the paths has changed since."""
    git = ["git", "-C", str(root)]
    head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, check=True, text=True)
    status = [*git, "status", "--porcelain", "--", *paths]
    changed = subprocess.run(status, capture_output=True, check=True, text=True).stdout.strip()
    return head.stdout.strip() + ("-dirty" if changed else "")
