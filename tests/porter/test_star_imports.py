"""Names that `from utils import *` brings: a class knows its base although its file never imports torch."""

from pathlib import Path

import pytest

from fdl_cli.porter.project import Project

UTILS = (
    "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\nfrom .more import *\n"
)
MODEL = """from .utils import *

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, x):
        y = F.relu(self.fc(x))
        return torch.cat([y, y], dim=1)
"""


def ported(files):
    files = {Path("/p/pkg") / name: text.encode() for name, text in files.items()}
    return Project({Path("/p/pkg/__init__.py"): b"", **files})


def flow_of(project, name="model.py"):
    return project.draft(Path("/p/pkg") / name).text


def test_what_a_star_brings_is_known():
    text = flow_of(ported({"utils.py": UTILS, "more.py": "", "model.py": MODEL}))
    assert "class Net(FlowModule):" in text
    assert "x.through(self.fc).through(F.relu)" in text
    assert text.startswith("from .utils import *\nfrom flodl import FlowModule\n")


def test_files_that_stand_for_themselves_know_it_too():
    files = {"__init__.py": "", "utils.py": UTILS, "more.py": "", "model.py": MODEL}
    texts = {Path("/p/pkg") / name: text.encode() for name, text in files.items()}
    assert "class Net(FlowModule):" in flow_of(Project(texts, linked=False))


def test_stars_of_stars():
    files = {"utils.py": "from .more import *\n", "more.py": UTILS.replace(".more", ".utils")}
    assert "class Net(FlowModule):" in flow_of(ported({**files, "model.py": MODEL}))


def test_a_base_that_no_star_brings_is_looked_for_once_in_every_file():
    stars = "".join(f"from .m{number} import *\n" for number in range(6))
    files = {f"m{number}.py": stars for number in range(6)}
    unknown = "class Net(Unknown):\n    def forward(self, x):\n        return helper(x)\n"
    made = ported({**files, "model.py": "from .m0 import *\n" + unknown})
    assert flow_of(made).endswith(unknown)


def test_circles_of_stars_end():
    stars = "".join(f"from .m{number} import *\n" for number in range(12))
    files = {f"m{number}.py": stars for number in range(11)} | {"m11.py": stars + UTILS}
    files |= {"utils.py": stars, "more.py": "", "model.py": MODEL}
    assert "class Net(FlowModule):" in flow_of(ported(files))


@pytest.mark.parametrize(
    "files",
    [
        {"utils.py": "from torch import nn as _nn\n"},
        {"utils.py": "import torch.nn as nn\n__all__ = ['other']\n"},
        {"utils.py": "import torch.nn as nn\nclass nn:\n    Module = object\n"},
        {"utils.py": "import torch.nn as nn\nfrom .more import *\n", "model.py": "nn = None\n"},
        {"utils.py": "from .more import *\nfrom .other import *\n", "more.py": "from torch import nn\n",
         "other.py": "from torch import fx as nn\n"},
    ],
)  # fmt: skip
def test_what_is_not_sure_is_left(files):
    files = {"more.py": "", **files, "model.py": files.get("model.py", "") + MODEL}
    assert "FlowModule" not in flow_of(ported(files))


def test_a_class_of_the_project_is_still_found_through_stars():
    base = "import torch.nn as nn\nclass Base(nn.Module):\n    def forward(self, x):\n        return x * 2\n"
    files = {"base.py": base, "model.py": "from .base import *\nclass Net(Base):\n    pass\n"}
    project = ported(files)
    assert "class Base(FlowModule)" in flow_of(project, "base.py")
    found = project.draft(Path("/p/pkg/model.py")).plan.classes
    assert [(item.name, item.status) for item in found] == [("Net", "graph")]


def test_star_under_type_checking_is_not_followed():
    lazy = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .more import *\n"
    files = {"utils.py": lazy, "more.py": UTILS.replace(".more", ".utils"), "model.py": MODEL}
    assert flow_of(ported(files)) == MODEL
    runs = lazy.replace("if TYPE_CHECKING", "if True")
    assert "class Net(FlowModule):" in flow_of(ported({**files, "utils.py": runs}))
