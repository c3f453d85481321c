"""The report as a page, the explanations of codes, and the plan that changes nothing."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from fdl_cli.app import main
from fdl_cli.porter.ir.findings import (
    ClassOutcome,
    FileError,
    FileOutcome,
    FileWarning,
    Reason,
    ScriptFinding,
    TrainingFinding,
    VerifyFinding,
)
from fdl_cli.porter.knowledge.reasons import REASONS, RETIRED, SCOPES
from fdl_cli.porter.report.markdown import markdown
from fdl_cli.porter.report.page import page
from fdl_cli.porter.report.proofs import hints, totals
from fdl_cli.porter.report.summary import summary_lines
from flodl_verify.protocol import CheckEvidence, ClassEvidence

SOURCE = """\
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)

    def forward(self, x):
        return self.a(x)  # <b> & "quotes"
"""
VOID = {"meta", "br", "input", "col"}


class Structure(HTMLParser):
    """Checks that what is opened is closed, and collects what is loaded from elsewhere."""

    def __init__(self):
        super().__init__()
        self.open = []
        self.loaded = []

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)
        self.loaded += [
            value for key, value in attrs if key in {"src", "href"} and value[0] != "#"
        ]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def outcome(**changes):
    names = ("Net", "Kept")
    fields = {
        "status": "partly",
        "text": SOURCE.replace("forward", "flow"),
        "source": SOURCE,
        "classes": (
            ClassOutcome(name="Net", line=4, status="graph", ops_total=2, ops_in_graph=2, reasons=(),
                         verify=VerifyFinding(status="equal", detail="Net()")),
            ClassOutcome(name="Kept", line=9, status="kept", ops_total=1, ops_in_graph=0,
                         reasons=(Reason(line=11, code="FDL305", message="a <generator>"),),
                         verify=VerifyFinding(status="not-run", detail="kept as it was")),
        ),
        "on_flodl": ("Old",),
        "training": (TrainingFinding(kind="loss", line=30, action="kept", name="torch.nn.MSELoss"),),
        "warnings": (FileWarning(id="w", message="be warned", hint="do it"),),
        "error": None,
        "plan": "",
        "ir": "",
        "script": ScriptFinding(status="equal", detail="3 steps", steps=3,
                                losses=(3.0, 2.0, float("nan"), 1.0), source_runs=True),
        "evidence": tuple(
            ClassEvidence(name=name, status="equal", detail="", example="", error_code=None, line=None,
                          checks=(CheckEvidence(name="gradients", status="equal", detail=""),),
                          drawing="<svg><g></g></svg>")
            for name in names
        ),
    }  # fmt: skip
    return FileOutcome(**{**fields, **changes})


BROKEN = FileError(id="x", message="not <Python>", hint="write Python", line=3)


def test_the_page_is_sound_and_complete():
    text = page([
        ("net.py", "net_flodl.py", outcome()),
        ("same.py", None, outcome(status="unchanged", text=SOURCE, classes=(), script=None)),
        ("broken.py", None, outcome(status="failed", classes=(), error=BROKEN)),
    ])  # fmt: skip
    structure = Structure()
    structure.feed(text)
    assert structure.open == []
    assert structure.loaded == []
    for wanted in (
        "<b>2</b> classes", "<b>1</b> proved equal", "FDL305", "a &lt;generator&gt;",
        REASONS["FDL305"].advice, "<svg><g></g></svg>", "1 of 1 checks equal", "<polyline",
        "torch.nn.MSELoss", "be warned", "not &lt;Python&gt; (line 3)", "Old",
        '# &lt;b&gt; &amp; "quotes"', 'class="plus"', 'class="minus"', "Next steps",
    ):  # fmt: skip
        assert wanted in text, wanted
    assert "<generator>" not in text
    assert "nan" not in re.sub(r"<[^>]*>", "", text)


def test_long_equal_parts_are_folded():
    before = "\n".join(f"line {number}" for number in range(100))
    text = page([("a.py", "b.py", outcome(source=before, text=before.replace("line 50", "new")))])
    assert "47 lines as they were" in text
    folded = re.findall(r'<tbody class="rest" hidden>(.*?)</tbody>', text, re.DOTALL)
    plain = [re.sub(r"<[^>]*>", "", each) for each in folded]
    assert [each.count("line ") for each in plain] == [2 * 47, 2 * 46]
    assert "line 20" in plain[0]
    assert "line 49" not in "".join(plain)


@pytest.fixture
def port(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(SOURCE)

    def run(*arguments):
        code = main(["port", *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    run.folder = tmp_path
    return run


def test_html_is_written_beside_the_port(port):
    assert port("model.py", "--no-verify", "--html", "out/report.html")[0] == 0
    assert (port.folder / "model_flodl.py").is_file()
    assert "model_flodl.py" in (port.folder / "out" / "report.html").read_text()
    # With --diff nothing but the report is written.
    assert port("model.py", "--no-verify", "--diff", "--html", "again.html")[0] == 0
    assert (port.folder / "again.html").is_file()


def test_every_code_is_explained(port):
    code, out, _ = port("--explain", "all")
    assert code == 0
    for name, reason in REASONS.items():
        assert f"{name}  {reason.title}" in out
        assert name[:4] in SCOPES
    code, out, _ = port("--explain", "fdl305", "--json")
    (found,) = json.loads(out)["data"]["explanations"]
    assert found["code"] == "FDL305"
    assert found["advice"] == REASONS["FDL305"].advice
    code, _, err = port("--explain", "FDL999")
    assert code == 4
    assert "--explain all" in err


def test_retired_code_is_explained_with_its_version_and_used_by_no_reason(port):
    assert RETIRED.keys().isdisjoint(REASONS)
    for name in RETIRED:
        code, out, _ = port("--explain", name)
        assert code == 0
        assert f"{name}  {RETIRED[name].title}" in out
        assert re.search(r"since \d+\.\d+\.\d+", out)
        assert "retired" in out
    assert not any(name in port("--explain", "all")[1] for name in RETIRED)


def test_nothing_to_port_is_a_usage_error(port):
    code, _, err = port()
    assert code == 2
    assert "error[missing-argument]" in err


def test_a_dry_run_says_what_would_change(port):
    code, out, err = port("model.py", "--dry-run")
    assert code == 0
    assert "model_flodl.py (not written)" in out
    assert "graph" in out
    assert err == ""
    assert [path.name for path in port.folder.iterdir()] == ["model.py"]
    data = json.loads(port("model.py", "--dry-run", "--json")[1])["data"]["files"][0]
    assert data["output"].endswith("model_flodl.py")


@pytest.mark.slow
@pytest.mark.torch
def test_the_page_of_a_real_port_has_pictures(port):
    assert port("model.py", "--html", "report.html")[0] == 0
    text = (port.folder / "report.html").read_text()
    assert "<svg" in text
    assert "proved equal" in text
    structure = Structure()
    structure.feed(text)
    assert not [item for item in structure.loaded if item.startswith("http")]


def unproved(reason, count, first=0, **changes):
    return tuple(
        ClassOutcome(
            name=f"Net{number}", line=4, status="graph", ops_total=2, ops_in_graph=2, reasons=(),
            verify=VerifyFinding(status="not-run", detail="not reached within 10 s", reason=reason),
            **changes,
        )
        for number in range(first, first + count)
    )  # fmt: skip


def proved(count):
    return tuple(
        replace(item, verify=VerifyFinding(status="equal", detail=""))
        for item in unproved("time", count, 100)
    )


def test_totals_one_reason_names_it_with_its_cure():
    classes = (*proved(2), *unproved("time", 15))
    assert totals(classes, 200) == "17 classes: 2 proved, 15 not verified: time (--timeout 200)"
    assert totals(unproved("not-asked", 2), None) == "2 classes: 2 not verified: not asked"
    assert totals(unproved("no-inputs", 1), None) == (
        "1 class: 1 not verified: no inputs (--example)"
    )


def test_totals_several_reasons_are_counted_one_by_one():
    classes = (*proved(158), *unproved("time", 1), *unproved("no-inputs", 1))
    assert totals(classes, 200) == (
        "160 classes: 158 proved, 2 not verified (1 no inputs: `--example`, 1 time: `--timeout 200`)"
    )


def test_totals_base_without_forward_is_no_gap():
    (kept,) = (item for item in outcome().classes if item.status == "kept")
    classes = (*proved(3), kept, *unproved(None, 1))
    assert totals(classes, None) == "5 classes: 3 proved, 1 kept, 1 without a forward"


def test_summary_unverified_graph_says_so_in_its_state():
    late = outcome(classes=(*proved(1), *unproved("time", 1)), training=(), script=None)
    lines = list(summary_lines("net.py", late, "out.py"))
    assert lines == [
        "net.py -> out.py",
        "  graph                       Net100  2 of 2 operations, equal",
        "  graph, not verified (time)  Net0    2 of 2 operations (not reached within 10 s)",
    ]


def test_report_graph_without_a_proof_wanted_says_so_once():
    (item,) = unproved("not-asked", 1)
    item = replace(item, verify=replace(item.verify, detail="not asked for"))
    plain = outcome(classes=(item,), training=(), script=None)
    _, line = summary_lines("net.py", plain, "out.py")
    assert line == "  graph, not verified (not asked)  Net0  2 of 2 operations"
    text = page([("net.py", None, plain)])
    assert "not verified (not asked)" in text
    assert "not asked for" not in text


def test_page_unverified_graph_says_why_and_what_to_type():
    classes = (*unproved("time", 1), *unproved("no-inputs", 1, 1), *unproved(None, 1, 2))
    text = page([("net.py", None, outcome(classes=classes, sufficient_timeout=150))])
    assert "not verified (time)" in text
    assert "not verified (no inputs)" in text
    assert "<code>--timeout 150</code>" in text
    assert "--example &quot;Net1(...): torch.randn(...)&quot;" in text
    assert "--example &quot;Net0" not in text
    assert "without a forward" in text
    assert "<b>2</b> not verified" in text


def test_markdown_unverified_graph_says_why_unless_no_proof_was_wanted():
    text = markdown(outcome(classes=unproved("time", 2), sufficient_timeout=150))
    assert "| Net0 | 4 | graph, not verified (time) | 2 of 2 |" in text
    assert "2 classes: 2 not verified: time (--timeout 150)." in text
    text = markdown(outcome(classes=unproved("not-asked", 1)))
    assert "| Net0 | 4 | graph | 2 of 2 |" in text


def test_hints_name_the_time_and_the_example_of_the_first_class():
    classes = (*unproved("time", 2), *unproved("no-inputs", 1, 7))
    late, missing = hints(classes, 150)
    assert late.startswith("add `--timeout 150`, or")
    assert '`--example "Net0(...): torch.randn(...)"`' in late
    assert missing == 'say how a class is called: `--example "Net7(...): torch.randn(...)"`'
