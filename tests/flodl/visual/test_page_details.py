"""The page of a graph in a real browser: details of a step, zoom, and three widths in both themes."""

import json
import time

import pytest
import torch
from torch import nn

from flodl import Flow, FlowModule
from flodl.inspect.heat import shaped_part
from flodl.visual.assemble import View
from flodl.visual.page import html_text
from tests.flodl.monitor.chromium import BROWSER, Chromium

pytestmark = [
    pytest.mark.torch,
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="there is no chromium on the PATH"),
]


class Inner(FlowModule):
    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(8, 8)

    def flow(self, x: Flow) -> Flow:
        return x + x.through(self.mix).tanh()


class Wide(FlowModule):
    def __init__(self) -> None:
        super().__init__()
        self.branches = nn.ModuleList(nn.Linear(4, 8, bias=bool(n)) for n in range(7))
        self.inner = Inner()

    def flow(self, x: Flow) -> Flow:
        parts = [x.through(branch).relu() for branch in self.branches]
        return torch.cat(parts, 0).tag("all").through(self.inner)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Chromium(tmp_path_factory.mktemp("profile")) as made:
        yield made


@pytest.fixture
def page(browser, tmp_path):
    """The browser with the page of a graph, and nothing to complain about afterwards."""
    part = shaped_part(Wide(), torch.ones(3, 4))
    (tmp_path / "graph.html").write_text(html_text(part, View(fold=False)))
    browser.resize(1280, 900)
    browser.theme("light")
    browser.requests.clear()
    browser.problems.clear()
    browser.open((tmp_path / "graph.html").as_uri())
    for _ in range(100):
        if browser.evaluate("Boolean(document.querySelector('.fd-step'))"):
            break
        time.sleep(0.05)
    yield browser
    assert browser.problems == []
    assert [each for each in browser.requests if not each.startswith("file:")] == []


def click(page, selector):
    page.evaluate(
        f"document.querySelector({json.dumps(selector)})"
        ".dispatchEvent(new MouseEvent('click', { bubbles: true }))"
    )


def details(page):
    rows = page.evaluate("""[...document.querySelectorAll("#fd-panel dt")].map((e) =>
        [e.innerText, e.nextElementSibling.innerText])""")
    return dict(rows)


def heading(page):
    return page.evaluate("document.querySelector('#fd-panel h2').innerText")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 800, 1280])
def test_page_at_any_width_shows_the_whole_graph_without_overflow(page, width, theme):
    page.resize(width, 800, mobile=width < 500)
    page.theme(theme)
    page.evaluate("window.dispatchEvent(new Event('resize'))")
    left, right = page.evaluate("""(() => {
        const all = [...document.querySelectorAll(".fd-step")].map((e) => e.getBoundingClientRect());
        return [Math.min(...all.map((e) => e.left)), Math.max(...all.map((e) => e.right))]; })()""")
    assert 0 <= left < right <= width
    click(page, ".fd-layer")
    for side in ("Width", "Height"):
        assert page.evaluate(f"document.documentElement.scroll{side} <= inner{side}")
    edges = page.evaluate("""[...document.querySelectorAll("button, #fd-panel")].map((e) =>
        e.getBoundingClientRect().right)""")
    assert max(edges) <= width
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(15, 19, 23)" if theme == "dark" else "rgb(255, 255, 255)")


def test_page_details_of_a_layer_are_shown_on_a_click(page):
    assert page.evaluate("document.getElementById('fd-panel').hidden")
    click(page, ".fd-layer")
    assert heading(page) == "Linear"
    found = details(page)
    assert found["path"] == "self.branches.0"
    assert found["settings"] == "in_features=4, out_features=8, bias=False"
    assert found["output"] == "3\u00d78 float32"
    assert found["parameters"] == "32"
    assert found["written at"].startswith("test_page_details.py:")
    assert found["reads"] == "x 3\u00d74 float32"
    assert found["read by"] == "relu"
    assert page.evaluate("document.querySelectorAll('.fd-on').length") == 1
    page.key("Escape")
    assert page.evaluate("document.getElementById('fd-panel').hidden")
    assert page.evaluate("document.querySelectorAll('.fd-on').length") == 0


