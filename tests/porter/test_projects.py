"""Whole folders: bases in other files, what is written, and what a kill or a dirty tree leaves."""

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from fdl_cli.app import main
from fdl_cli.porter.project import Project
from fdl_cli.system.transaction import PENDING

BASE = """
    import torch.nn as nn

    class Root(nn.Module):
        def count(self):
            return len(list(self.parameters()))

    class Base(Root):
        def __init__(self, dim):
            super().__init__()
            self.enc = nn.Linear(dim, dim)

        def encode(self, x):
            x = self.enc(x)
            return x.relu()
    """
BLOCKS = """
    import torch
    from torch import nn

    class Pre(nn.Module):
        def __init__(self, d):
            super().__init__()
            self.l = nn.Linear(d, d)

        def forward(self, x):
            return self.mid(self.l(x))

        def mid(self, x):
            return x

    class Odd(nn.Module):
        def forward(self, x):
            global SEEN
            SEEN = x
            return x
    """
MODEL = """
    import torch
    from torch import nn
    from . import Base, Pre as Stem
    from .blocks import *
    import net.base as nb

    class Block(Stem):
        def mid(self, x):
            return torch.tanh(self.l(x)) + x

    class Model(Base):
        def __init__(self, dim=8):
            super().__init__(dim)
            self.block = Block(dim)
            self.out = nn.Linear(dim, 2)

        def forward(self, x):
            h = self.encode(x)
            h = h + self.block(h)
            return self.out(h)

    class Deep(nb.Base):
        def forward(self, x):
            return self.enc(x)

    class Below(Odd):
        pass

    class Worse(Odd):
        def forward(self, x):
            return super().forward(x) + 1
    """
INIT = """
    from .base import Base
    from .blocks import *
    """
FILES = {
    "net/__init__.py": INIT,
    "net/base.py": BASE,
    "net/blocks.py": BLOCKS,
    "net/model.py": MODEL,
    "data.py": "SIZE = 3\n",
}


def write(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "src", FILES)
    return tmp_path


def statuses(files):
    project = Project(
        {Path("/p") / name: textwrap.dedent(text).encode() for name, text in files.items()}
    )
    return {
        item.name: (item.status, [reason.code for reason in item.reasons])
        for name in files
        for item in project.draft(Path("/p") / name).plan.classes
    }


def test_bases_in_other_files_become_graphs_with_their_heirs():
    found = statuses(FILES)
    assert {name: status for name, (status, _) in found.items()} == {
        "Root": "graph", "Base": "graph", "Pre": "graph", "Odd": "kept", "Block": "graph",
        "Model": "graph", "Deep": "graph", "Below": "kept", "Worse": "kept",
    }  # fmt: skip
    assert found["Odd"][1] == ["FDL311"]
    assert found["Worse"][1] == ["FDL204"]


def test_what_a_foreign_forward_reaches_is_written_as_a_flow():
    files = {Path("/p") / name: textwrap.dedent(text).encode() for name, text in FILES.items()}
    project = Project(files)
    assert "    @subflow\n    def encode(self, x):" in project.draft(Path("/p/net/base.py")).text
    model = project.draft(Path("/p/net/model.py")).text
    assert "return self.encode(x).also(self.block).through(self.out)" in model
    assert (
        "    @subflow\n    def mid(self, x):\n        return x.through(self.l).through(torch.tanh) + x"
        in model
    )
    assert "class Model(Base):" in model
    for path in files:
        again = Project({p: project.draft(p).data for p in files})
        assert again.draft(path).text == project.draft(path).text


def test_a_demoted_base_keeps_its_heirs_everywhere():
    from fdl_cli.porter.ir.findings import Reason

    files = {Path("/p") / name: textwrap.dedent(text).encode() for name, text in FILES.items()}
    project = Project(files)
    before = project.draft(Path("/p/net/model.py")).text
    reason = Reason(line=3, code="FDL321", message="differs")
    project.demote(Path("/p/net/base.py"), {"Base": reason})
    plan = {item.name: item for item in project.draft(Path("/p/net/model.py")).plan.classes}
    assert plan["Model"].status == "kept"
    assert [reason.code for reason in plan["Model"].reasons] == ["FDL204"]
    assert plan["Block"].status == "graph"
    assert before != project.draft(Path("/p/net/model.py")).text
    # Without an heir that is a graph, the base above has nothing to describe.
    root = {item.name: item for item in project.draft(Path("/p/net/base.py")).plan.classes}["Root"]
    assert [reason.code for reason in root.reasons] == ["FDL201"]


