"""Pages of a package index, as HTML and as JSON, and what their file names say."""

import json

import pytest
from faulty_server import serve

from fdl_cli.errors import EnvironmentLackingError
from fdl_cli.net.artefact import Patience
from fdl_cli.net.client import make_client
from fdl_cli.net.simple_index import parse_wheel_name, read_page

SHA = "a" * 64
HTML = f"""<!DOCTYPE html><html><body>
<a href="/whl/torch-2.14.1%2Bcu126-cp312-cp312-manylinux_2_28_x86_64.whl#sha256={SHA}"
   data-upload-time="2026-10-01">torch-2.14.1+cu126</a><br/>
<a href="https://files.invalid/torch-2.13.0%2Bcu126-cp311-cp311-win_amd64.whl"
   data-yanked="">torch-2.13.0+cu126</a>
<a href="../">up</a>
</body></html>"""


def page_of(content, headers=None, path="/whl/cu126/torch/"):
    with serve({path: content}) as site, make_client(Patience(connect_seconds=1)) as client:
        return read_page(client, site.url + path), site


def test_html():
    page, site = page_of(HTML.encode())
    first, second = page.links
    assert first.name == "torch-2.14.1+cu126-cp312-cp312-manylinux_2_28_x86_64.whl"
    assert first.sha256 == SHA
    assert first.url.startswith(site.url + "/whl/torch-2.14.1%2Bcu126")
    assert (second.sha256, second.yanked) == (None, True)
    assert page.tag == '"strong-1"'


def test_json(monkeypatch):
    from faulty_server import Handler

    document = {
        "files": [
            {"filename": "x-1.0-py3-none-any.whl", "url": "../x-1.0-py3-none-any.whl",
             "hashes": {"sha256": SHA}, "size": 12, "yanked": False},
        ]
    }  # fmt: skip
    end = Handler.end_headers

    def with_type(self):
        self.send_header("Content-Type", "application/vnd.pypi.simple.v1+json")
        end(self)

    monkeypatch.setattr(Handler, "end_headers", with_type)
    page, site = page_of(json.dumps(document).encode())
    (link,) = page.links
    assert (link.size, link.sha256) == (12, SHA)
    assert link.url == site.url + "/whl/cu126/x-1.0-py3-none-any.whl"


@pytest.mark.parametrize("status", [403, 404])
def test_absent_is_not_an_error(status):
    from faulty_server import Faults

    with serve({}, faults=Faults(status=status)) as site, make_client(Patience()) as client:
        assert read_page(client, site.url + "/whl/cu999/torch/") is None


def test_an_unchanged_page_is_not_sent_again():
    from faulty_server import Faults

    with serve({}, faults=Faults(status=304)) as site, make_client(Patience()) as client:
        page = read_page(client, site.url + "/p/", tag='"abc"')
        assert page.links is None
        assert page.tag == '"abc"'
        assert site.log[0][1]["If-None-Match"] == '"abc"'


def test_an_unreachable_index_says_so():
    with make_client(Patience(connect_seconds=1)) as client:
        with pytest.raises(EnvironmentLackingError) as caught:
            read_page(client, "http://127.0.0.1:9/whl/cpu/torch/")
        assert caught.value.error_id == "index-unreachable"


def test_wheel_names():
    wheel = parse_wheel_name("torch-2.14.1%2Brocm7.2-cp314-cp314t-manylinux_2_28_x86_64.whl")
    assert (wheel.version, wheel.local) == ("2.14.1", "rocm7.2")
    assert (wheel.python, wheel.abi) == (("cp314",), ("cp314t",))
    assert parse_wheel_name("torch-2.14.1.tar.gz") is None
    assert (
        parse_wheel_name("nvidia_cudnn_cu12-9.1-py3-none-any.whl").project == "nvidia-cudnn-cu12"
    )
