"""`fdl port` as a command: what it writes, prints and returns for every kind of input."""

import json
import os
import stat

import jsonschema
import pytest

from fdl_cli.app import main
from fdl_cli.porter.library_models import library_models

SOURCE = """\
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)

    def forward(self, x):
        return self.a(x)
"""
KEPT = SOURCE.replace(
    "return self.a(x)", "global last\n        last = x\n        return self.a(x)"
)


@pytest.fixture
def port(tmp_path, capsys, monkeypatch):
    """Run `fdl port --no-verify` in a folder with a model; return code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(SOURCE)

    def run(*arguments):
        code = main(["port", "--no-verify", *map(str, arguments)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    run.folder = tmp_path
    return run


def test_writes_beside_the_source(port):
    code, out, _ = port("model.py")
    assert code == 0
    assert (port.folder / "model.py").read_text() == SOURCE
    made = (port.folder / "model_flodl.py").read_text()
    assert "class Net(FlowModule):" in made
    assert "return x.through(self.a)" in made
    assert "from flodl import FlowModule\n" in made
    assert "model_flodl.py" in out
    assert "1 of 1 operations" in out


def test_never_overwrites_without_force(port):
    target = port.folder / "model_flodl.py"
    target.write_text("mine\n")
    code, _, err = port("model.py")
    assert code == 6
    assert target.read_text() == "mine\n"
    assert "--force" in err
    assert port("model.py", "--force")[0] == 0
    assert "FlowModule" in target.read_text()


def test_a_second_run_is_no_conflict(port):
    assert port("model.py")[0] == 0
    before = (port.folder / "model_flodl.py").stat().st_mtime_ns
    assert port("model.py")[0] == 0
    assert (port.folder / "model_flodl.py").stat().st_mtime_ns == before


def test_output_file_and_folder(port):
    assert port("model.py", "-o", "deep/graph.py")[0] == 0
    assert (port.folder / "deep" / "graph.py").is_file()
    (port.folder / "out").mkdir()
    assert port("model.py", "-o", "out")[0] == 0
    assert (port.folder / "out" / "model.py").is_file()


def test_in_place_keeps_the_mode(port):
    source = port.folder / "model.py"
    source.chmod(0o755)
    assert port("model.py", "--in-place")[0] == 0
    assert "FlowModule" in source.read_text()
    assert stat.S_IMODE(source.stat().st_mode) == 0o755


def test_a_ported_file_is_left_alone(port):
    source = port.folder / "model.py"
    source.write_text(
        source.read_text() + "\n\nclass Below(Net):\n    def forward(self, x):\n        return x\n"
        "\n\nclass Same(Below):\n    pass\n"
    )
    assert port("model.py", "--in-place")[0] == 0
    before = source.read_bytes()
    for option in ("--in-place", "--check", "--strict"):
        code, out, err = port("model.py", option)
        assert code == 0
        assert "already on flodl: nothing to do" in out
        assert err == ""
    assert source.read_bytes() == before
    assert [path.name for path in port.folder.iterdir()] == ["model.py"]
    (file,) = json.loads(port("model.py", "--json")[1])["data"]["files"]
    assert file["on_flodl"] == ["Net", "Below", "Same"]
    assert file["classes"] == []


def test_in_place_and_output_contradict(port):
    code, _, err = port("model.py", "--in-place", "-o", "x.py")
    assert code == 2
    assert "error[port-output-twice]" in err


def test_diff_writes_nothing(port):
    code, out, _ = port("model.py", "--diff")
    assert code == 0
    assert "-    def forward(self, x):" in out
    assert "+    def flow(self, x):" in out
    assert not (port.folder / "model_flodl.py").exists()


def test_check_says_whether_there_is_something(port):
    assert port("model.py", "--check")[0] == 1
    assert not (port.folder / "model_flodl.py").exists()
    port("model.py")
    assert port("model_flodl.py", "--check")[0] == 0


def test_strict_wants_every_class(port):
    assert port("model.py", "--strict", "--diff")[0] == 0
    (port.folder / "kept.py").write_text(SOURCE + KEPT.replace("Net", "Other"))
    code, out, _ = port("kept.py", "--strict")
    assert code == 1
    assert "FDL311" in out
    assert "hint:" in out


def test_kept_class_is_reported_with_its_line(port):
    (port.folder / "kept.py").write_text(KEPT)
    code, out, _ = port("kept.py", "--json")
    assert code == 0
    data = json.loads(out)["data"]["files"][0]
    assert data["output"] is None
    (kept,) = data["classes"]
    assert (kept["name"], kept["line"], kept["status"]) == ("Net", 4, "kept")
    assert kept["reasons"] == [{"line": 10, "code": "FDL311", "message": "a `global` statement"}]
    assert kept["ops_in_graph"] == 0
    assert kept["verify"]["status"] == "not-run"


def test_json_has_every_key(port):
    code, out, _ = port("model.py", "--json")
    assert code == 0
    document = json.loads(out)
    assert document["schema"] == "fdl.port/1"
    assert document["ok"] is True
    (file,) = document["data"]["files"]
    assert {"file", "output", "classes", "training", "warnings", "seconds"} <= set(file)
    (made,) = file["classes"]
    wanted = {"name", "line", "status", "ops_total", "ops_in_graph", "reasons", "verify"}
    assert wanted == set(made)
    assert file["file"] == str(port.folder / "model.py")


def test_json_says_why_nothing_is_proved_as_its_schema_has_it(port):
    (port.folder / "kept.py").write_text(KEPT.replace("Net", "Other") + SOURCE)
    document = json.loads(port("kept.py", "--json")[1])
    schema = json.loads(port("--json-schema")[1])
    jsonschema.validate(document, schema)
    found = {item["name"]: item["verify"] for item in document["data"]["files"][0]["classes"]}
    assert found["Net"] == {"status": "not-run", "detail": "not asked for", "reason": "not-asked"}
    assert found["Other"]["reason"] is None
    assert document["data"]["totals"] == ["2 classes: 1 kept, 1 not verified: not asked"]
    reasons = schema["$defs"]["VerifyFinding"]["properties"]["reason"]
    assert {"time", "no-inputs", "not-asked", "does-not-run"} <= set(
        json.dumps(reasons).split('"')
    )


def test_report_ends_with_its_totals_and_a_diff_does_not(port):
    assert port("model.py")[1].splitlines()[-1] == "1 class: 1 not verified: not asked"
    assert "not verified" not in port("model.py", "--diff")[1]


def test_show_plan(port):
    _, out, _ = port("model.py", "--show-plan", "--diff")
    assert "-    def forward" in out
    _, out, _ = port("model.py", "--show-plan")
    assert "v1 : flow = submodule self.a x" in out
    assert "return x · through self.a" in out


def test_missing_file(port):
    code, _, err = port("nowhere.py")
    assert code == 2
    assert "error[path-missing]" in err
    assert "nowhere.py" in err


def test_syntax_error_names_the_line(port):
    (port.folder / "broken.py").write_text("import torch\n\nclass Net(\n")
    code, _, err = port("broken.py")
    assert code == 2
    assert "broken.py:3" in err
    assert "hint:" in err


def test_python_2_is_recognised(port):
    (port.folder / "old.py").write_text("import torch\nprint 'x'\n")
    code, _, err = port("old.py")
    assert code == 2
    assert "2to3" in err


def test_folder_without_torch(port):
    folder = port.folder / "plain"
    folder.mkdir()
    (folder / "a.py").write_text("x = 1\n")
    code, out, err = port("plain")
    assert code == 0
    assert "warning[nothing-to-port]" in err
    assert "nothing to port" in out
    assert [path.name for path in folder.iterdir()] == ["a.py"]


def test_script_with_a_model_of_a_library_is_told_so(port):
    folder = port.folder / "theirs"
    folder.mkdir()
    (folder / "a.py").write_text(
        "from transformers import AutoModel, AutoTokenizer\n"
        "tokenizer = AutoTokenizer.from_pretrained('x')\n"
        "model = AutoModel.from_pretrained('x')\n"
    )
    code, out, err = port("theirs")
    assert code == 0
    assert "a.py: nothing to port" in out
    assert "warning[nothing-of-yours]" in err
    assert "a.py:3: the model comes from transformers; nothing of yours to port" in err


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import torchvision.models as m\nnet = m.resnet18()", [("torchvision", 2)]),
        ("import torch\nnet = torch.hub.load('a', 'b')", [("torch", 2)]),
        ("from transformers import BertModel as B\nB.from_config(1)", [("transformers", 2)]),
        ("from transformers import BertConfig\nBertConfig.from_pretrained('x')", []),
        ("from mine import Net\nNet()", []),
        ("def from_pretrained(): ...\nfrom_pretrained()", []),
        ("import torch\n(", []),
    ],
)
def test_models_of_libraries_are_recognised(text, expected):
    assert [tuple(each) for each in library_models(text.encode())] == expected


def test_folder_without_python(port):
    (port.folder / "empty").mkdir()
    code, _, err = port("empty")
    assert code == 2
    assert "error[folder-empty]" in err


def test_port_folder_passes_over_pipes_and_dangling_links(port):
    folder = port.folder / "src"
    folder.mkdir()
    (folder / "a.py").write_text(SOURCE)
    os.mkfifo(folder / "pipe.py")
    (folder / "gone.py").symlink_to(folder / "nowhere.py")
    (folder / "loop.py").symlink_to(folder / "loop.py")
    code, out, err = port("src", "-o", "out")
    assert code == 0, out + err
    assert [path.name for path in (port.folder / "out").iterdir()] == ["a.py"]


def test_port_pipe_by_name_is_refused_without_waiting(port):
    os.mkfifo(port.folder / "pipe.py")
    code, _, err = port("pipe.py")
    assert code == 2
    assert "error[folder-empty]" in err


def test_verify_only_pipe_is_refused_without_waiting(port, capsys):
    os.mkfifo(port.folder / "pipe.py")
    assert main(["port", "--verify-only", "pipe.py", "model.py"]) == 2
    assert "error[verify-unreadable]" in capsys.readouterr().err


def test_one_broken_file_does_not_stop_the_others(port):
    folder = port.folder / "src"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.py").write_text("class (\n")
    (folder / "sub" / "b.py").write_text(SOURCE)
    (folder / ".venv").mkdir()
    (folder / ".venv" / "c.py").write_text(SOURCE)
    code, out, err = port("src", "-o", "out")
    assert code == 2
    assert "a.py:1" in out + err
    assert (port.folder / "out" / "sub" / "b.py").is_file()
    assert not (port.folder / "out" / ".venv").exists()


@pytest.mark.parametrize(
    "data",
    [
        SOURCE.replace("\n", "\r\n").encode(),
        SOURCE.replace("    ", "\t").encode(),
        b"\xef\xbb\xbf" + SOURCE.encode(),
        b"# -*- coding: latin-1 -*-\n# caf\xe9\n" + SOURCE.encode(),
        b"from __future__ import annotations\n" + SOURCE.encode(),
        b"try:\n    import torch.nn as nn\nexcept ImportError:\n    nn = None\n"
        + SOURCE.partition("\n")[2].encode(),
        SOURCE.encode().rstrip(b"\n"),
        b"#!/usr/bin/env python\n" + SOURCE.encode(),
        b'"""Doc."""\n' + SOURCE.encode(),
        SOURCE.replace("import torch.nn as nn", "import os; import torch.nn as nn").encode(),
        SOURCE.replace("import torch.nn as nn", "from torch.nn import *\nimport torch.nn as nn").encode(),
        SOURCE.replace("import torch.nn as nn", "import torch\nnn = torch.nn\nModule = nn.Module")
        .replace("(nn.Module)", "(Module)")
        .encode(),
    ],
    ids=["crlf", "tabs", "bom", "latin-1", "future", "try", "no-newline", "shebang", "doc", "semi",
         "star", "alias"],
)  # fmt: skip
def test_layouts_of_files(port, data):
    path = port.folder / "odd.py"
    path.write_bytes(data)
    assert port("odd.py")[0] == 0
    made = (port.folder / "odd_flodl.py").read_bytes()
    assert b"class Net(FlowModule):" in made
    assert made.count(b"\r\n") == (made.count(b"\n") if b"\r\n" in data else 0)
    assert made.startswith(data[:10])
    # Without the added import and our words, the bytes are those of the source.
    lines = [line for line in made.splitlines() if line != b"from flodl import FlowModule"]
    back = (
        b"\n".join(lines).replace(b"FlowModule", b"nn.Module").replace(b"def flow", b"def forward")
    )
    back = back.replace(b"x.through(self.a)", b"self.a(x)").replace(b"(nn.Module)", b"(BASE)")
    source = data.replace(b"(nn.Module)", b"(BASE)").replace(b"(Module)", b"(BASE)")
    assert back.split() == source.split()
    compile(made, "odd_flodl.py", "exec")


def test_undecodable_bytes(port):
    (port.folder / "odd.py").write_bytes(b"# caf\xe9\nimport torch\n")
    code, _, err = port("odd.py")
    assert code == 2
    assert "error[encoding-unreadable]" in err


def test_files_that_are_no_python_are_named_when_a_folder_is_ported(port):
    folder = port.folder / "pkg"
    (folder / "data").mkdir(parents=True)
    (folder / "net.py").write_text("import torch\n")
    for name in ("data/vocab.json", "data/a.txt", "b.yml", "c.bin", ".hidden"):
        (folder / name).write_text("x")
    _, _, err = port("pkg", "-o", "out", "--no-verify")
    assert "warning[files-left-out]" in err
    assert "4 files that are no Python were not copied: b.yml, c.bin, data/a.txt and 1 more" in err
    _, _, err = port("pkg", "--diff", "--no-verify")
    assert "files-left-out" not in err