@pytest.mark.parametrize(
    ("files", "wanted"),
    [
        ({"a.py": "from b import X\nclass Y(X):\n    def forward(self, x):\n        return x\n",
          "b.py": "from a import X\n"}, ("kept", ["FDL203"])),
        ({"a.py": "from gone import X\nclass Y(X):\n    def forward(self, x):\n        return x\n"},
         ("kept", ["FDL203"])),
        ({"a.py": "from b import X\nclass Y(X):\n    def forward(self, x):\n        return x\n",
          "b.py": "from torch import nn\nclass X(nn.Module):\n    pass\n"}, ("graph", [])),
        ({"pkg/m.py": "from lib.b import *\nclass Y(X):\n    def forward(self, x):\n        return x\n",
          "lib/b.py": "from torch import nn\nclass X(nn.Module, metaclass=M):\n    pass\n"},
         ("kept", ["FDL204"])),
        ({"pkg/m.py": "from ..lib import b\nclass Y(b.X):\n    def forward(self, x):\n        return x\n",
          "lib/b.py": "from flodl import FlowModule\nclass X(FlowModule):\n    pass\n"},
         ("graph", [])),
        ({"a.py": "from b import X\nclass Y(X):\n    def forward(self, x):\n        return x\n",
          "b.py": "class X(:\n"}, ("kept", ["FDL203"])),
        # The full name of a package that is known: it is the project itself.
        ({"torchvision/models/q.py": "from torchvision.models import b\nclass Y(b.X):\n    pass\n",
          "torchvision/models/__init__.py": "",
          "torchvision/__init__.py": "",
          "torchvision/models/b.py": "from torch import nn\nclass X(nn.Module):\n"
          "    def forward(self, x):\n        return x + 1\n"}, ("graph", [])),
    ],
    ids=["circle", "unknown", "plain", "metaclass", "ported", "broken", "itself"],
)  # fmt: skip
def test_kinds_of_bases(files, wanted):
    names = {Path("/p") / name: text.encode() for name, text in files.items()}
    project = Project(names)
    first = project.draft(next(iter(names)))
    found = {item.name: item for item in first.plan.classes}["Y"]
    assert (found.status, [reason.code for reason in found.reasons]) == wanted


def test_a_mixin_of_another_file_brings_no_flow():
    files = {
        "a.py": "from torch import nn\nfrom b import Wide\n"
        "class Chain(nn.Sequential, Wide):\n    def forward(self, x):\n        return self[0](x)\n",
        "b.py": "class Wide:\n    width = 3\n",
    }
    project = Project({Path("/p") / name: text.encode() for name, text in files.items()})
    assert "class Chain(nn.Sequential, FlowModule, Wide):" in project.draft(Path("/p/a.py")).text


@pytest.mark.parametrize(
    ("imported", "called"),
    [
        ("import pkg.helpers as h", "h.coin"),
        ("import pkg.helpers", "pkg.helpers.coin"),
        ("from pkg import helpers", "helpers.coin"),
        ("from pkg import coin", "coin"),
        ("from pkg.helpers import *", "coin"),
        ("from pkg.helpers import coin as c", "c"),
    ],
)
def test_a_helper_of_another_file_that_draws_is_a_step(imported, called):
    files = {
        "pkg/__init__.py": "from .helpers import coin\n",
        "pkg/helpers.py": "import random\ndef coin():\n    return random.random() < 0.5\n",
        "net.py": f"from torch import nn\n{imported}\nclass Net(nn.Module):\n"
        f"    def forward(self, x):\n        if {called}():\n            x = x + 1\n        return x\n",
    }
    project = Project({Path("/p") / name: text.encode() for name, text in files.items()})
    assert f"if call({called}):" in project.draft(Path("/p/net.py")).text


def test_a_folder_is_written_as_a_whole(project, capsys):
    assert main(["port", "--no-verify", "src", "-o", "out", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)["data"]["files"]
    assert {
        path.relative_to(project / "out").as_posix() for path in (project / "out").rglob("*.py")
    } == set(FILES)
    assert (project / "out" / "data.py").read_text() == "SIZE = 3\n"
    unchanged = next(item for item in data if item["file"].endswith("data.py"))
    assert unchanged["output"] is None
    assert not list(project.rglob(f"{PENDING}*"))
    # The same again is no conflict; something else in the way is, and then nothing is written.
    assert main(["port", "--no-verify", "src", "-o", "out"]) == 0
    (project / "out" / "net" / "base.py").write_text("mine\n")
    (project / "out" / "data.py").unlink()
    assert main(["port", "--no-verify", "src", "-o", "out"]) == 6
    assert not (project / "out" / "data.py").exists()


def test_beside_the_sources_a_base_elsewhere_stays_as_it_is(project, capsys):
    assert main(["port", "--no-verify", "src", "--json"]) == 0
    files = json.loads(capsys.readouterr().out)["data"]["files"]
    found = {item["name"]: item for file in files for item in file["classes"]}
    assert found["Model"]["status"] == found["Pre"]["status"] == "graph"
    assert found["Base"]["reasons"][0]["code"] == "FDL201"
    written = (project / "src" / "net" / "model_flodl.py").read_text()
    assert "class Model(Base, FlowModule):" in written
    assert (project / "src" / "net" / "blocks_flodl.py").is_file()


@pytest.mark.slow
@pytest.mark.torch
def test_a_package_is_proved_with_its_ported_neighbours(project, capsys):
    assert main(["port", "src", "-o", "out", "--json"]) == 0
    files = json.loads(capsys.readouterr().out)["data"]["files"]
    found = {item["name"]: item for file in files for item in file["classes"]}
    for name in ("Pre", "Block", "Model", "Deep"):
        assert found[name]["verify"]["status"] == "equal", found[name]
    code = "import torch\nfrom net.model import Model\n"
    code += "print(Model()(torch.ones(2, 8)).shape, type(Model()).__mro__)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=project / "out", check=True, capture_output=True, text=True,
        env={"PYTHONPATH": str(Path(__file__).parents[2])},
    )  # fmt: skip
    assert "FlowModule" in done.stdout


