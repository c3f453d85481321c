"""The built site: all pages are there, all links lead somewhere, and nothing is loaded from elsewhere."""

import functools
import http.server
import threading
from pathlib import Path
from typing import final

import pytest
import yaml

from docs._build.staging import DOCS, tutorial_files
from tests.docs.links import in_menu
from tests.docs.site_pages import dead_links, external_in_styles, is_external, read_site
from tests.flodl.monitor.chromium import BROWSER, Chromium

# Whichever test comes first builds the site, and on a busy machine the tutorials take minutes.
pytestmark = pytest.mark.timeout(600)

ROOT = Path(__file__).parents[2]
WIDTHS = (1280, 390)
THEMED = ("index.html", "tutorials/05_graph_builder.html", "reference/pytorch-map.html")


def pages_in_menu():
    configuration = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))
    pages = list(in_menu(configuration["nav"]))
    assert len(pages) == len(set(pages)), "a page has two places"
    return set(pages)


@pytest.mark.slow
@pytest.mark.torch
def test_menu_names_every_page_of_the_api(staged):
    made = {str(path.relative_to(staged)) for path in (staged / "reference" / "api").iterdir()}
    assert {path for path in pages_in_menu() if path.startswith("reference/api/")} == made


@pytest.mark.slow
@pytest.mark.torch
def test_site_has_every_page_and_no_dead_link(site):
    pages = read_site(site)
    sources = [path.relative_to(DOCS).with_suffix(".html") for path in DOCS.rglob("*.md")]
    sources += [Path("tutorials", f"{path.stem}.html") for path in tutorial_files()]
    assert [str(each) for each in sources if site / each not in pages] == []
    assert (site / "tutorials" / "05_graph_builder.ipynb").is_file()
    assert dead_links(site, pages) == []


@pytest.mark.slow
@pytest.mark.torch
def test_site_loads_nothing_from_elsewhere(site):
    loaded = [
        f"{path.relative_to(site)}: {address}"
        for path, page in read_site(site).items()
        for address in page.loads
        if is_external(address)
    ]
    assert loaded == []
    assert external_in_styles(site) == []


def test_dead_and_external_addresses_of_a_page_are_found(tmp_path):
    (tmp_path / "b.html").write_text('<h2 id="there">B</h2>', encoding="utf-8")
    (tmp_path / "a.html").write_text(
        '<a href="b.html#there"></a><a href="b.html#gone"></a><a href="c.html"></a>'
        '<img src="no.svg"><a href="https://example.org"></a>'
        '<script src="//example.org/x.js"></script>',
        encoding="utf-8",
    )
    (tmp_path / "a.css").write_text("a { src: url(https://example.org/f) }", encoding="utf-8")
    pages = read_site(tmp_path)
    dead = ["a.html: no.svg", "a.html: b.html#gone", "a.html: c.html"]
    assert dead_links(tmp_path, pages) == dead
    assert [each for page in pages.values() for each in page.loads if is_external(each)] == [
        "//example.org/x.js"
    ]
    assert external_in_styles(tmp_path) == ["a.css: https://example.org/f"]


@final
class Quiet(http.server.SimpleHTTPRequestHandler):
    """A file server that prints nothing."""

    def log_message(self, *_):
        """Print nothing."""


@pytest.fixture
def address(site):
    handler = functools.partial(Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def names_of_pages(site):
    """Return the pages to look at; of those that are made alike, the list and the longest stand for all."""
    pages = [path for path in read_site(site) if path.name != "404.html"]
    for folder in ("api", "codes", "errors", "schemas"):
        alike = {
            path for path in pages if path.parent.name == folder and path.name != "index.html"
        }
        longest = max(alike, key=lambda path: path.stat().st_size)
        pages = [path for path in pages if path not in alike - {longest}]
    return [path.relative_to(site).as_posix() for path in pages]


def overflow(browser, width):
    """Return how many pixels of a page lie beyond its width."""
    browser.resize(width, 900)
    return browser.evaluate("document.documentElement.scrollWidth - document.body.clientWidth")


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.browser
@pytest.mark.skipif(BROWSER is None, reason="there is no browser")
def test_pages_in_a_browser_fit_their_width_and_report_no_error(site, address, tmp_path):
    wide = []
    with Chromium(tmp_path / "profile") as browser:
        for name in names_of_pages(site):
            browser.load(address + name)
            wide += [f"{name} at {width}" for width in WIDTHS if overflow(browser, width) > 0]
        assert wide == []
        assert browser.problems == []
        assert {url for url in browser.requests if not url.startswith((address, "data:"))} == set()


def background(browser):
    return browser.evaluate("getComputedStyle(document.body).backgroundColor")


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.browser
@pytest.mark.skipif(BROWSER is None, reason="there is no browser")
def test_pages_in_a_browser_follow_the_theme_and_fit_in_both(address, tmp_path):
    with Chromium(tmp_path / "profile") as browser:
        for name in THEMED:
            colours = set()
            for theme in ("light", "dark"):
                browser.theme(theme)
                browser.load(address + name)
                colours.add(background(browser))
                assert [width for width in WIDTHS if overflow(browser, width) > 0] == []
            assert len(colours) == 2, name
        assert browser.problems == []
