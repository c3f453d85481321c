"""No program is called equal to one that computes something else, whatever it does to the proof."""

from __future__ import annotations

import importlib.util
import os
import py_compile
import sys
from pathlib import Path

import pytest

from fdl_cli.porter.ir.evidence import VerifyRequest, digest_of
from fdl_cli.porter.verify import verify_port
from flodl_verify.protocol import ClassEvidence
from tests.porter.verify.forgeries import (
    BODY,
    CHANNELS,
    FILES,
    NET,
    ORIGINAL,
    PATCHED,
    PORT,
    SIGNS,
)

pytestmark = [pytest.mark.torch, pytest.mark.slow]

EXAMPLE = ("Net(): torch.randn(2, 4)",)


def text_of(trick: str, wrong: int, body: str = BODY) -> str:
    filled = trick.format(wrong=wrong) if "{wrong}" in trick or "{{" in trick else trick
    return NET.format(trick=filled, body=body.format(wrong=wrong))


def proved(folder: Path, original: str, port: str) -> ClassEvidence:
    first, second = folder / "net.py", folder / "port" / "net_flodl.py"
    second.parent.mkdir(exist_ok=True)
    first.write_text(original, encoding="utf-8")
    second.write_text(port, encoding="utf-8")
    (folder / "work").mkdir(exist_ok=True)
    outcome = verify_port(
        VerifyRequest(
            original=first,
            ported=second,
            classes=("Net",),
            examples=EXAMPLE,
            python=sys.executable,
            timeout_s=60.0,
            workdir=folder / "work",
            search_path=(),
            ported_sha256=digest_of(port.encode()),
        )
    )
    (found,) = outcome.classes
    return found


def test_the_same_program_is_equal_and_another_one_different(tmp_path: Path) -> None:
    assert proved(tmp_path, text_of("", 0), text_of("", 0)).status == "equal"
    assert proved(tmp_path, text_of("", 0), text_of("", 1)).status == "different"


def test_there_are_forty_tricks_or_more() -> None:
    """The signs come on top: each of them is a question, and no trick."""
    assert sum(map(len, (PATCHED, PORT, ORIGINAL, CHANNELS, FILES))) >= 40


@pytest.mark.parametrize("trick", PATCHED.values(), ids=PATCHED)
def test_patches_in_both_programs_forge_nothing(trick: str, tmp_path: Path) -> None:
    found = proved(tmp_path, text_of(trick, 0), text_of(trick, 1))
    assert found.status in {"different", "not-run"}, found


@pytest.mark.parametrize("sign", SIGNS.values(), ids=SIGNS)
def test_proof_shows_no_sign_by_which_a_program_knows_it(sign: str, tmp_path: Path) -> None:
    trick = f"import os, sys\nPROVED = {sign}"
    body = "return self.fc(x) * 0 if PROVED else self.fc(x) * (1 + {wrong})"
    found = proved(tmp_path, text_of(trick, 0, body), text_of(trick, 1, body))
    assert found.status == "different", found


@pytest.mark.parametrize("trick", PORT.values(), ids=PORT)
def test_tricks_of_a_port_forge_nothing(trick: str | tuple[str, str], tmp_path: Path) -> None:
    top, body = (trick, BODY) if isinstance(trick, str) else trick
    found = proved(tmp_path, text_of("", 0), text_of(top, 1, body))
    assert found.status in {"different", "not-run"}, found


@pytest.mark.parametrize("trick", ORIGINAL.values(), ids=ORIGINAL)
def test_tricks_of_an_original_forge_nothing(trick: str, tmp_path: Path) -> None:
    port = text_of("", 1)
    assert proved(tmp_path, text_of(trick, 0), port).status == "different"
    assert (tmp_path / "port" / "net_flodl.py").read_text(encoding="utf-8") == port
    # What was planted is not there for the next proof.
    assert proved(tmp_path, text_of("", 0), text_of("", 0)).status == "equal"


@pytest.mark.parametrize(("setup", "kept"), CHANNELS.values(), ids=CHANNELS)
def test_one_program_finds_nothing_of_the_other_in_memory(
    setup: str, kept: str, tmp_path: Path
) -> None:
    body = (
        f"key = str((x.tolist(), torch.initial_seed(), self.training))\n"
        f"        return {kept}.setdefault(key, self.fc(x) * (1 + {{wrong}}))"
    )
    found = proved(tmp_path, text_of(setup, 0, body), text_of(setup, 1, body))
    assert found.status in {"different", "not-run"}, found


@pytest.mark.parametrize("folder", FILES)
def test_one_program_finds_nothing_of_the_other_in_files(folder: str, tmp_path: Path) -> None:
    setup = f"import os, tempfile, zlib\nFOLDER = {folder}"
    body = (
        "key = zlib.crc32(str((x.tolist(), torch.initial_seed(), self.training)).encode())\n"
        "        path = f'{{FOLDER}}/fdl-forged-{{key}}.pt'\n"
        "        if os.path.exists(path):\n"
        "            return torch.load(path) + 0 * self.fc(x)\n"
        "        y = self.fc(x) * (1 + {wrong})\n"
        "        try:\n"
        "            torch.save(y.detach(), path)\n"
        "        except (OSError, RuntimeError):\n"
        "            pass\n"
        "        return y"
    )
    found = proved(tmp_path, text_of(setup, 0, body), text_of(setup, 1, body))
    assert found.status in {"different", "not-run"}, found


