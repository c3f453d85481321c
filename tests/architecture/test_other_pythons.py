"""The other versions of Python that the suite finds, makes and runs its tests on."""

import importlib.util
import os
from concurrent.futures import Future

import pytest

STARTS = """#!/bin/sh
echo '["cpython", [3, 13, {micro}]]'
"""
BROKEN = "#!/bin/sh\necho 'command not found' >&2\nexit 127\n"


@pytest.fixture
def others(root):
    spec = importlib.util.spec_from_file_location("others", root / ".ci" / "other_pythons.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def places(tmp_path, monkeypatch):
    """The folders that are searched, all of them empty."""
    places = {name: tmp_path / name for name in ("first", "second", "pyenv", "uv", "cache")}
    for place in places.values():
        place.mkdir()
    monkeypatch.setenv("PATH", os.pathsep.join([str(places["first"]), str(places["second"])]))
    monkeypatch.setenv("PYENV_ROOT", str(places["pyenv"]))
    monkeypatch.setenv("UV_PYTHON_INSTALL_DIR", str(places["uv"]))
    monkeypatch.setenv("XDG_CACHE_HOME", str(places["cache"]))
    return places


def program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_find_skips_a_python_on_path_that_does_not_start(others, places):
    program(places["first"] / "python3.13", BROKEN)
    assert others.pythons.find(13) is None
    good = program(places["second"] / "python3.13", STARTS.format(micro=5))
    assert others.pythons.find(13) == good


@pytest.mark.parametrize(
    ("place", "folder"),
    [
        ("pyenv", "versions/3.13.5/bin"),
        ("uv", "cpython-3.13.5-linux-x86_64-gnu/bin"),
        ("cache", "fdl/pythons/debian-trixie/usr/bin"),
    ],
)
def test_find_looks_where_pythons_are_installed(others, places, place, folder):
    good = program(places[place] / folder / "python3.13", STARTS.format(micro=5))
    assert others.pythons.find(13) == good
    assert others.pythons.find(13, at_least=(3, 13, 6)) is None


def test_others_are_the_promised_versions_but_this_one(others, monkeypatch):
    for minor, expected in ((11, [13]), (13, [11]), (12, [11, 13])):
        monkeypatch.setattr(others, "THIS", minor)
        assert others.others() == expected


def test_prepare_without_a_python_says_what_to_type(others, places):
    with pytest.raises(others.NotAvailableError, match=r"`uv python install 3\.13` brings one"):
        others.prepare(13)


def test_prepare_in_ci_without_root_says_so(others, places, monkeypatch):
    monkeypatch.setenv("CI", "true")
    monkeypatch.setattr(others.os, "geteuid", lambda: 1000)
    with pytest.raises(others.NotAvailableError, match="takes root and debootstrap"):
        others.prepare(13)


def test_prepare_in_ci_gives_the_reason_of_debootstrap(others, places, monkeypatch):
    monkeypatch.setenv("CI", "true")
    monkeypatch.setattr(others.os, "geteuid", lambda: 0)
    program(places["first"] / "patchelf", "#!/bin/sh\n")
    program(places["first"] / "debootstrap", "#!/bin/sh\necho 'E: no mirror'\nexit 1\n")
    with pytest.raises(others.NotAvailableError, match=r"`debootstrap trixie` failed .*\nE: no"):
        others.prepare(13)


@pytest.mark.parametrize(("ci", "verdict"), [("", "skipped"), ("true", "FAILED")])
def test_tests_without_a_python_are_skipped_on_a_desk_and_fail_in_ci(
    others, monkeypatch, capsys, ci, verdict
):
    monkeypatch.setenv("CI", ci)
    prepared = Future()
    prepared.set_exception(others.NotAvailableError("no mirror"))
    assert others.run_tests(13, prepared) is not bool(ci)
    assert capsys.readouterr().out.startswith(f"python 3.13 {verdict}: no mirror  ")


@pytest.mark.parametrize(("code", "verdict"), [(0, "ok"), (1, "FAILED (exit code 1)")])
def test_tests_have_the_verdict_of_pytest(others, tmp_path, capfd, code, verdict):
    prepared = Future()
    script = f'#!/bin/sh\necho "$@" in $PYTHONPATH\nexit {code}\n'
    prepared.set_result(program(tmp_path / "python", script))
    assert others.run_tests(13, prepared) is (code == 0)
    first, once, third, last = capfd.readouterr().out.splitlines()
    assert first.startswith("-m pytest")
    assert "slow" not in first  # the slow tests run there too
    left_out = [word.partition("=")[2] for word in first.split() if word.startswith("--ignore=")]
    chosen = once.partition(" -m not slow and not campaign ")[2].split()
    assert left_out == chosen[: len(left_out)] != []
    assert all((others.ROOT / each).exists() for each in left_out)
    assert first.endswith(f"tests/flodl tests/flodl_verify in {others.ROOT}")
    assert once.endswith(f" tests/porter in {others.ROOT}")
    assert " -m slow tests/porter/" in third
    assert all((others.ROOT / each).exists() for each in others.PORTER)
    assert "::test_train_after_yes_" in third
    assert last.startswith(f"python 3.13 {verdict}  ")


def test_constraints_leave_torch_free(others):
    names = {line.partition("==")[0] for line in others.constraints().splitlines()}
    assert "pytest" in names
    assert not names & {"torch", "torchvision"}
    assert any(line.startswith("torch>=") for line in others.requirements())


def test_selected_tests_are_there(others):
    (*_, chosen) = others.TESTS
    for each in (word for word in chosen if "::" in word):
        path, _, name = each.partition("::")
        assert f"def {name}(" in (others.ROOT / path).read_text(encoding="utf-8")


def test_environments_of_old_requirements_are_removed(others, tmp_path):
    for age, name in enumerate(["3.13-new", "3.13-older", "3.13-oldest", "3.11-other"]):
        mark = tmp_path / name / "complete"
        mark.parent.mkdir()
        mark.touch()
        os.utime(mark, (1000 - age, 1000 - age))
    (tmp_path / "3.13-cut-off").mkdir()
    others.forget_environments(tmp_path, "3.13-*")
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"3.13-new", "3.13-older", "3.11-other"}


def test_wheels_that_are_not_installed_are_removed(others, tmp_path):
    python = program(tmp_path / "env" / "bin" / "python", BROKEN)
    (tmp_path / "env" / "lib" / "python3.13" / "site-packages" / "Torch-2.14.1.dist-info").mkdir(
        parents=True
    )
    wheels = [
        tmp_path / f"torch-{version}-cp313-cp313-linux.whl" for version in ("2.14.1", "2.13.0")
    ]
    for wheel in wheels:
        wheel.touch()
    others.forget_wheels(tmp_path, python)
    assert [wheel.exists() for wheel in wheels] == [True, False]
