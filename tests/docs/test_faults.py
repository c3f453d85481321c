"""Faults planted in a copy of the documents: the checks of the documents find each kind of fault.

`faults.tsv` has one row for each kind: the file, the text to find there, the text in its place (`\\n` is a
new line), and the name of the check in `checks.py` that has to find it. Without a text to find, the file is
removed. A row without a check has the reason:

    a dead anchor <tab> docs/reference/tasks.md <tab> #verbosity <tab> #loudness <tab> links <tab>
"""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import final

import pytest

from tests.docs.checks import CHECKS, PAGE_CHECKS
from tests.docs.reading import ROOT, read

pytestmark = [pytest.mark.torch, pytest.mark.slow]

HEAD = "kind\tfile\tfind\treplace\tcheck\treason"
# Copied, since faults are planted there; all else of the checkout is linked.
COPIED = (
    "README.md",
    "SECURITY.md",
    "benchmarks/README.md",
    "docs",
    "examples",
    "mkdocs.yml",
    "tests/docs/shown",
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One kind of fault: where it is planted, and the check that finds it, or why none does."""

    kind: str
    file: str
    find: str
    replace: str
    check: str
    reason: str


def faults():
    head, *lines = read(Path(__file__).parent / "faults.tsv").splitlines()
    assert head == HEAD
    rows = [line.split("\t") for line in lines]
    assert [row for row in rows if len(row) != len(HEAD.split("\t"))] == []
    return [
        Fault(
            kind=kind,
            file=file,
            find=find.replace("\\n", "\n"),
            replace=replace.replace("\\n", "\n"),
            check=check,
            reason=reason,
        )
        for kind, file, find, replace, check, reason in rows
    ]


FAULTS = faults()
CAUGHT = [fault for fault in FAULTS if fault.check]


def copy_of_documents(target):
    """Make a folder with copies of the documents, and links to all else of the checkout."""
    for name in COPIED:
        place = target / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            skipped = shutil.ignore_patterns("__pycache__", "*_flodl.py")
            shutil.copytree(ROOT / name, place, ignore=skipped)
        else:
            shutil.copy(ROOT / name, place)
    for folder in {parent for name in COPIED for parent in Path(name).parents}:
        for source in (ROOT / folder).iterdir():
            place = target / folder / source.name
            hidden = source.name.startswith(".") and source.name != ".ci"
            if not hidden and not place.exists():
                place.symlink_to(source)


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    folder = tmp_path_factory.mktemp("documents").resolve()
    copy_of_documents(folder)
    return folder


@pytest.fixture
def plant(copied):
    """Return a function that plants a fault; afterwards the file is as it was."""
    kept = {}

    def plant(fault):
        path = copied / fault.file
        kept[path] = read(path)
        if not fault.find:
            path.unlink()
            return
        assert kept[path].count(fault.find) == 1, (
            f"{fault.kind}: the text to find must be there once"
        )
        path.write_text(kept[path].replace(fault.find, fault.replace), encoding="utf-8")

    yield plant
    for path, text in kept.items():
        path.write_text(text, encoding="utf-8")


def test_faults_are_of_many_kinds_and_caught_or_explained():
    kinds = [fault.kind for fault in FAULTS]
    assert len(set(kinds)) == len(kinds) >= 38
    assert len(CAUGHT) >= 36
    assert [fault.kind for fault in FAULTS if bool(fault.check) == bool(fault.reason)] == []


def test_every_check_has_a_fault_that_it_finds():
    assert {*CHECKS, *PAGE_CHECKS} - {fault.check for fault in CAUGHT} == set()


@pytest.mark.parametrize("name", CHECKS)
def test_check_of_a_copy_without_a_fault_finds_nothing(name, copied):
    assert CHECKS[name](copied) == []


@pytest.mark.parametrize("fault", CAUGHT, ids=lambda fault: fault.kind.replace(" ", "-"))
def test_planted_fault_is_found_by_its_check(fault, plant, copied):
    plant(fault)
    if fault.check in PAGE_CHECKS:
        found = PAGE_CHECKS[fault.check](copied, copied / fault.file)
    else:
        found = CHECKS[fault.check](copied)
    assert found


@pytest.mark.parametrize(
    "fault",
    [fault for fault in FAULTS if not fault.check],
    ids=lambda fault: fault.kind.replace(" ", "-"),
)
def test_planted_fault_with_a_reason_is_found_by_no_check(fault, plant, copied):
    plant(fault)
    assert [name for name, check in CHECKS.items() if check(copied)] == []
