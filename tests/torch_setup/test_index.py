"""Reading an index with one page per variant, as download.pytorch.org has them."""

import time
from pathlib import Path

import pytest
from faulty_server import serve

from fdl_cli.errors import EnvironmentLackingError
from fdl_cli.net.artefact import Artefact, Patience
from fdl_cli.torch_setup.choice.catalogue import HeldBuild, load
from fdl_cli.torch_setup.choice.constraints import Constraints
from fdl_cli.torch_setup.index import OFFICIAL, configured_source, read_kept, read_live
from fdl_cli.torch_setup.install.acquire import SECOND_HOST, _with_other_hosts
from fdl_cli.torch_setup.setup_data import SetupRequest
from fdl_cli.torch_setup.setup_plan import untagged_variants
from fdl_cli.torch_setup.snapshot import Snapshot, load_snapshot, save_snapshot

KEY = "linux_x86_64"
TABLE = load().builds[KEY]
QUICK = Patience(connect_seconds=1, stall_seconds=1)


def page(*names):
    links = "".join(f'<a href="{name.replace("+", "%2B")}">{name}</a>\n' for name in names)
    return f"<html><body>{links}</body></html>".encode()


def wheel(version, python="cp312", abi=None, platform="manylinux_2_28_x86_64"):
    return f"torch-{version}-{python}-{abi or python}-{platform}.whl"


PAGES = {
    "/whl/cpu/torch/": page(
        wheel("2.14.1+cpu"), wheel("2.14.1+cpu", "cp313", "cp313t"),
        wheel("2.14.1+cpu", platform="win_amd64"), wheel("2.15.0+cpu", platform="win_amd64"),
        wheel("2.16.0.dev20261101+cpu"), "torchvision-0.29.1+cpu-cp312-cp312-linux_x86_64.whl",
        wheel("2.13.0+cpu", platform="manylinux_2_28_aarch64"),
    ),
    "/whl/cu126/torch/": page(wheel("2.14.1+cu126")),
    # An unknown name may answer with a listing of something else.
    "/whl/cu129/torch/": page(wheel("2.14.1+cpu")),
}  # fmt: skip


def read(site, cache):
    return read_live(f"{site.url}/whl", KEY, TABLE, cache, QUICK, None)


def test_all_variants_are_read_at_once(tmp_path):
    with serve(PAGES) as site:
        view = read(site, tmp_path)
        held = {(item.version, item.variant): item.pythons for item in view.held}
        assert held == {
            ("2.14.1", "cpu"): ("3.12", "3.13t"),
            ("2.14.1", "cu126"): ("3.12",),
        }
        assert all(item.tagged for item in view.held)
        assert view.address_of("cu126") == f"{site.url}/whl/cu126"
        asked = {path for path, _ in site.log}
        assert {f"/whl/{build.variant}/torch/" for build in TABLE} <= asked


def test_a_second_reading_is_conditional(tmp_path):
    with serve(PAGES) as site:
        first = read(site, tmp_path)
        site.log.clear()
        second = read(site, tmp_path)
        assert second.held == first.held
        conditional = {path for path, headers in site.log if "If-None-Match" in headers}
        assert conditional == set(PAGES)


def test_all_or_nothing(tmp_path):
    from faulty_server import Faults

    with serve(PAGES) as site:
        site.faults = Faults(times=99, status=500)
        with pytest.raises(EnvironmentLackingError):
            read(site, tmp_path)
        assert load_snapshot(tmp_path) is None


def test_the_kept_reading_ages_and_belongs_to_its_index(tmp_path):
    with serve(PAGES) as site:
        view = read(site, tmp_path)
        base = f"{site.url}/whl"
    assert read_kept(base, KEY, tmp_path).held == view.held
    assert read_kept(base, KEY, tmp_path).address_of("cpu") == f"{base}/cpu"
    assert read_kept(base, "windows_amd64", tmp_path) is None
    assert read_kept("https://other.invalid/whl", KEY, tmp_path) is None
    assert read_kept(base, KEY, tmp_path, longest=-1.0) is None
    assert read_kept(base, KEY, tmp_path, longest=None).held == view.held


def test_a_damaged_snapshot_counts_as_none(tmp_path):
    (tmp_path / "torch-index.json").write_text("{broken")
    assert load_snapshot(tmp_path) is None


def test_an_index_without_torch_is_an_error(tmp_path):
    with serve({"/whl/cpu/torch/": page(wheel("2.14.1+cpu", platform="win_amd64"))}) as site:
        with pytest.raises(EnvironmentLackingError) as caught:
            read(site, tmp_path)
        assert caught.value.error_id == "index-without-torch"


def test_the_variant_of_pypi_comes_from_the_table():
    defaults = untagged_variants(load(), "linux_x86_64")
    assert (defaults["2.13"], defaults["2.15"]) == ("cu130", "cu132")
    assert untagged_variants(load(), "windows_amd64")["2.15"] == "cpu"
    assert untagged_variants(load(), "linux_aarch64")["2.4"] == "cpu"


def test_other_hosts_serve_the_same_file():
    request = SetupRequest(wishes=Constraints(), mirror="https://mirror.invalid/whl/")
    item = Artefact(name="t.whl", urls=(f"{SECOND_HOST}/cu126/t.whl",))
    assert _with_other_hosts(item, request).urls == (
        "https://mirror.invalid/whl/cu126/t.whl",
        f"{SECOND_HOST}/cu126/t.whl",
        f"{OFFICIAL}/cu126/t.whl",
    )
    other = Artefact(name="x.whl", urls=("https://files.invalid/x.whl",))
    assert _with_other_hosts(other, request) == other


@pytest.mark.slow
def test_answers_fit_their_schemas(tmp_path):
    """What is printed with --json is what --json-schema describes."""
    import json
    import subprocess
    import sys

    import jsonschema

    def fdl(*words):
        done = subprocess.run(
            [sys.executable, "-m", "fdl_cli", *words], cwd=tmp_path, check=True, timeout=60,
            capture_output=True, text=True,
            env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path(__file__).parents[2]),
                 "HOME": str(tmp_path)},
        )  # fmt: skip
        return json.loads(done.stdout)

    (tmp_path / "facts.json").write_text(
        '{"platform": "linux", "machine": "x86_64", "python": "3.12", "glibc": "2.35"}'
    )
    for words in (
        ("diagnose", "--report"),
        ("setup", "--dry-run", "--facts", "facts.json"),
        ("libtorch", "list"),
        ("libtorch", "info"),
        ("libtorch", "build", "--dry-run", "--arch", "9.0"),
    ):
        command = words[:2] if words[0] == "libtorch" else words[:1]
        jsonschema.validate(fdl(*words, "--json"), fdl(*command, "--json-schema"))


def test_read_kept_of_pip_is_keyed_by_python(tmp_path):
    held = (HeldBuild(version="2.14.1", variant="cpu", pythons=("3.12",)),)
    source = configured_source(KEY, "3.12")
    save_snapshot(tmp_path, Snapshot(source=source, address=None, taken_at=time.time(), held=held))
    assert read_kept("pip", KEY, tmp_path, python="3.12").held == held
    assert read_kept("pip", KEY, tmp_path, python="3.11") is None
    assert read_kept("pip", KEY, tmp_path, python="3.12t") is None


def test_save_snapshot_without_a_folder_keeps_nothing():
    held = (HeldBuild(version="2.14.1", variant="cpu"),)
    snapshot = Snapshot(source="x", address=None, taken_at=time.time(), held=held)
    save_snapshot(Path("/dev/null/cache"), snapshot)
    assert load_snapshot(Path("/dev/null/cache")) is None
