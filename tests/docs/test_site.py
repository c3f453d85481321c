"""The built site: all pages are there, all links lead somewhere, and nothing is loaded from elsewhere."""

import functools
import http.server
import json
import threading
import time
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
# The themes of a reader, and what Zensical calls them.
SCHEMES = {"light": "default", "dark": "slate"}
WIDTHS = (1280, 390)
# Shows the articles at some addresses, and returns the places of those that are too wide.
ARTICLES = """(async (urls) => {
    const wide = [];
    for (const [place, url] of urls.entries()) {
        const text = await (await fetch(url)).text();
        const other = new DOMParser().parseFromString(text, "text/html").querySelector("article");
        document.querySelector("article").replaceWith(document.adoptNode(other));
        if (document.documentElement.scrollWidth > document.body.clientWidth) wide.push(place);
    }
    return wide;
})"""
# What people look for, and the page that has to be among the first that the search lists.
FIRST = 5
NAMED = {
    "ThresholdHalt": "reference/api/building-blocks.html",
    "FDL304": "reference/codes/FDL304.html",
    "archive-broken": "reference/errors/archive-broken.html",
    "FLODL_CACHE_DIR": "reference/environment.html",
    "fdl launch": "reference/commands.html",
    "preemption": "how-to/training-recipes.html",
    "U-Net": "gallery/unet.html",
    "mixed precision": "how-to/training-recipes.html",
    "side exit": "explanation/runtime.html",
    "Exit codes": "reference/commands.html",
}
# The search lives in a tree of elements apart, which comes with the first click.
SEARCH = """var room = [...document.querySelectorAll("body > div")].map((e) => e.shadowRoot).find(Boolean);
    var field = room?.querySelector("input");"""


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


def pages_made_alike(site):
    """Yield the pages of each kind that a program writes: one of the API, of a code, an error, a schema."""
    for folder in ("api", "codes", "errors", "schemas"):
        pages = sorted((site / "reference" / folder).glob("*.html"))
        yield [path for path in pages if path.name != "index.html"]


def names_of_pages(site):
    """Return the pages to look at; of those that are made alike, the list and the longest stand for all."""
    pages = [path for path in read_site(site) if path.name != "404.html"]
    for alike in pages_made_alike(site):
        longest = max(alike, key=lambda path: path.stat().st_size)
        pages = [path for path in pages if path == longest or path not in alike]
    return [path.relative_to(site).as_posix() for path in pages]


def overflow(browser, width):
    """Return how many pixels of a page lie beyond its width."""
    browser.resize(width, 900)
    return browser.evaluate("document.documentElement.scrollWidth - document.body.clientWidth")


def wide_articles(browser, address, names, width):
    """Return the pages whose article is too wide for a window.

    The open page shows one article after the other, as instant loading does: pages differ in little else.
    All pages lie in one folder, so that addresses of pictures hold.
    """
    browser.load(address + names[0])
    browser.resize(width, 900)
    urls = json.dumps([address + each for each in names])
    found = browser.evaluate(f"{ARTICLES}({urls})", timeout=200)
    return [f"{names[place]}, {width}" for place in found]


def ground_in(browser, theme):
    """Wait until a script of the page has followed the theme, and return the colour of the ground."""
    scheme = "document.body.dataset.mdColorScheme"
    limit = time.monotonic() + 10
    while browser.evaluate(scheme) != SCHEMES[theme]:
        assert time.monotonic() < limit, f"the page is not {theme}"
        time.sleep(0.01)
    return browser.evaluate("getComputedStyle(document.body).backgroundColor")


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.browser
@pytest.mark.skipif(BROWSER is None, reason="there is no browser")
def test_pages_in_a_browser_fit_both_widths_and_themes_and_report_no_error(
    site, address, tmp_path
):
    names, wide, grounds = names_of_pages(site), [], set()
    with Chromium(tmp_path / "profile") as browser:
        for first, theme in enumerate(SCHEMES):
            # To change the theme is dear: every second page is opened in each, and all at both widths.
            browser.theme(theme)
            for name in names[first :: len(SCHEMES)]:
                browser.load(address + name)
                grounds.add((theme, ground_in(browser, theme)))
                wide += [f"{name}, {each}" for each in WIDTHS if overflow(browser, each) > 0]
        assert wide == []
        assert browser.problems == []
        assert len(grounds) == len({ground for _, ground in grounds}) == len(SCHEMES)
        assert {url for url in browser.requests if not url.startswith((address, "data:"))} == set()


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.browser
@pytest.mark.skipif(BROWSER is None, reason="there is no browser")
def test_every_page_that_is_made_like_others_fits_both_widths(site, address, tmp_path):
    kinds = [
        [each.relative_to(site).as_posix() for each in alike] for alike in pages_made_alike(site)
    ]
    assert sum(map(len, kinds)) > 250
    wide = []
    with Chromium(tmp_path / "profile") as browser:
        for theme, width in zip(SCHEMES, WIDTHS, strict=True):
            browser.theme(theme)
            wide += [
                each for names in kinds for each in wide_articles(browser, address, names, width)
            ]
            assert ground_in(browser, theme)
        assert wide == []
        assert browser.problems == []
        assert {url for url in browser.requests if not url.startswith((address, "data:"))} == set()


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.browser
@pytest.mark.skipif(BROWSER is None, reason="there is no browser")
def test_search_of_the_site_finds_ten_things_by_name(address, tmp_path):
    with Chromium(tmp_path / "profile") as browser:
        browser.load(address + "index.html")
        browser.evaluate("document.querySelector('.md-search__button').click()")
        while not browser.evaluate(f"{SEARCH} Boolean(field)"):
            time.sleep(0.05)
        missed = {
            words: found
            for words, page in NAMED.items()
            if page not in (found := found_by_search(browser, address, words, page))
        }
        assert missed == {}
        assert browser.problems == []


def found_by_search(browser, address, words, page):
    """Return the first pages that the search lists, once the wanted one is there or the time is over."""
    browser.evaluate(f"""{SEARCH} field.value = {json.dumps(words)};
        field.dispatchEvent(new Event("input", {{ bubbles: true }}));""")
    limit, found = time.monotonic() + 10, []
    while page not in found and time.monotonic() < limit:
        time.sleep(0.05)
        shown = browser.evaluate(
            f"{SEARCH} [...room.querySelectorAll('[role=listbox] a')].map((e) => e.href)"
        )
        found = [each.removeprefix(address).partition("#")[0] for each in shown[:FIRST]]
    return found
