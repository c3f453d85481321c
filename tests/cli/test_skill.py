"""`fdl skill`: installs for each tool, never overwrites an edit, leaves no trace when removed."""

import json
import shutil

import jsonschema
import pytest

from fdl_cli.skill.lock import LOCK
from fdl_cli.system.transaction import PENDING, recover
from tests.scaffold.conftest import snapshot
from tests.scaffold.test_interruption import killed_at

SKILL = ".agents/skills/flodl-port/SKILL.md"


@pytest.fixture
def place(tmp_path):
    """A folder with a git repository, a sub-folder and notes of its own."""
    root = tmp_path / "project"
    (root / ".git").mkdir(parents=True)
    (root / "deep").mkdir()
    (root / "AGENTS.md").write_text("# My notes\n\nKeep these.")
    return root


def test_install_list_remove(fdl, place):
    before = snapshot(place)
    done = fdl("skill", "install", cwd=place / "deep")
    assert (done.returncode, done.stdout) == (0, "")
    files = snapshot(place)
    assert {
        SKILL,
        ".claude/skills/flodl-port/SKILL.md",
        ".cursor/rules/flodl-port.mdc",
        LOCK,
    } <= set(files)
    assert files["AGENTS.md"].startswith(before["AGENTS.md"] + b"\n<!-- flodl:begin flodl-port v=")
    data = json.loads(fdl("skill", "list", "--json", cwd=place).stdout)["data"]
    assert data["skills"][0]["tools"] == ["agents", "claude", "cursor"]
    assert data["skills"][0]["edited"] == []
    assert fdl("skill", "remove", cwd=place).returncode == 0
    assert snapshot(place) == before
    assert not (place / ".agents").exists()


def test_twice_is_once(fdl, place):
    fdl("skill", "install", cwd=place)
    before = snapshot(place)
    done = fdl("skill", "install", cwd=place)
    assert "every file is as it should be" in done.stderr
    assert snapshot(place) == before


@pytest.mark.parametrize("tool", ["agents", "claude"])
def test_one_tool_only(fdl, place, tool):
    fdl("skill", "install", "--for", tool, cwd=place)
    tops = {path.split("/")[0] for path in snapshot(place)}
    assert tops == {"AGENTS.md", ".agents", f".{tool}"}
    assert (".agents/skills" in " ".join(snapshot(place))) == (tool == "agents")
    assert fdl("skill", "install", "--for", "emacs", cwd=place).returncode == 2


def test_the_rule_for_cursor_points_to_files_that_exist(fdl, place):
    import re

    fdl("skill", "install", "--for", "cursor", cwd=place)
    rule = place / ".cursor/rules/flodl-port.mdc"
    text = rule.read_text()
    assert "alwaysApply: false" in text
    targets = re.findall(r"\]\(([^)]+)\)", text)
    assert len(targets) >= 2
    assert all((rule.parent / target).resolve().is_file() for target in targets)
    assert (place / ".agents/skills/flodl-port/scripts/check.py").stat().st_mode & 0o111


@pytest.mark.parametrize(
    ("command", "path"),
    [("install", SKILL), ("update", ".cursor/rules/flodl-port.mdc"), ("remove", "AGENTS.md"),
     ("install", "AGENTS.md"), ("remove", SKILL)],
)  # fmt: skip
def test_an_edited_file_stops_everything(fdl, place, command, path):
    fdl("skill", "install", cwd=place)
    file = place / path
    old = "references" if path != "AGENTS.md" else "When asked"
    file.write_text(file.read_text().replace(old, "EDITED"))
    lock = json.loads((place / LOCK).read_text())
    lock["skills"]["flodl-port"]["version"] = "0.0.1"
    (place / LOCK).write_text(json.dumps(lock))
    before = snapshot(place)
    done = fdl("skill", command, cwd=place)
    assert (done.returncode, path in done.stderr) == (6, True)
    assert snapshot(place) == before
    shown = fdl("skill", command, "--dry-run", "--json", cwd=place)
    assert shown.returncode == 6
    actions = {f["path"]: f["action"] for f in json.loads(shown.stdout)["data"]["files"]}
    assert actions[path] == "conflict"
    assert snapshot(place) == before
    assert fdl("skill", command, "--force", cwd=place).returncode == 0
    assert not (place / path).exists() or "EDITED" not in file.read_text()


