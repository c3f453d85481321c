"""Accessibility of the site and of all pages that the tool makes: axe-core finds nothing serious."""

import math
from dataclasses import replace
from importlib import resources

import pytest
import torch

from fdl_cli.porter.ir.findings import FileError, ScriptFinding
from fdl_cli.porter.report.page import page as report_page
from flodl.inspect.facts.details import detailed
from flodl.inspect.heat import shaped_part
from flodl.monitor.monitor import Monitor
from flodl.observe.export import plot_text
from flodl.visual.assemble import View
from flodl.visual.page import html_text
from flodl.visual.svg import svg_text
from tests.flodl.monitor.chromium import BROWSER, Chromium
from tests.flodl.visual.test_page_details import Wide
from tests.porter.test_report_page import one_class, one_file

pytestmark = [
    pytest.mark.slow,
    pytest.mark.torch,
    pytest.mark.browser,
    pytest.mark.skipif(BROWSER is None, reason="there is no browser"),
    # Whichever test comes first builds the site, and on a busy machine the tutorials take minutes.
    pytest.mark.timeout(600),
]

# One page of each kind. The time of axe grows with the square of a page, so these are short ones.
SITE = (
    "index.html",
    "tutorials/09_monitor.html",
    "gallery/mlp_residual.html",
    "reference/tasks.html",
    "reference/codes/FDL201.html",
    "reference/errors/archive-broken.html",
    "benchmarks/performance.html",
)
THEMES = ("light", "dark")
SOURCE = '''"""A model."""
@final
class Net(Base):
    def forward(self, x):
        return x * 1.5  # scaled
'''
# Contrast in a transition is that of no colour of ours.
STILL = """document.head.appendChild(document.createElement("style")).textContent =
    "*, *::before, *::after { transition: none !important; animation: none !important; }";"""
RUN = """axe.run(document, {
    runOnly: ["wcag2a", "wcag2aa"], resultTypes: ["violations"] }).then((found) =>
    found.violations.filter((rule) => ["serious", "critical"].includes(rule.impact)).flatMap((rule) =>
        rule.nodes.map((node) => [rule.id, node.target.join(" "), node.failureSummary])))"""


@pytest.fixture(scope="module")
def axe():
    return resources.files("axe_core_python").joinpath("axe.min.js").read_text("utf-8")


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Chromium(tmp_path_factory.mktemp("profile")) as made:
        made.resize(1280, 900)
        yield made


def faults(browser, axe, page):
    """Return what axe finds on the page that is open, one line each."""
    browser.evaluate(STILL)
    browser.evaluate(f"{axe}; 0")
    return "\n".join(
        f"{page}: {rule} at {place}: {' '.join(words.split())}"
        for rule, place, words in browser.evaluate(RUN)
    )


def report(folder):
    port = one_file(
        one_class("Encoder"), one_class("Decoder", "not-run", "time"), one_class("Odd", kept=True),
        source=SOURCE, text=SOURCE.replace("Base", "FlowModule"),
        script=ScriptFinding(status="equal", detail="equal losses", steps=3,
                             losses=(2.0, 1.5, 1.0), source_runs=True),
    )  # fmt: skip
    drawing = svg_text(shaped_part(Wide(), torch.ones(3, 4)))
    evidence = tuple(replace(each, drawing=drawing) for each in port.evidence)
    error = FileError(id="x", message="line 3 is no `Python`", hint="mend it", line=3)
    files = [
        ("net.py", "ported/net.py", replace(port, evidence=evidence)),
        ("broken.py", None, one_file(status="failed", error=error)),
    ]
    (folder / "page.html").write_text(report_page(files), "utf-8")
    return "document.getElementById('unfold').click()"


def graph(folder):
    wide = Wide()
    part = detailed(wide, shaped_part(wide, torch.ones(3, 4)))
    (folder / "page.html").write_text(html_text(part, View(fold=False)), "utf-8")
    return """document.getElementById("fd-open").click();
        document.getElementById("fd-tensors").click();
        document.querySelector(".fd-layer").dispatchEvent(new MouseEvent("click", { bubbles: true }));
        document.querySelector("[aria-label='Values of weight']").click();
        (async () => {
            while (!document.querySelector(".fd-grid td")) await new Promise((next) => setTimeout(next, 20));
        })()"""


def plot(folder):
    columns = {"loss": (2.0, 1.0), "accuracy": (0.5, 0.75)}
    (folder / "page.html").write_text(plot_text(columns, "losses"), "utf-8")
    return "document.querySelector('#legend button').click()"


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("path", SITE)
def test_page_of_the_site_in_both_themes_has_no_serious_fault(browser, axe, site, path, theme):
    browser.theme(theme)
    browser.load((site / path).as_uri())
    assert faults(browser, axe, f"{path} ({theme})") == ""


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("make", [report, graph, plot])
def test_page_in_a_file_in_both_themes_has_no_serious_fault(browser, axe, tmp_path, make, theme):
    prepare = make(tmp_path)
    browser.theme(theme)
    browser.load((tmp_path / "page.html").as_uri())
    browser.evaluate(prepare)
    assert faults(browser, axe, f"{make.__name__} ({theme})") == ""


def run(folder):
    """Return a run with something in every part of the page."""
    monitor = Monitor(3, run=folder, quiet=True, resources=False, accepts=("save", "stop"))
    monitor.set_metadata({"optimizer": {"lr": 0.1}})
    monitor.set_svg(svg_text(shaped_part(Wide(), torch.ones(3, 4))))
    for step in range(50):
        monitor.record(step, {"loss": math.exp(-step / 20), "lr": 1e-3})
    monitor.log(0, 1.0, {"valid_loss": 1.0})
    monitor.record(50, {"loss": math.nan})
    monitor.event("checkpoint", "saved epoch 1")
    monitor.flush()
    return monitor


@pytest.mark.parametrize("theme", THEMES)
def test_live_page_in_both_themes_has_no_serious_fault(browser, axe, tmp_path, theme):
    run(tmp_path / "earlier").finish()
    monitor = run(tmp_path / "now")
    try:
        browser.theme(theme)
        browser.open(monitor.serve(compare=[tmp_path / "earlier"]))
        browser.wait("fm.charts.get('metrics:loss')?.plot?.data.length > 2")
        browser.wait("document.querySelectorAll('#controls button').length === 2")
        browser.evaluate("""for (const each of document.querySelectorAll("details")) each.open = true;
            document.querySelector("figcaption button").click();
            document.querySelector(".legend button").click()""")
        browser.wait("document.querySelector('.legend [aria-pressed=false]')")
        browser.wait("document.querySelector('#graph svg')")
        assert faults(browser, axe, f"monitor ({theme})") == ""
    finally:
        browser.open("about:blank")
        monitor.finish()


def test_faults_of_a_bad_page_name_rule_place_and_page(browser, axe, tmp_path):
    (tmp_path / "page.html").write_text(
        '<html lang="en"><title>t</title><p style="color:#aaa">pale</p><button></button>', "utf-8"
    )
    browser.load((tmp_path / "page.html").as_uri())
    found = faults(browser, axe, "bad")
    assert [each.partition(": Fix")[0] for each in found.splitlines()] == [
        "bad: button-name at button", "bad: color-contrast at p",
    ]  # fmt: skip
