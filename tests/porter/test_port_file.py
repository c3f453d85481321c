"""What verification says decides: classes that differ are put back, the rest is proved again."""

from pathlib import Path

import pytest

from fdl_cli.porter.ir.evidence import VerifyOutcome
from fdl_cli.porter.port_file import port_file
from fdl_cli.porter.port_loop import Proving
from flodl_verify.protocol import ClassEvidence

SOURCE = """\
import torch.nn as nn


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)

    def forward(self, x):
        return self.a(x)


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def forward(self, x):
        return self.inner(x) + x


class Alone(nn.Module):
    def forward(self, x):
        return x * 2
"""


class Verifier:
    """Answers as told, and remembers what it was asked."""

    def __init__(self, folder, **answers):
        self.folder = folder
        self.answers = answers
        self.requests = []
        self.texts = []
        self.error = None
        self.source_runs = True

    def __call__(self, request):
        self.requests.append(request)
        self.texts.append(request.ported.read_text())
        classes = tuple(
            ClassEvidence(
                name=name,
                status=self.answers.get(name, "equal")
                if f"class {name}(FlowModule)" in self.texts[-1]
                else "equal",
                detail="output differs\nby 1.0",
                checks=(),
                example="as given",
                error_code="port-raises" if name == "Alone" else None,
                line=None,
            )
            for name in request.classes
        )
        return VerifyOutcome(
            classes=classes, source_runs=self.source_runs, error=self.error, seconds=0.1
        )

    def port(self):
        proving = Proving(
            verify=self,
            workdir=self.folder,
            examples=("Net(): 1",),
            python="python3",
            timeout_s=9.0,
            search_path=(),
        )
        outcome, made = port_file(SOURCE.encode(), Path("model.py"), proving)
        return {item.name: item for item in outcome.classes}, outcome, made.decode()


def test_equal_classes_stay(tmp_path):
    verifier = Verifier(tmp_path)
    classes, outcome, made = verifier.port()
    assert {item.verify.status for item in classes.values()} == {"equal"}
    assert outcome.status == "ported"
    assert made == verifier.texts[0]
    (request,) = verifier.requests
    assert request.classes == ("Inner", "Outer", "Alone")
    assert request.examples == ("Net(): 1",)


def test_a_different_class_is_kept_and_the_rest_proved_again(tmp_path):
    verifier = Verifier(tmp_path, Alone="different")
    classes, outcome, made = verifier.port()
    assert outcome.status == "partly"
    assert classes["Alone"].status == "kept"
    (reason,) = classes["Alone"].reasons
    assert (reason.code, reason.line) == ("FDL322", 22)
    assert "output differs by 1.0" in reason.message
    assert "class Alone(nn.Module):\n    def forward(self, x):\n        return x * 2\n" in made
    assert classes["Outer"].verify.status == "equal"
    # Neither of the others reaches it: what was shown of them holds.
    assert [request.classes for request in verifier.requests] == [("Inner", "Outer", "Alone")]


def test_the_inner_class_is_blamed_first(tmp_path):
    verifier = Verifier(tmp_path, Inner="different", Outer="different")
    classes, _, _ = verifier.port()
    # Alone was shown once and for all.
    assert [request.classes for request in verifier.requests] == [
        ("Inner", "Outer", "Alone"), ("Outer",),
    ]  # fmt: skip
    # In the second round only Inner was put back; Outer still differed by itself.
    assert "class Outer(FlowModule)" in verifier.texts[1]
    assert "class Inner(nn.Module)" in verifier.texts[1]
    assert classes["Inner"].reasons[0].code == "FDL321"
    assert classes["Outer"].status == "kept"
    assert classes["Alone"].verify.status == "equal"


@pytest.mark.parametrize(
    ("runs", "warning"), [(False, "source-does-not-run"), (True, "not-verified")]
)
def test_what_was_not_verified_is_said(tmp_path, runs, warning):
    verifier = Verifier(tmp_path, Inner="not-run", Outer="not-run", Alone="not-run")
    verifier.error, verifier.source_runs = "ModuleNotFoundError: nope", runs
    classes, outcome, _ = verifier.port()
    assert [item.id for item in outcome.warnings] == [warning]
    assert "nope" in outcome.warnings[0].message
    assert {item.verify.status for item in classes.values()} == {"not-run"}
    assert {item.status for item in classes.values()} == {"graph"}


def test_a_class_that_is_given_lists_is_written_with_call(tmp_path):
    class Lists(Verifier):
        def __call__(self, request):
            outcome = super().__call__(request)
            if "x.through(self.a)" not in self.texts[-1]:
                return outcome
            first = ClassEvidence(
                name="Inner",
                status="different",
                detail="whatever it says",
                checks=(),
                example="",
                error_code="port-asks-plain-value",
                line=None,
            )
            return VerifyOutcome(
                classes=(first, *outcome.classes[1:]), source_runs=True, error=None, seconds=0.1
            )

    classes, outcome, made = Lists(tmp_path).port()
    assert outcome.status == "ported"
    assert "return call(self.a, x)" in made
    assert "return x.through(self.inner) + x" in made
    assert classes["Inner"].verify.status == "equal"


@pytest.mark.parametrize(
    "expression", ["(" * 150 + "x" + ")" * 150, "-" * 900 + "x", "x" + ".t()" * 4000]
)
def test_deep_expressions_have_an_outcome(expression):
    text = SOURCE.replace("return x * 2", f"return {expression}")
    outcome, made = port_file(text.encode(), Path("deep.py"), None)
    assert outcome.status in {"ported", "failed"}
    if outcome.error is not None:
        assert made == text.encode()
        assert outcome.error.hint


def test_nothing_is_verified_unless_asked():
    outcome, _ = port_file(SOURCE.encode(), Path("model.py"), None)
    assert {item.verify.detail for item in outcome.classes} == {"not asked for"}
