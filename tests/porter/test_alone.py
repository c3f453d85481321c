"""One file of a package: it sees its package as a port of the whole folder does, and changes none of it."""

import json
import textwrap
from pathlib import Path

import pytest

from fdl_cli.app import main
from fdl_cli.porter import project as project_module
from fdl_cli.porter.project import Project
from tests.porter.test_projects import FILES, write

PARTS = """
import torch
import torch.nn as nn
import torch.nn.functional as F

class Base(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.width = width

    def act(self, x):
        return F.relu(x)

class Block(Base):
    def __init__(self, width=4):
        super().__init__(width)
        self.lin = nn.Linear(width, width)

    def forward(self, x):
        return self.act(self.lin(x)) + x
"""
MODEL = """
class Net(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.block = Block(width)
        self.head = nn.Linear(width, 2)

    def forward(self, x):
        return self.head(F.gelu(self.block(x)))

class Sub(Base):
    def __init__(self, width=4):
        super().__init__(width)
        self.head = nn.Linear(width, 2)

    def forward(self, x):
        return self.head(self.act(x))

class Below(Sub):
    def forward(self, x):
        return torch.tanh(super().forward(x))
"""
USUAL = "import torch\nfrom torch import nn\nimport torch.nn.functional as F\n"
# How the model may come to know torch, `Base` and `Block`.
IMPORTS = {
    "star": "from .parts import *\n",
    "star of a star": "from .more import *\n",
    "absolute star": "from pkg.parts import *\n",
    "names": f"{USUAL}from .parts import Base, Block\n",
    "through the package": f"{USUAL}from . import Base, Block\n",
    "through the package by name": f"{USUAL}from pkg import Base, Block\n",
    "from a deeper package": f"{USUAL}from .deep.again import Base, Block\n",
}
PACKAGE = {
    "pyproject.toml": "",
    "pkg/__init__.py": "from .parts import Base, Block\n",
    "pkg/parts.py": PARTS,
    "pkg/more.py": "from .parts import *\n",
    "pkg/deep/__init__.py": "",
    "pkg/deep/again.py": "from ..parts import Base\nfrom pkg.parts import Block\n",
    "pkg/broken.py": "class X(:\n",
}


