"""Classes that extend modules of installed packages, which are read and never run."""

import ast
import sys
from pathlib import Path

import pytest
import torch

from fdl_cli.porter.lower.class_hierarchy import is_placeholder
from fdl_cli.porter.project import Project
from fdl_cli.system.user_python import package_folders

# A package as LightningModule has it: re-exports, mixins, a forward that hands on, a property that raises.
STORM = {
    "storm/__init__.py": "from storm.core import Module as StormModule\nfrom storm import core\n",
    "storm/core/__init__.py": "from .module import *\nfrom .other import Finished\n",
    "storm/core/mixins.py": "class Hooks:\n    def on_start(self):\n        pass\n",
    "storm/core/module.py": """
from torch.nn import Module as _Module
from storm.core.mixins import Hooks

__all__ = ["Module"]

class _Base(Hooks, _Module):
    pass

class Module(_Base):
    @property
    def trainer(self):
        raise RuntimeError("not attached")

    def forward(self, *args, **kwargs):
        '''Same as torch.'''
        return super().forward(*args, **kwargs)

    def log(self, name, value):
        self.logged = (name, value)
""",
    "storm/core/other.py": """
from torch import nn

class Finished(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(2, 2)

    def forward(self, x):
        return self.lin(x)

class Settings:
    pass
""",
    # Loaded on demand: only type checkers see the stars.
    "lazy/__init__.py": """
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from .models import *
else:
    import sys
    from .models.b import PretrainedB
""",
    "lazy/models/__init__.py": """
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from .a import *
    from .b import *
""",
    "lazy/models/a.py": "raise SystemError('never read')\nclass Other: pass\n",
    "lazy/models/b.py": "from torch import nn\nclass PretrainedB(nn.Module):\n    pass\n",
}

NET = """
import storm as S
import torch
from torch import nn

class Net(S.StormModule):
    def __init__(self, width=4):
        super().__init__()
        self.lin = nn.Linear(3, width)

    def forward(self, x):
        return torch.relu(self.lin(x))

    def training_step(self, batch):
        loss = self(batch).sum()
        self.log("loss", loss.item())
        return loss
"""


FINISHED = """
import storm.core

class Net(storm.core.Finished):
    pass

class Other(storm.core.Finished):
    def forward(self, x):
        return self.lin(x) + 1
"""


@pytest.fixture
def site(tmp_path):
    for name, text in STORM.items():
        path = tmp_path / "lib" / "python3.11" / "site-packages" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "lib" / "python3.11" / "site-packages"


def ported(site, text, *, linked=False, installed=True):
    path = Path("/p/net.py")
    folders = (site,) if installed else ()
    project = Project({path: text.encode()}, linked=linked, installed=folders)
    return project.draft(path)


def statuses(made):
    return {item.name: item.status for item in made.plan.classes}


def test_class_below_an_installed_module_becomes_a_graph(site):
    made = ported(site, NET)
    assert statuses(made) == {"Net": "graph"}
    assert "class Net(S.StormModule, FlowModule):" in made.text
    assert 'self.log("loss", loss.item())' in made.text


def test_class_below_an_installed_module_computes_the_same(site, monkeypatch):
    monkeypatch.syspath_prepend(str(site))
    spaces = []
    for text in (NET, ported(site, NET).text):
        space = {"__name__": "net"}
        exec(compile(text, "net.py", "exec"), space)
        torch.manual_seed(0)
        spaces.append(space["Net"]())
    x = torch.randn(5, 3)
    original, port = spaces
    for _ in range(2):
        assert torch.equal(original(x), port(x))
    original.training_step(x).backward()
    port.training_step(x).backward()
    assert original.logged == port.logged
    assert torch.equal(original.lin.weight.grad, port.lin.weight.grad)
    for name in [each for each in sys.modules if each.split(".")[0] == "storm"]:
        del sys.modules[name]


def test_base_of_ones_own_between_them_is_ported_along(site):
    text = NET.replace(
        "class Net(S.StormModule)", "class Base(S.StormModule):\n    pass\n\nclass Net(Base)"
    )
    for linked in (False, True):
        assert statuses(ported(site, text, linked=linked)) == {"Base": "graph", "Net": "graph"}


@pytest.mark.parametrize(
    "line",
    ["from storm import StormModule", "from storm.core import Module as StormModule",
     "from storm.core.module import Module as StormModule", "from storm.core.module import *"],
)  # fmt: skip
def test_installed_module_is_found_however_it_is_imported(site, line):
    name = "Module" if line.endswith("*") else "StormModule"
    text = NET.replace("import storm as S", line).replace("S.StormModule", name)
    assert statuses(ported(site, text)) == {"Net": "graph"}


def test_module_of_a_package_that_loads_on_demand_is_found(site):
    text = NET.replace("import storm as S", "from lazy import PretrainedB")
    text = text.replace("S.StormModule", "PretrainedB")
    assert statuses(ported(site, text)) == {"Net": "graph"}


def test_class_with_the_forward_of_a_package_is_kept(site):
    text = FINISHED
    made = ported(site, text)
    assert statuses(made) == {"Net": "kept", "Other": "graph"}
    (reason,) = made.plan.classes[0].reasons
    assert reason.code == "FDL203"
    assert "the forward of `Net` is that of `storm.core.Finished`" in reason.message


def test_class_below_something_else_of_a_package_is_kept(site):
    text = NET.replace("S.StormModule", "S.core.other.Settings")
    assert statuses(ported(site, text)) == {"Net": "kept"}


def test_class_is_kept_where_packages_are_unknown(site):
    made = ported(site, NET, installed=False)
    assert statuses(made) == {"Net": "kept"}


def test_packages_are_not_read_for_a_file_without_a_forward(site, monkeypatch):
    text = "import storm as S\nclass Settings(S.StormModule):\n    width = 3\n"
    monkeypatch.setattr("fdl_cli.porter.module_map.ModuleMap.find_installed", lambda *_: 1 / 0)
    assert statuses(ported(site, text)) == {}
    with pytest.raises(ZeroDivisionError):
        ported(site, NET)


def test_broken_file_of_a_package_tells_nothing(site):
    (site / "storm" / "core" / "module.py").write_text("class Module(:\n")
    assert statuses(ported(site, NET)) == {"Net": "kept"}


def test_package_that_imports_in_circles_ends(site):
    (site / "storm" / "__init__.py").write_text("from storm.core import *\n")
    (site / "storm" / "core" / "__init__.py").write_text("from storm import *\n")
    assert statuses(ported(site, NET)) == {"Net": "kept"}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return super().forward(*a)", True),
        ("'text'\n    return super().forward(x)", True),
        ("raise NotImplementedError", True),
        ("raise NotImplementedError('no')", True),
        ("return super().other(x)", False),
        ("return super().forward(x) + 1", False),
        ("return self.forward(x)", False),
        ("raise ValueError", False),
        ("x = 1\n    return super().forward(x)", False),
        ("return x", False),
    ],
)
def test_placeholder_is_told_from_a_forward(body, expected):
    (node,) = ast.parse(f"def forward(self, x, *a):\n    {body}").body
    assert is_placeholder(node) is expected


def test_package_folders_follow_the_environment_not_its_link(tmp_path):
    environment = tmp_path / "env"
    folder = environment / "lib" / "python3.12" / "site-packages"
    folder.mkdir(parents=True)
    (environment / "bin").mkdir()
    (environment / "bin" / "python").symlink_to(sys.executable)
    assert package_folders(environment / "bin" / "python") == (folder,)