def test_a_file_of_yours_in_the_way_is_not_overwritten(fdl, place):
    mine = place / ".claude/skills/flodl-port/SKILL.md"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    before = snapshot(place)
    done = fdl("skill", "install", cwd=place)
    assert done.returncode == 6
    assert snapshot(place) == before


def test_update_moves_an_old_version_and_never_goes_back(fdl, place):
    fdl("skill", "install", "--for", "claude", cwd=place)
    from fdl_cli.skill.targets import digest

    file = place / ".claude/skills/flodl-port/SKILL.md"
    newest = file.read_bytes()
    file.write_bytes(b"an older text")
    lock = json.loads((place / LOCK).read_text())
    item = lock["skills"]["flodl-port"]
    item["version"] = "0.0.1"
    item["files"][".claude/skills/flodl-port/SKILL.md"] = digest(b"an older text")
    dropped = place / ".claude/skills/flodl-port/gone.md"
    dropped.write_text("gone")
    item["files"][".claude/skills/flodl-port/gone.md"] = digest(b"gone")
    (place / LOCK).write_text(json.dumps(lock))
    assert "fdl skill update" in fdl("skill", "list", cwd=place).stdout
    assert fdl("skill", "update", cwd=place).returncode == 0
    assert file.read_bytes() == newest
    assert not dropped.exists()
    assert not (place / ".agents/skills").exists(), "an update adds no tool"
    lock["skills"]["flodl-port"]["version"] = "99.0"
    (place / LOCK).write_text(json.dumps(lock))
    before = snapshot(place)
    done = fdl("skill", "update", cwd=place)
    assert (done.returncode, "error[skill-newer]" in done.stderr) == (6, True)
    assert snapshot(place) == before


def test_for_the_user(fdl, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    assert fdl("skill", "install", "--user", HOME=str(home)).returncode == 0
    tops = {path.split("/")[0] for path in snapshot(home)}
    assert tops == {".agents", ".claude"}
    assert fdl("skill", "remove", "--user", HOME=str(home)).returncode == 0
    assert snapshot(home) == {}
    assert fdl("skill", "install", "--user", HOME=None, USERPROFILE=None).returncode == 5


def test_mistakes(fdl, place):
    assert fdl("skill", "install", "nothing", cwd=place).returncode == 4
    assert fdl("skill", "remove", cwd=place).returncode == 4
    assert fdl("skill", "update", cwd=place).returncode == 4
    (place / ".agents").mkdir()
    (place / LOCK).write_text("{")
    done = fdl("skill", "list", cwd=place)
    assert (done.returncode, "lock.json" in done.stderr) == (3, True)


@pytest.mark.parametrize("words", [("list",), ("install", "--dry-run")], ids=" ".join)
def test_json_fits_its_schema(fdl, place, words):
    schema = json.loads(fdl("skill", words[0], "--json-schema").stdout)
    document = json.loads(fdl("skill", *words, "--json", cwd=place).stdout)
    jsonschema.validate(document, schema)
    assert LOCK not in snapshot(place)


@pytest.mark.slow
def test_killed_at_any_step_a_skill_is_there_or_not(fdl, tmp_path):
    start = tmp_path / "start"
    start.mkdir()
    (start / "AGENTS.md").write_text("mine\n")
    before = snapshot(start)
    shutil.copytree(start, tmp_path / "end")
    assert not killed_at(
        10_000, tmp_path / "end", "skill", "install", "--for", "claude", "--for", "agents"
    )
    after = snapshot(tmp_path / "end")
    outcomes = set()
    for number in range(1, 200):
        root = tmp_path / f"kill{number}"
        shutil.copytree(start, root)
        was_killed = killed_at(
            number, root, "skill", "install", "--for", "claude", "--for", "agents"
        )
        decided = (root / PENDING / "journal.json").exists()
        outcomes.add(decided)
        recover(root)
        assert snapshot(root) == after if decided else snapshot(root) in (before, after)
        if not was_killed:
            break
    assert outcomes == {True, False}
