"""The new tree: what no edit touches stays the same object, and unsound edits are found."""

import subprocess
import sys
import textwrap
from dataclasses import replace

import libcst
import pytest

from fdl_cli.porter import pipeline
from fdl_cli.porter.emit.apply import patches_of
from fdl_cli.porter.emit.assemble import UnsoundError, assemble
from fdl_cli.porter.emit.soundness import find_faults
from fdl_cli.porter.emit.write import Unsound, Written, write
from fdl_cli.porter.ir.source import Span
from fdl_cli.porter.parse.reader import UnreadableError, read
from fdl_cli.porter.pipeline import draft, understand
from fdl_cli.porter.plan import decide as deciding

SOURCE = """\
#!/usr/bin/env python
# The head.
import torch.nn as nn


class Net(nn.Module):
    '''What it is.'''

    size = 4  # of the layers

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)  # the layer

    # Above.
    def forward(self, x):
        # Inside.
        return self.a(x)  # behind
        # At the end.

    def extra(self):
        return 1
    # Below.

# Outside.
if True:
    class Inner(nn.Module):
        def forward(self, x):
            return x + 1

print("done")
"""


def written(text):
    source, script = understand(text.encode() if isinstance(text, str) else text)
    plan = deciding.decide(script, {})
    made = write(source, script, plan)
    assert isinstance(made, Written)
    return source, made, assemble(source, patches_of(source, script, plan))


def test_untouched_nodes_are_the_same_objects():
    source, made, module = written(SOURCE)
    assert module.code == made.text
    assert "from flodl import FlowModule" in made.text
    old, new = source.module.body, [item for item in module.body if "flodl" not in code(item)]
    assert [one is two for one, two in zip(old, new, strict=True)] == [True, False, False, True]
    before, after = old[1].body.body, new[1].body.body
    same = [one is two for one, two in zip(before, after, strict=True)]
    assert same == [True, True, True, False, True]
    assert after[3].leading_lines is before[3].leading_lines
    assert code(after[3]).strip().startswith("# Above.\ndef flow(self, x)")


def code(node):
    return libcst.Module(body=[]).code_for_node(node)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("last", ["\n", "", "\n\n# end", "\n\x0c\n"])
def test_every_way_to_write_a_file(encoding, newline, last):
    text = f"# -*- coding: {encoding.removesuffix('-sig')} -*-\n{SOURCE.strip()}  # é{last}"
    data = text.replace("\n", newline).encode(encoding)
    source, made, _ = written(data)
    assert source.module.bytes == data
    assert made.data.decode(encoding).replace(newline, "\n") == made.text.replace(newline, "\n")
    assert made.data.count(b"\n") == data.count(b"\n") + 1
    assert made.data.count(b"\r\n") == (made.data.count(b"\n") if newline == "\r\n" else 0)
    assert made.data[-6:] == data[-6:]
    assert made.data[:8] == data[:8]


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("try:\n    import torch.nn as nn\nfinally:\n    pass\n    # of the try\n", 5),
        ("import torch; import torch.nn as nn  # both\n# next\n", 1),
        ("'''Doc.'''\nfrom torch import (\n    nn,  # layers\n)\n\n\n# next\n", 4),
    ],
)
def test_the_import_stands_between_statements(head, expected):
    text = head + "class Net(nn.Module):\n    def forward(self, x):\n        return -x\n"
    lines = written(text)[1].text.splitlines()
    assert lines.index("from flodl import FlowModule") == expected


def edited(change):
    """Change the edits of a plan behind its back."""
    source, script = understand(SOURCE.encode())
    plan = deciding.decide(script, {})
    first = replace(plan.classes[0], edits=tuple(change(edit) for edit in plan.classes[0].edits))
    return source, script, replace(plan, classes=(first, *plan.classes[1:]))


def longer(word):
    def change(edit):
        return replace(edit, word=word) if getattr(edit, "word", "") == "flow" else edit

    return change


@pytest.mark.parametrize(
    ("word", "fault"),
    [
        ("flow(", "not be valid Python"),
        ("flow(self): pass\n    z =", "not be valid Python"),
        ("one(self): pass\n    def two", "become several"),
    ],
)
def test_a_damaged_definition_is_not_written(word, fault):
    made = write(*edited(longer(word)))
    assert isinstance(made, Unsound)
    assert fault in made.fault


def test_a_lost_comment_is_found():
    source, script = understand(SOURCE.encode())
    patches = patches_of(source, script, deciding.decide(script, {}))
    at = SOURCE.index("# Inside.")
    gone = replace(patches[0], start=at, end=at + 9, text="#", before="# Inside.")
    made = assemble(source, (*patches[:1], gone))
    assert find_faults(source, made, made.code, (*patches[:1], gone)) == (
        "a comment would be lost",
    )
    assert find_faults(source, made, made.code, patches[:1]) != ()


