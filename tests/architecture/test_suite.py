"""The suite itself: it cannot pass without tests, nor with a failed check."""

import importlib.util
import re
import subprocess
import sys

import pytest


def suite(root, *arguments):
    return subprocess.run(
        [sys.executable, str(root / ".ci" / "suite.py"), *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_no_tests_is_a_failure(root):
    done = suite(root, "-q", "-p", "no:cacheprovider", "-k", "no_such_test", __file__)
    assert done.returncode == 5


@pytest.mark.slow
def test_the_last_line_is_the_summary_of_pytest(root):
    done = suite(root, "-p", "no:cacheprovider", str(root / "tests/architecture/test_words.py"))
    # After a minute pytest says the time twice: `5 passed in 61.20s (0:01:01)`.
    summary = r"=+ 5 passed in [\d.]+s( \([\d:]+\))? =+"
    assert re.fullmatch(summary, done.stdout.splitlines()[-1])


def load(root):
    spec = importlib.util.spec_from_file_location("suite", root / ".ci" / "suite.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_failed_check_fails_the_whole(root, monkeypatch, capsys):
    module = load(root)
    monkeypatch.setattr(module, "run_tests", lambda arguments: 0)
    monkeypatch.setattr(module.other_pythons, "others", list)
    monkeypatch.setattr(sys, "argv", ["suite.py"])
    good = ("good", (sys.executable, "-c", "pass"))
    bad = ("bad", (sys.executable, "-c", "print('the reason'); raise SystemExit(3)"))
    monkeypatch.setattr(module, "CHECKS", (good,))
    assert module.main() == 0
    monkeypatch.setattr(module, "CHECKS", (bad, good))
    assert module.main() == 1
    printed = capsys.readouterr().out
    assert "the reason" in printed
    assert printed.splitlines()[-1] == "failed before the tests: bad"


def test_failed_tests_fail_the_whole(root, monkeypatch):
    module = load(root)
    monkeypatch.setattr(module, "CHECKS", ())
    monkeypatch.setattr(module.other_pythons, "others", list)
    monkeypatch.setattr(sys, "argv", ["suite.py"])
    for code in (1, 2, 5):
        monkeypatch.setattr(module, "run_tests", lambda arguments, code=code: code)
        assert module.main() == code


def test_suite_with_failed_tests_on_another_python_fails(root, monkeypatch, capsys):
    module = load(root)
    monkeypatch.setattr(module, "CHECKS", ())
    monkeypatch.setattr(
        module, "run_tests", lambda arguments: sys.stdout.write("5 passed\n") and 0
    )
    monkeypatch.setattr(module.other_pythons, "others", lambda: [13])
    monkeypatch.setattr(module.other_pythons, "prepare", lambda minor: root)
    monkeypatch.setattr(sys, "argv", ["suite.py"])
    for is_good, lines in (
        (True, ["5 passed"]),
        (False, ["failed before the tests: tests on Python 3.13", "5 passed"]),
    ):
        monkeypatch.setattr(
            module.other_pythons, "run_tests", lambda minor, path, is_good=is_good: is_good
        )
        assert module.main() == (0 if is_good else 1)
        assert capsys.readouterr().out.splitlines() == lines


def test_every_check_of_the_house_is_there(root):
    names = [name for name, _ in load(root).CHECKS]
    assert names == ["style", "format", "types", "layers", "script", "lock"]


def test_the_entry_of_ci_is_the_same_command(root):
    lines = (root / ".ci" / "run").read_text().splitlines()
    assert lines[0] == "#!/usr/bin/env bash"
    assert "set -euo pipefail" in lines
    assert lines[-1] == "exec ./fdl test"
