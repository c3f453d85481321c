"""The page of a graph in a real browser: gates, switches, loops and maps open and close in place."""

import json
import time

import pytest
import torch
from torch import nn

from flodl import ArgmaxSelector, FlowBuilder, SoftmaxRouter
from flodl.inspect.drawing import part_of
from flodl.visual.assemble import View
from flodl.visual.page import html_text
from tests.flodl.monitor.chromium import BROWSER, Chromium

pytestmark = [
    pytest.mark.torch,
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="there is no chromium on the PATH"),
]

# How far boxes of one scene overlap, and how far a box leaves the one around it: nothing, but for rounding.
MISPLACED = """(() => {
    const rect = (e) => e.querySelector(":scope > rect:last-of-type").getBoundingClientRect();
    const steps = [...document.querySelectorAll(".fd-step")];
    const far = (one, two) => Math.min(one.right - two.left, two.right - one.left,
        one.bottom - two.top, two.bottom - one.top);
    const pairs = steps.flatMap((one) => steps.filter((two) =>
        one !== two && one.parentElement === two.parentElement).map((two) => far(rect(one), rect(two))));
    const out = steps.flatMap((one) => { const frame = one.parentElement.closest(".fd-step");
        if (!frame) return [];
        const a = rect(one), b = rect(frame);
        return [b.left - a.left, b.top - a.top, a.right - b.right, a.bottom - b.bottom]; });
    return Math.max(0, ...pairs, ...out); })()"""
INSIDE = """[...document.querySelectorAll(".fd-step .fd-step")].map((e) => e.ariaLabel)"""


def labelled(name):
    return FlowBuilder.from_(nn.Linear(4, 4)).through(nn.Tanh()).label(name).build()


def steered():
    return (
        FlowBuilder.new().gate(SoftmaxRouter(4, 2), nn.Sequential(nn.Linear(4, 4), nn.ReLU()), nn.Tanh())
        .switch(ArgmaxSelector(4, 2), labelled("low"), labelled("high"))
        .loop_body(labelled("refine")).until_cond(torch.mean, 5)
        .map(labelled("row")).each().build()
    )  # fmt: skip


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Chromium(tmp_path_factory.mktemp("profile")) as made:
        yield made


@pytest.fixture(params=["down", "right"])
def page(request, browser, tmp_path):
    """The browser with the page of a graph in each direction, and nothing to complain about afterwards."""
    (tmp_path / "graph.html").write_text(
        html_text(part_of(steered()), View(direction=request.param))
    )
    browser.resize(1280, 900)
    browser.theme("light")
    browser.problems.clear()
    browser.open((tmp_path / "graph.html").as_uri())
    for _ in range(100):
        if browser.evaluate("Boolean(document.querySelector('.fd-step'))"):
            break
        time.sleep(0.05)
    yield browser
    assert browser.problems == []


def click(page, selector):
    page.evaluate(
        f"document.querySelector({json.dumps(selector)})"
        ".dispatchEvent(new MouseEvent('click', { bubbles: true }))"
    )


@pytest.mark.parametrize(
    ("word", "inside"),
    [
        ("gate", ["x", "SoftmaxRouter", "Sequential", "Tanh", "weighted sum", "output"]),
        ("switch", ["x", "ArgmaxSelector", "low", "high", "chosen branch", "output"]),
        ("loop", ["x", "refine", "mean", "stop if > 0", "output"]),
        ("map", ["x", "Linear", "Tanh", "output"]),
    ],
)
def test_page_click_opens_and_closes_a_step_around_others(page, word, inside):
    for expected in (inside, []):
        click(page, f'[aria-label="{word}"]')
        assert page.evaluate(INSIDE) == expected
        is_open = page.evaluate(
            f"""document.querySelector('[aria-label="{word}"]').ariaExpanded"""
        )
        assert is_open == str(bool(expected)).lower()
        assert page.evaluate(MISPLACED) < 0.5


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_page_opens_all_levels_without_overlaps_at_any_width(page, theme, width):
    page.resize(width, 800)
    page.theme(theme)
    click(page, "#fd-open")
    assert page.evaluate("document.querySelectorAll('[aria-expanded=false]').length") == 0
    assert page.evaluate(MISPLACED) < 0.5
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_page_details_of_a_switch_say_who_chooses_what(page):
    click(page, '[aria-label="switch"]')
    text = page.evaluate("document.querySelector('#fd-panel dl').innerText")
    for expected in ("branches", "low, high", "router", "ArgmaxSelector", "self.low, self.high"):
        assert expected in text