def test_text_may_not_cross_a_statement():
    source, script = understand(SOURCE.encode())
    patches = patches_of(source, script, deciding.decide(script, {}))
    start, end = SOURCE.index("import torch"), SOURCE.index("class Net") + 5
    wide = replace(patches[0], start=start, end=end, text="", before=SOURCE[start:end])
    with pytest.raises(UnsoundError, match="cross"):
        assemble(source, (wide,))


def test_a_class_whose_text_would_be_damaged_is_kept(monkeypatch):
    original = deciding._class_edits

    def damaged(model, *rest):
        for edit in original(model, *rest):
            bad = model.facts.name == "Net"
            yield (
                replace(edit, word="flow(")
                if bad and getattr(edit, "word", "") == "flow"
                else edit
            )

    monkeypatch.setattr(deciding, "_class_edits", damaged)
    source, script = understand(SOURCE.encode())
    made = draft(source, script, {})
    net, inner = made.plan.classes
    assert (net.status, [reason.code for reason in net.reasons]) == ("kept", ["FDL209"])
    assert inner.status == "graph"
    assert "class Net(nn.Module)" in made.text
    assert "class Inner(FlowModule)" in made.text


def test_a_damaged_class_among_many_is_found_by_halves(monkeypatch):
    many = "".join(
        f"class N{i}(nn.Module):\n    def forward(self, x):\n        return self.a(x)\n\n\n"
        for i in range(64)
    )
    original, writes = deciding._class_edits, []

    def damaged(model, *rest):
        for edit in original(model, *rest):
            bad = model.facts.name == "N41" and getattr(edit, "word", "") == "flow"
            yield replace(edit, word="flow(") if bad else edit

    def counted(*arguments):
        writes.append(arguments)
        return write(*arguments)

    monkeypatch.setattr(deciding, "_class_edits", damaged)
    monkeypatch.setattr(pipeline, "write", counted)
    source, script = understand(f"import torch.nn as nn\n\n\n{many}".encode())
    made = draft(source, script, {})
    assert [item.name for item in made.plan.classes if item.status == "kept"] == ["N41"]
    assert len(writes) < 20


@pytest.mark.parametrize("data", [b"x = 1\ry = 2\r", b"\x0cx = 1\n"])
def test_what_cannot_be_written_back_is_refused(data):
    with pytest.raises(UnreadableError) as caught:
        read(data)
    assert caught.value.error.id == "source-not-reproducible"
    assert caught.value.error.hint


def test_what_only_libcst_refuses_has_a_line(monkeypatch):
    def refuse(data):
        raise libcst.ParserSyntaxError("no", lines=["x = 1"] * 7, raw_line=7, raw_column=2)

    monkeypatch.setattr(libcst, "parse_module", refuse)
    with pytest.raises(UnreadableError) as caught:
        read(b"x = 1\n")
    assert (caught.value.error.id, caught.value.error.line) == ("source-syntax", 7)
    assert "column 3" in caught.value.error.message


def test_libcst_is_loaded_by_a_port_and_not_by_its_help(tmp_path):
    program = "import sys; from fdl_cli.app import main; main(sys.argv[1:]); print('libcst' in sys.modules)"
    (tmp_path / "net.py").write_text(SOURCE)
    answers = []
    for arguments in (["port", "--help"], ["port", "--no-verify", str(tmp_path / "net.py")]):
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True
        )
        answers.append(done.stdout.split()[-1])
    assert answers == ["False", "True"]


def test_spans_of_the_reader_are_those_of_the_file():
    source, _ = understand(SOURCE.encode())
    at = SOURCE.index("self.a(x)")
    assert source.slice(Span(start=at, end=at + 9, line=18)) == "self.a(x)"
    ends = source.statement_ends
    assert SOURCE[: ends[0]] == "#!/usr/bin/env python\n# The head.\n"
    assert SOURCE[ends[0] : ends[1]] == "import torch.nn as nn\n"
    assert ends[-1] == len(SOURCE)


def test_two_comments_behind_one_step_stay_two(porter):
    method = """
        def forward(self, x):
            x = self.a(
                x
            )  # first
            x = F.relu(  # second
                self.b(x)
            )
            return x
    """
    assert porter.flow(method) == textwrap.dedent("""\
        def flow(self, x):
            return (
                # first
                x.through(self.a)  # second
                .through(self.b)
                .through(F.relu)
            )
    """)


def test_classes_of_one_file_may_be_indented_differently(porter):
    text = (
        "import torch\nfrom torch import nn\n\n\nclass Narrow(nn.Module):\n"
        "  def __init__(self):\n    super().__init__()\n    self.a = nn.Linear(4, 4)\n\n"
        "  def forward(self, x):\n    return self.a(x)\n\n\n"
        "class Wide(nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n        self.a = Narrow()\n\n"
        "    def forward(self, x):\n        return self.a(x)\n"
    )
    expected = text.replace("def forward", "def flow").replace("self.a(x)", "x.through(self.a)")
    expected = expected.replace("(nn.Module)", "(FlowModule)")
    expected = expected.replace("import nn\n", "import nn\nfrom flodl import FlowModule\n")
    assert porter.text(text) == expected
    assert porter.text(expected) == expected