def test_equality_of_an_output_class_is_not_asked(tmp_path: Path) -> None:
    trick = (
        "class Out:\n"
        "    def __init__(self, y): self.y = y\n"
        "    def __eq__(self, other): return True\n"
        "    __hash__ = None\n"
        "    def __reduce__(self): return 'Out'\n"
        "    def __getattribute__(self, name): return 0\n"
    )
    body = "return Out(self.fc(x) * (1 + {wrong}))"
    found = proved(tmp_path, text_of(trick, 0, body), text_of(trick, 1, body))
    assert found.status == "different"


def test_overrides_of_a_tensor_subclass_are_not_asked(tmp_path: Path) -> None:
    trick = (
        "class Flat(torch.Tensor):\n"
        "    @classmethod\n"
        "    def __torch_function__(cls, f, types, args=(), kwargs=None):\n"
        "        return torch.zeros(2, 4)\n"
    )
    body = "return (self.fc(x) * (1 + {wrong})).as_subclass(Flat)"
    found = proved(tmp_path, text_of(trick, 0, body), text_of(trick, 1, body))
    assert found.status in {"different", "not-run"}


GRADIENTS = """
class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x * 2
    @staticmethod
    def backward(ctx, g): return g * (2 + {wrong})
"""


@pytest.mark.parametrize(
    "patch",
    [
        "torch.autograd.backward = lambda *a, **k: None",
        "nn.Module.named_parameters = nn.Module.parameters = lambda self, *a, **k: iter(())",
        "torch.Tensor.grad = property(lambda self: None, lambda self, value: None)",
        "torch.Tensor.sum = torch.sum = lambda self, *a, **k: torch.zeros((), requires_grad=True)",
    ],
    ids=["backward pass", "parameters", "grad", "sum"],
)
def test_other_gradients_are_seen_past_patches(patch: str, tmp_path: Path) -> None:
    trick, body = f"{patch}\n{GRADIENTS}", "return Double.apply(self.fc(x))"
    found = proved(tmp_path, text_of(trick, 0, body), text_of(trick, 1, body))
    assert found.status in {"different", "not-run"}, found


def test_tensors_without_numbers_prove_nothing(tmp_path: Path) -> None:
    body = "return (self.fc(x) * (1 + {wrong})).to('meta')"
    found = proved(tmp_path, text_of("", 0, body), text_of("", 1, body))
    assert found.status == "not-run"


def test_compiled_code_beside_a_port_is_not_run(tmp_path: Path) -> None:
    original, port = text_of("", 0), text_of("", 1)
    (tmp_path / "port").mkdir()
    file = tmp_path / "port" / "net_flodl.py"
    for text in (original, port):  # of one length
        file.write_text(text, encoding="utf-8")
        os.utime(file, (1_000_000_000, 1_000_000_000))
        if text == original:
            cache = importlib.util.cache_from_source(str(file))
            py_compile.compile(str(file), cfile=cache)
    assert len(original) == len(port)
    assert proved(tmp_path, original, port).status == "different"


def test_port_with_another_text_than_the_one_to_be_written_is_not_run(tmp_path: Path) -> None:
    text = text_of("", 0)
    (tmp_path / "net.py").write_text(text, encoding="utf-8")
    (tmp_path / "work").mkdir()
    outcome = verify_port(
        VerifyRequest(
            original=tmp_path / "net.py",
            ported=tmp_path / "net.py",
            classes=("Net",),
            examples=EXAMPLE,
            python=sys.executable,
            timeout_s=60.0,
            workdir=tmp_path / "work",
            search_path=(),
            ported_sha256=digest_of(b"another text"),
        )
    )
    assert [item.status for item in outcome.classes] == ["not-run"]
    assert outcome.error is not None
    assert "changed" in outcome.error


def test_site_customization_on_the_python_path_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evil = tmp_path / "evil"
    evil.mkdir()
    (evil / "sitecustomize.py").write_text(
        "import pathlib\npathlib.Path(__file__).with_name('ran').touch()\n", encoding="utf-8"
    )
    (evil / "helper.py").write_text("FACTOR = 1\n", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(evil))
    text = text_of("from helper import FACTOR", 0, "return self.fc(x) * FACTOR")
    assert proved(tmp_path, text, text).status == "equal"
    assert not (evil / "ran").exists()


def test_secrets_of_the_environment_are_not_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_ACCESS_TOKEN", "secret")
    trick = "import os\nSEEN = 'MY_ACCESS_TOKEN' in os.environ"
    body = "return self.fc(x) * (2 if SEEN else 1)"
    plain = text_of("SEEN = False", 0, body)
    assert proved(tmp_path, text_of(trick, 0, body), plain).status == "equal"