def git(folder, *words):
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=folder, check=True,
                   capture_output=True)  # fmt: skip


def test_in_place_needs_a_clean_tree(project, capsys):
    source = project / "src"
    git(project, "init", "-q")
    # Nothing is committed yet: git could not bring these files back.
    assert main(["port", "--no-verify", "src", "--in-place"]) == 6
    git(project, "add", ".")
    git(project, "commit", "-qm", "x")
    (source / "data.py").write_text("SIZE = 4\n")
    assert main(["port", "--no-verify", "src", "--in-place"]) == 6
    err = capsys.readouterr().err
    assert "error[git-not-clean]" in err
    assert "data.py" in err
    assert "FlowModule" not in (source / "net" / "base.py").read_text()
    assert main(["port", "--no-verify", "src", "--in-place", "--diff"]) == 0
    assert main(["port", "--no-verify", "src", "--in-place", "--force"]) == 0
    assert "FlowModule" in (source / "net" / "base.py").read_text()
    # What is ported needs no clean tree to be left alone.
    assert main(["port", "--no-verify", "src", "--in-place"]) == 0


def test_untracked_data_does_not_stop_in_place(project):
    git(project, "init", "-q")
    git(project, "add", ".")
    git(project, "commit", "-qm", "x")
    (project / "weights.bin").write_bytes(b"1")
    assert main(["port", "--no-verify", "src", "--in-place"]) == 0


KILLING = """
import os, sys
from pathlib import Path
number = int(sys.argv[1])
steps = 0
def hook(event, arguments):
    global steps
    watched = ("os.rename", "os.mkdir", "open", "os.remove", "shutil.rmtree")
    if event in watched and "out" in str(arguments[0]):
        steps += 1
        if steps == number:
            os.kill(os.getpid(), 9)
from fdl_cli.app import main
sys.addaudithook(hook)
sys.exit(main(["port", "--no-verify", "src", "-o", "out"]))
"""


@pytest.mark.slow
def test_killed_anywhere_it_leaves_nothing_or_everything(project):
    (project / "out").mkdir()
    assert main(["port", "--no-verify", "src", "-o", "whole"]) == 0
    whole = {
        p.relative_to(project / "whole"): p.read_bytes() for p in (project / "whole").rglob("*.py")
    }
    kills = 0
    for number in (*range(1, 30, 4), 400):
        done = subprocess.run(
            [sys.executable, "-c", KILLING, str(number)], cwd=project, capture_output=True,
            env={"PYTHONPATH": str(Path(__file__).parents[2]), "HOME": str(project)}, check=False,
        )  # fmt: skip
        kills += done.returncode == -9
        pending = (project / "out" / PENDING / "journal.json").is_file()
        seen = {
            p.relative_to(project / "out"): p.read_bytes()
            for p in (project / "out").rglob("*.py")
            if not p.relative_to(project / "out").parts[0].startswith(PENDING)
        }
        assert pending or seen in ({}, whole), number
        if pending:
            # What was decided is finished by whatever `fdl port` comes next.
            main(["port", "--no-verify", "src", "-o", "out", "--check"])
            assert (project / "out" / "net" / "base.py").read_bytes() == whole[Path("net/base.py")]
            assert not (project / "out" / PENDING).exists()
        for path in list(seen):
            (project / "out" / path).unlink()
        for path in (project / "out").rglob("*.py"):
            path.unlink()
    assert kills >= 5


@pytest.mark.slow
def test_what_several_files_lack_is_said_once(tmp_path, capsys):
    layer = """
        import nobody_has_this_package as lib
        from torch import nn

        class {name}(nn.Module):
            size = lib.SIZE

            def forward(self, x):
                return x.relu() + self.size
        """
    for name in ("One", "Two", "Three"):
        text = textwrap.dedent(layer.format(name=name))
        (tmp_path / f"{name.lower()}.py").write_text(text)
    ported = str(tmp_path / "ported")
    main(["port", str(tmp_path), "-o", ported, "--json", "--timeout", "60"])
    warnings = json.loads(capsys.readouterr().out)["warnings"]
    (missing,) = [item for item in warnings if "nobody_has_this" in item["message"]]
    assert "one.py and 2 other files" in missing["message"]
