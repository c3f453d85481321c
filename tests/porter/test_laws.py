"""Laws that hold for every text: it parses, it is stable, nothing else changes, nothing crashes."""

import ast
import importlib.util
import io
import os
import subprocess
import sys
import tokenize
import warnings
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdl_cli.porter.emit.write import Written, write
from fdl_cli.porter.parse.reader import UnreadableError, decode
from fdl_cli.porter.pipeline import draft, understand
from fdl_cli.porter.port_file import port_file
from tests.porter.porter_sources import scripts

ROOT = Path(__file__).parents[2]


def package_files(name):
    spec = importlib.util.find_spec(name)
    assert spec is not None
    return sorted(Path(spec.submodule_search_locations[0]).rglob("*.py"))


def comments(text):
    # tokenize needs \n or \r\n line ends; comments themselves hold neither.
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return sorted(token.string for token in tokens if token.type == tokenize.COMMENT)


def check_laws(data):
    text = decode(data)
    source, script = understand(data)
    assert source.text == text
    made = draft(source, script, {})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        ast.parse(made.text)
    again_source, again_script = understand(made.data)
    assert draft(again_source, again_script, {}).text == made.text
    assert comments(made.text) == comments(text)
    check_rest(text, made)


def check_rest(text, made):
    """Everything between the edits stands in the port, in order and unchanged."""
    written = write(made.source, made.script, made.plan)
    assert isinstance(written, Written)
    result, patches = written.text, written.patches
    assert result == made.text
    at_old = at_new = 0
    for patch in patches:
        kept = text[at_old : patch.start]
        assert result[at_new : at_new + len(kept)] == kept
        at_new += len(kept)
        assert result[at_new : at_new + len(patch.text)] == patch.text
        at_new += len(patch.text)
        at_old = patch.end
    assert result[at_new:] == text[at_old:]


@given(scripts())
@pytest.mark.slow
def test_laws_on_made_up_scripts(text):
    check_laws(text.encode())


@given(scripts(), st.sampled_from(["\n", "\r\n"]), st.sampled_from(["    ", "\t", "  "]))
@pytest.mark.slow
def test_laws_on_other_layouts(text, newline, indent):
    changed = text.replace("    ", indent).replace("\n", newline)
    check_laws(changed.encode())
    _, made = port_file(changed.encode(), Path("net.py"), None)
    ends = {"\r\n"} if newline == "\r\n" else {"\n"}
    assert {line[len(line.rstrip("\r\n")) :] for line in made.decode().splitlines(True)} <= ends


@given(st.text(max_size=200))
def test_any_text_has_an_outcome(text):
    outcome, made = port_file(text.encode("utf-8", "replace"), Path("any.py"), None)
    assert outcome.status in {"unchanged", "failed"}
    assert made == text.encode("utf-8", "replace")


@given(st.binary(max_size=200))
def test_any_bytes_have_an_outcome(data):
    outcome, made = port_file(data, Path("any.py"), None)
    assert outcome.status in {"unchanged", "failed"}
    assert made == data


@given(scripts(), st.integers(0, 10_000), st.sampled_from(["", "(", "\n        ", "#", "'", ")"]))
@pytest.mark.slow
def test_damaged_scripts_have_an_outcome(text, place, damage):
    at = place % len(text)
    data = (text[:at] + damage + text[at + 1 :]).encode()
    outcome, made = port_file(data, Path("net.py"), None)
    if outcome.status == "failed":
        assert made == data
    else:
        ast.parse(made)


@pytest.mark.parametrize("package", ["perceiver_pytorch", "pytorchcv"])
@pytest.mark.slow
def test_laws_on_packages(package):
    files = package_files(package)
    files = files[:: 1 + len(files) // 30]  # those of a large package are much alike
    assert len(files) > 5
    for file in files:
        try:
            check_laws(file.read_bytes())
        except (AssertionError, UnreadableError) as problem:
            problem.add_note(str(file))
            raise


PROGRAM = """
import sys
from pathlib import Path
from fdl_cli.porter.port_file import port_file
for name in sys.argv[1:]:
    outcome, made = port_file(Path(name).read_bytes(), Path(name), None)
    sys.stdout.buffer.write(made)
    sys.stdout.buffer.write((outcome.plan + outcome.ir).encode())
"""


@pytest.mark.slow
def test_hash_seed_and_path_do_not_matter(tmp_path):
    sources = sorted((ROOT / "examples" / "pytorch").glob("*.py"))
    elsewhere = []
    for source in sources:
        copy = tmp_path / "a folder" / source.name
        copy.parent.mkdir(exist_ok=True)
        copy.write_bytes(source.read_bytes())
        elsewhere.append(copy)
    outputs = []
    for seed, paths in (("1", sources), ("2", sources), ("3", elsewhere)):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, *map(str, paths)],
            env=environment,
            capture_output=True,
            check=True,
            timeout=60,
        )
        outputs.append(done.stdout)
    assert outputs[0]
    assert outputs[0] == outputs[1] == outputs[2]