def test_page_details_lead_to_the_steps_before_and_after(page):
    click(page, ".fd-layer")
    click(page, "#fd-panel dd:last-of-type button")
    assert heading(page) == "relu"
    assert details(page)["reads"] == "Linear self.branches.0 3\u00d78 float32"
    click(page, "#fd-panel dd:last-of-type button")
    assert heading(page) == "cat"
    assert details(page)["tags"] == "all"


def test_page_keyboard_opens_a_graph_and_keeps_its_place(page):
    page.evaluate("document.querySelector('.fd-fold').focus()")
    page.key("Enter")
    assert page.evaluate("document.activeElement.getAttribute('aria-expanded')") == "true"
    assert heading(page).startswith("Inner")
    names = page.evaluate(
        "[...document.querySelectorAll('.fd-step .fd-step')].map((e) => e.ariaLabel)"
    )
    assert "tanh" in names
    page.key("Enter")
    assert page.evaluate("document.activeElement.getAttribute('aria-expanded')") == "false"


def test_page_open_graph_holds_no_button_in_a_button(page):
    click(page, "#fd-open")
    assert page.evaluate("document.querySelectorAll('.fd-step .fd-step').length") > 0
    assert page.evaluate("document.querySelectorAll('[role=button] [role=button]').length") == 0
    page.evaluate("document.querySelector('[aria-expanded=true]').focus()")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')").startswith("Inner")
    page.key("Enter")
    assert page.evaluate("document.querySelectorAll('.fd-step .fd-step').length") == 0


def test_page_arrow_heads_meet_the_outline_of_round_boxes(page):
    click(page, "#fd-open")
    misses = page.evaluate("""[...document.querySelectorAll("g.fd-operator")].flatMap((group) => {
        const shape = group.querySelector("rect"), scene = group.parentElement;
        const { e: left, f: top } = group.transform.baseVal.consolidate().matrix;
        const width = shape.width.baseVal.value, radius = shape.rx.baseVal.value;
        return [...scene.querySelectorAll(":scope > .fd-a")].map((e) =>
            e.getAttribute("d").match(/^M([-\\d.]+) ([-\\d.]+)/).slice(1).map(Number))
          .filter(([x, y]) => x > left && x < left + width && Math.abs(y - top) < radius)
          .map(([x, y]) => {
            const beyond = Math.abs(x - left - width / 2) - (width / 2 - radius);
            const edge = beyond > 0 ? top + radius - Math.sqrt(radius ** 2 - beyond ** 2) : top;
            return Math.abs(y - edge); }); })""")
    assert len(misses) == 2
    assert max(misses) < 0.3


def test_page_buttons_and_two_fingers_zoom(page):
    scale = "Number(document.getElementById('fd-root').getAttribute('transform').match(/scale\\((.*)\\)/)[1])"
    before = page.evaluate(scale)
    click(page, "#fd-in")
    assert page.evaluate(scale) == pytest.approx(before * 1.25)
    click(page, "#fd-out")
    assert page.evaluate(scale) == pytest.approx(before)
    page.evaluate("""(() => {
        const svg = document.getElementById("fd-svg");
        const send = (kind, pointerId, clientX, clientY) => svg.dispatchEvent(
          new PointerEvent(kind, { pointerId, clientX, clientY, bubbles: true }));
        send("pointerdown", 1, 300, 300);
        send("pointerdown", 2, 400, 300);
        send("pointermove", 2, 500, 300);
        send("pointerup", 1, 300, 300);
        send("pointerup", 2, 500, 300); })()""")
    assert page.evaluate(scale) == pytest.approx(2 * before)
