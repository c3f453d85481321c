"""A wheel and an editable checkout both hold everything, and the lock covers every dependency."""

import ast
import re
import subprocess
import sys
import tomllib
import zipfile

import pytest
import yaml

from fdl_cli import __version__
from fdl_cli.apiref.llms import PAGES
from fdl_cli.assets import assets
from fdl_cli.tool_libraries import LIBRARIES


@pytest.fixture(scope="module")
def wheel(root, tmp_path_factory):
    out = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, root],
        check=True,
        capture_output=True,
    )
    (path,) = out.glob("*.whl")
    return path


@pytest.mark.slow
def test_the_wheel_holds_the_packages_and_the_assets(wheel, root):
    names = set(zipfile.ZipFile(wheel).namelist())
    expected = {
        str(path.relative_to(root))
        for package in ("fdl_cli", "flodl", "flodl_verify")
        for path in (root / package).rglob("*.py")
    }
    assert expected <= names
    assert "fdl_cli/_assets/templates/README.md" in names
    assert "fdl_cli/_assets/skills/README.md" in names
    tops = {name.split("/")[0] for name in names}
    assert tops == {"fdl_cli", "flodl", "flodl_verify", f"flodl-{__version__}.dist-info"}


@pytest.mark.slow
def test_an_installed_wheel_starts_and_finds_its_assets(wheel, tmp_path):
    site = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    source = (
        "import sys; sys.path.insert(0, sys.argv[1]); import fdl_cli.assets as a;"
        "assert a.__file__.startswith(sys.argv[1]), a.__file__;"
        "print([(a.assets(k) / 'README.md').is_file() for k in ('templates', 'skills')])"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", source, str(site)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[True, True]\n"
    (entry_points,) = site.glob("*.dist-info/entry_points.txt")
    assert "fdl = fdl_cli.app:entry" in entry_points.read_text()


def test_a_checkout_finds_its_assets(root):
    for kind in ("templates", "skills"):
        assert assets(kind) == root / kind


def test_the_lock_covers_every_dependency(root):
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    asked = [text for group in (project["dependencies"], *extras) for text in group]
    pins = dict(
        line.split("==")
        for line in (root / "constraints.txt").read_text().splitlines()
        if not line.startswith("#")
    )
    for text in asked:
        if text == "flodl[cli]":  # an extra that takes another in
            continue
        assert re.split(r"[^a-z0-9-]", text.lower())[0] in pins, text
    assert re.fullmatch(r"[0-9.]+", pins["torch"]), "a local build of torch must not be locked"


def test_the_extra_of_the_tool_is_what_its_error_knows(root):
    extras = tomllib.loads((root / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    modules = {"nvidia-ml-py": "pynvml", "pyyaml": "yaml"}
    names = [re.split(r"[^a-z0-9-]", text)[0] for text in extras["cli"]]
    assert {modules.get(name, name) for name in names} == set(LIBRARIES)


def test_the_runtime_imports_no_library_of_the_tool(root):
    found = {
        (name.partition(".")[0], path.name)
        for package in ("flodl", "flodl_verify")
        for path in (root / package).rglob("*.py")
        for name in imported_modules(ast.parse(path.read_text("utf-8")))
    }
    assert {"rich", "xxhash"} <= {name for name, _ in found}, "what the runtime does bring"
    assert sorted(pair for pair in found if pair[0] in LIBRARIES) == []


def imported_modules(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def test_the_tool_does_not_need_torch_to_be_installed(root):
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["cli"]]
    assert not [text for text in wanted if text.startswith("torch")]


@pytest.mark.slow
def test_the_page_of_the_package_index_has_absolute_links(wheel, root):
    with zipfile.ZipFile(wheel) as archive:
        (place,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        head, _, page = archive.read(place).decode().partition("\n\n")
    urls = dict(re.findall(r"^Project-URL: (\w+), (\S+)$", head, re.MULTILINE))
    assert set(urls) == {"Documentation", "Source", "Issues", "Changelog"}
    written = re.findall(r"\]\(([^)#\s]+)[^)]*\)", (root / "README.md").read_text("utf-8"))
    built = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page)
    assert "Description-Content-Type: text/markdown" in head
    assert len(written) == len(built) > 20
    assert all(link.startswith("https://") for link in built)
    pages = f"{urls['Source']}/blob/main/"
    local = [link for link in written if "://" not in link]
    assert local
    assert f"{pages}docs/images/block.svg?raw=true" in built
    local = [f"{link}?raw=true" if link.endswith(".svg") else link for link in local]
    assert {pages + link for link in local} <= set(built)


def test_the_project_is_at_one_address(root):
    urls = tomllib.loads((root / "pyproject.toml").read_text())["project"]["urls"]
    assert f"{urls['Source']}/blob/main" == PAGES
    assert all(url.startswith(urls["Source"]) for url in urls.values())


def test_the_citation_is_of_this_version(root):
    cited = yaml.safe_load((root / "CITATION.cff").read_text("utf-8"))
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    assert set(cited) >= {"cff-version", "message", "title", "authors"}, "the format requires them"
    assert str(cited["version"]) == __version__
    assert cited["license"] == project["license"]
    assert cited["repository-code"] == project["urls"]["Source"]


def test_the_short_guide_of_contributors_leads_to_the_long_one(root):
    text = (root / "CONTRIBUTING.md").read_text("utf-8")
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert "docs/project/contributing.md" in links
    assert [link for link in links if not (root / link).is_file()] == []


def test_the_license_is_mit(root):
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    assert (project["license"], project["license-files"]) == ("MIT", ["LICENSE"])
    text = (root / "LICENSE").read_text("utf-8")
    assert text.startswith("MIT License")
    assert "Permission is hereby granted, free of charge" in text
