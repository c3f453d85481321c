"""A file inside of a package sees its package, and its port can be imported from elsewhere."""

import json
import sys
from pathlib import Path

import pytest

from fdl_cli.app import main
from fdl_cli.porter.project import Project
from fdl_cli.porter.relative_imports import absolute_name, package_of

LAYER = """\
from torch import nn

from ...modeling_layers import GradientCheckpointingLayer
from ... import \\
    activations
from .. import ACT as CHOSEN  # from . import this
from .settings import (
    width,
)


class Layer(GradientCheckpointingLayer):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(width, 4)

    def forward(self, x):
        from .settings import width

        return self.a(x) * width
"""


@pytest.fixture
def package(tmp_path):
    """Make a package whose names are those of transformers, with one file to port."""
    top = tmp_path / "site" / "transformers"
    home = top / "models" / "net"
    home.mkdir(parents=True)
    files = {
        "__init__.py": "activations = 1\n",
        "models/__init__.py": "ACT = 2\n",
        "models/net/__init__.py": "",
        "models/net/settings.py": "width = 4\n",
        "modeling_layers.py": (
            "from torch import nn\n\n\nclass GradientCheckpointingLayer(nn.Module):\n"
            "    def __call__(self, *args):\n        return super().__call__(*args)\n"
        ),
        "models/net/modeling_net.py": LAYER,
    }
    for name, text in files.items():
        (top / name).write_text(text)
    return home / "modeling_net.py"


def port(*arguments):
    return main(["port", "--no-verify", *map(str, arguments)])


def test_package_of_counts_the_folders_with_an_init(package, tmp_path):
    assert package_of(package) == "transformers.models.net"
    assert package_of(tmp_path / "net.py") == ""


@pytest.mark.parametrize(
    ("dotted", "full"),
    [
        (".b.C", "p.q.b.C"),
        ("..b", "p.b"),
        ("..", "p"),
        ("...b", ""),
        ("b", ""),
    ],
)
def test_absolute_name_climbs_as_many_packages_as_there_are_dots(dotted, full):
    assert absolute_name("p.q", dotted) == full


def test_relative_base_of_a_file_ported_alone_is_known_by_its_full_name(package):
    made = Project({package: package.read_bytes()}).draft(package)
    assert "class Layer(GradientCheckpointingLayer, FlowModule):" in made.text
    assert "from ...modeling_layers import GradientCheckpointingLayer\n" in made.text


def test_port_in_another_folder_imports_by_full_names(package, tmp_path, capsys):
    target = tmp_path / "out.py"
    assert port(package, "-o", target) == 0
    text = target.read_text()
    assert "from transformers.modeling_layers import GradientCheckpointingLayer\n" in text
    assert "from transformers import \\\n    activations\n" in text
    assert "from transformers.models import ACT as CHOSEN  # from . import this\n" in text
    assert "from transformers.models.net.settings import (\n    width,\n)\n" in text
    assert "        from transformers.models.net.settings import width\n" in text
    assert "GradientCheckpointingLayer, FlowModule" in text
    capsys.readouterr()


@pytest.mark.torch
def test_port_in_another_folder_can_be_imported(package, tmp_path, monkeypatch):
    import torch

    assert port(package, "-o", tmp_path / "port_of_net.py") == 0
    for name in [name for name in sys.modules if name.partition(".")[0] == "transformers"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(str(package.parents[3]))
    monkeypatch.syspath_prepend(str(tmp_path))
    import port_of_net

    layer = port_of_net.Layer()
    x = torch.ones(2, 4)
    assert torch.equal(layer(x), layer.a(x) * 4)
    # Not by `monkeypatch`, which would put them back: other tests import the library of this name.
    for name in [each for each in sys.modules if each.partition(".")[0] == "transformers"]:
        del sys.modules[name]
    del sys.modules["port_of_net"]


def test_port_beside_its_source_keeps_relative_imports(package, capsys):
    assert port(package) == 0
    text = package.with_name("modeling_net_flodl.py").read_text()
    assert "from ...modeling_layers import GradientCheckpointingLayer\n" in text
    assert "from .settings import (\n" in text
    capsys.readouterr()


def test_folder_port_keeps_imports_that_move_along(package, tmp_path, capsys):
    assert port(package.parent, "-o", tmp_path / "out") == 0
    text = (tmp_path / "out" / "modeling_net.py").read_text()
    assert "from .settings import (\n" in text
    assert "from transformers.modeling_layers import GradientCheckpointingLayer\n" in text
    capsys.readouterr()


def test_port_with_crlf_and_bom_keeps_them(package, tmp_path, capsys):
    data = b"\xef\xbb\xbf" + LAYER.replace("\n", "\r\n").encode()
    package.write_bytes(data)
    target = tmp_path / "out.py"
    assert port(package, "-o", target) == 0
    made = target.read_bytes()
    assert made.startswith(b"\xef\xbb\xbf")
    assert b"from transformers.modeling_layers import GradientCheckpointingLayer\r\n" in made
    assert b"\n" not in made.replace(b"\r\n", b"")
    capsys.readouterr()


def test_file_that_has_nothing_to_port_is_not_written(package, tmp_path, capsys):
    settings = package.with_name("settings.py")
    settings.write_text("from ...modeling_layers import GradientCheckpointingLayer\nwidth = 4\n")
    assert port(settings, "-o", tmp_path / "out.py", "--json") == 0
    (file,) = json.loads(capsys.readouterr().out)["data"]["files"]
    assert file["status"] == "unchanged"
    assert not Path(tmp_path / "out.py").exists()