def contents(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*.py"))}


def alone(file):
    return Project({file: file.read_bytes()}, linked=False).draft(file)


def statuses(draft):
    return {item.name: (item.status, item.ops_in_graph) for item in draft.plan.classes}


@pytest.mark.parametrize("how", IMPORTS)
def test_file_alone_is_ported_as_in_its_folder(tmp_path, how):
    model = tmp_path / "pkg" / "model.py"
    write(tmp_path, {**PACKAGE, "pkg/model.py": f"{IMPORTS[how]}from .broken import X\n{MODEL}"})
    before = contents(tmp_path)
    made = alone(model)
    whole = Project(before, linked=True).draft(model)
    assert statuses(made) == statuses(whole)
    assert {status for status, _ in statuses(made).values()} == {"graph"}
    assert "class Net(FlowModule):" in made.text
    # The base stays as it is, so that the class brings what the port of the folder gives the base.
    assert made.text.replace("class Sub(Base, FlowModule):", "class Sub(Base):") == whole.text
    assert "class Below(Sub):" in made.text
    assert contents(tmp_path) == before


def test_several_files_beside_their_sources_see_each_other(tmp_path):
    write(tmp_path, {**PACKAGE, "pkg/model.py": f"{IMPORTS['star']}{MODEL}"})
    project = Project(contents(tmp_path), linked=False)
    model = tmp_path / "pkg" / "model.py"
    assert project.draft(model).text == alone(model).text
    parts = tmp_path / "pkg" / "parts.py"
    assert project.draft(parts).text == alone(parts).text


def test_a_folder_sees_the_bases_outside_of_it(tmp_path):
    write(
        tmp_path,
        {
            **PACKAGE,
            "pkg/nets/__init__.py": "",
            "pkg/nets/model.py": f"from ..parts import *\n{MODEL}",
        },
    )
    nets = contents(tmp_path / "pkg" / "nets")
    project = Project(nets, linked=True)
    assert "class Sub(Base, FlowModule):" in project.draft(tmp_path / "pkg/nets/model.py").text
    assert {path for path, _ in project.drafts()} == set(nets)


def test_above_the_top_of_a_project_nothing_is_looked_for(tmp_path):
    write(
        tmp_path,
        {
            "other.py": PARTS,
            "project/setup.py": "",
            "project/model.py": f"from other import *\n{MODEL}",
        },
    )
    assert set(statuses(alone(tmp_path / "project" / "model.py"))) == {"Net", "Sub", "Below"}
    assert "FlowModule" not in alone(tmp_path / "project" / "model.py").text
    (tmp_path / "project" / "setup.py").rename(tmp_path / "setup.py")
    assert "class Net(FlowModule):" in alone(tmp_path / "project" / "model.py").text


def test_what_the_folder_keeps_is_kept_for_the_same_reason(tmp_path):
    write(tmp_path, FILES)
    project = Project(contents(tmp_path), linked=True)
    model = tmp_path / "net" / "model.py"
    codes = {
        item.name: [reason.code for reason in item.reasons] for item in alone(model).plan.classes
    }
    whole = {
        item.name: [reason.code for reason in item.reasons]
        for item in project.draft(model).plan.classes
    }
    assert codes == {**whole, "Block": ["FDL203"]}  # its forward is in a file that stays as it is
    text = alone(model).text
    assert "class Model(Base, FlowModule):" in text
    assert "class Deep(nb.Base, FlowModule):" in text
    assert "class Block(Stem):" in text


def test_a_base_on_flodl_brings_its_flow(tmp_path):
    ported = PARTS.replace("nn.Module", "FlowModule").replace(
        "import torch\n", "import torch\nfrom flodl import FlowModule\n", 1
    )
    write(
        tmp_path,
        {
            **PACKAGE,
            "pkg/parts.py": ported.replace("def forward", "def flow"),
            "pkg/model.py": f"{IMPORTS['star']}{MODEL}",
        },
    )
    assert "class Sub(Base):" in alone(tmp_path / "pkg" / "model.py").text


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize("how", ["star", "through the package", "absolute star"])
def test_file_alone_is_proved_equal(tmp_path, monkeypatch, capsys, how):
    write(tmp_path, {**PACKAGE, "pkg/broken.py": "", "pkg/model.py": f"{IMPORTS[how]}{MODEL}"})
    monkeypatch.chdir(tmp_path)
    assert main(["port", "pkg/model.py", "--json"]) == 0
    (file,) = json.loads(capsys.readouterr().out)["data"]["files"]
    found = {item["name"]: (item["status"], item["verify"]["status"]) for item in file["classes"]}
    assert found == dict.fromkeys(("Net", "Sub", "Below"), ("graph", "equal"))
    assert Path(file["output"]) == tmp_path / "pkg" / "model_flodl.py"


def test_a_circle_of_imports_ends(tmp_path):
    files = {
        f"pkg/m{n}.py": f"from .m{(n + 1) % 5} import *\nfrom .m{(n + 2) % 5} import Base\n"
        for n in range(5)
    }
    write(
        tmp_path,
        {
            **files,
            "pkg/__init__.py": "from .m0 import *\n",
            "pkg/model.py": textwrap.dedent(f"from .m0 import *\n{MODEL}"),
        },
    )
    assert "FlowModule" not in alone(tmp_path / "pkg" / "model.py").text


LAYER = """
from torch import nn
from ...modeling_layers import GradientCheckpointingLayer

class Layer(GradientCheckpointingLayer):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def forward(self, x):
        return self.lin(x)
"""


def test_base_of_a_known_package_is_not_looked_at(tmp_path):
    call = "    def __call__(self, *args):\n        return super().__call__(*args)\n"
    base = f"class GradientCheckpointingLayer(nn.Module):\n{call}"
    files = {
        "setup.py": "",
        "transformers/__init__.py": "",
        "transformers/modeling_layers.py": f"from torch import nn\n{base}",
        "transformers/models/__init__.py": "",
        "transformers/models/m/__init__.py": "",
        "transformers/models/m/modeling_m.py": LAYER,
    }
    write(tmp_path, files)
    made = alone(tmp_path / "transformers" / "models" / "m" / "modeling_m.py")
    assert statuses(made) == {"Layer": ("graph", 1)}


def read_with(folder, monkeypatch, name):
    """Return the files that a port of one file alone reads besides it."""
    read = []
    usual = project_module.read
    texts = {path.read_bytes(): path for path in sorted(folder.rglob("*.py"))}

    def noting(data):
        read.append(texts[data].relative_to(folder).as_posix())
        return usual(data)

    monkeypatch.setattr(project_module, "read", noting)
    alone(folder / name)
    return {each for each in read if each != name}


def test_file_alone_does_not_follow_the_stars_of_a_package_that_has_the_name_itself(
    tmp_path, monkeypatch
):
    write(tmp_path, {
        "pyproject.toml": "",
        "pkg/__init__.py": 'from .nets import *\n__version__ = "1"\n',
        "pkg/nets/__init__.py": "from .other import *\nfrom .third import *\n",
        "pkg/nets/other.py": f"{USUAL}class Other(nn.Module):\n    pass\n",
        "pkg/nets/third.py": f"{USUAL}class Third(nn.Module):\n    pass\n",
        "pkg/parts.py": f"from . import __version__\n{PARTS}",
        "pkg/model.py": f"{USUAL}from . import __version__\nfrom .parts import Base, Block\n{MODEL}",
    })  # fmt: skip
    read = read_with(tmp_path, monkeypatch, "pkg/model.py")
    assert read == {"pkg/parts.py", "pkg/__init__.py"}


def test_installed_package_sees_itself_and_no_other_one(tmp_path, monkeypatch):
    write(tmp_path, {
        "site-packages/other/__init__.py": f"{USUAL}class Thing(nn.Module):\n    pass\n",
        "site-packages/single.py": f"{USUAL}class One(nn.Module):\n    pass\n",
        "site-packages/pkg/__init__.py": "",
        "site-packages/pkg/parts.py": PARTS,
        "site-packages/pkg/model.py": (
            f"{USUAL}from other import Thing\nfrom single import One\n"
            f"from pkg.parts import Base, Block\n{MODEL}"
        ),
    })  # fmt: skip
    read = read_with(tmp_path, monkeypatch, "site-packages/pkg/model.py")
    assert read == {"site-packages/pkg/parts.py"}
