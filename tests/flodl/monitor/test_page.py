"""The page in a real browser: live, after an absence, by keyboard, in both themes, on a phone, as a file."""

import json
import math
import time
from pathlib import Path

import pytest
import torch
from torch import nn

from flodl import FlowBuilder, RankShare, WindowReport
from flodl.monitor.monitor import Monitor
from tests.flodl.monitor.chromium import BROWSER
from tests.flodl.monitor.proxy import PREFIX, Proxy
from tests.flodl.monitor.streams import token_of

pytestmark = [
    pytest.mark.torch,
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="there is no chromium on the PATH"),
]

TITLES = "[...document.querySelectorAll('#metric-charts h3')].map((e) => e.textContent)"


@pytest.fixture
def monitor(tmp_path):
    made = Monitor(
        10, run=tmp_path / "tiny run", quiet=True, resources=False, accepts=("save", "stop")
    )
    yield made
    made.finish()


def train(monitor, epochs, first=0):
    for epoch in range(first, first + epochs):
        for step in range(50 * epoch, 50 * epoch + 50):
            monitor.record(step, {"loss": math.exp(-step / 200), "lr": 1e-3, "grad_norm": 1.0})
        monitor.log(epoch, 1.0, {"valid_loss": math.exp(-epoch / 4), "accuracy": epoch / 10})
    monitor.flush()


def shown(page, monitor):
    page.open(monitor.serve())
    page.wait("document.querySelectorAll('#metric-charts canvas').length > 0")


def text(page, selector):
    return page.evaluate(f"document.querySelector({json.dumps(selector)}).innerText")


def test_everything_of_a_run_is_there(page, monitor):
    model = FlowBuilder.from_(nn.Linear(4, 8)).through(nn.ReLU()).label("net").build()
    model(torch.ones(1, 4))
    monitor.watch(model)
    monitor.set_metadata({"optimizer": {"lr": 0.1}, "<img src=x onerror=alert(1)>": "</script>"})
    train(monitor, 3)
    monitor.event("checkpoint", "saved <b>epoch</b> 3")
    monitor.record(150, {"loss": math.nan})
    monitor.flush()
    shown(page, monitor)
    assert page.evaluate(TITLES) == ["loss", "lr", "grad norm", "accuracy"]
    assert text(page, "#title") == "tiny run"
    assert text(page, "#status") == "running"
    assert page.evaluate("document.title") == "3/10 · tiny run"
    assert page.evaluate("location.search") == "", "the token does not stay in the address bar"
    assert "loss is nan at step 150" in text(page, "#alerts")
    assert page.evaluate("document.querySelectorAll('#epochs tbody tr').length") == 3
    page.evaluate("for (const e of document.querySelectorAll('details')) e.open = true")
    page.wait("document.querySelector('#graph svg')")
    assert "Linear" in page.evaluate("document.querySelector('#graph svg').textContent")
    assert "saved <b>epoch</b> 3" in text(page, "#events")
    assert "<img src=x onerror=alert(1)>" in text(page, "#setup")
    hosts = {each.split("/")[2] for each in page.requests if each.startswith("http")}
    assert hosts == {monitor._server.url.split("/")[2]}, "it asks nobody else"


def test_it_follows_the_training(page, monitor):
    train(monitor, 1)
    shown(page, monitor)
    train(monitor, 2, first=1)
    page.wait("document.querySelectorAll('#epochs tbody tr').length === 3")
    page.wait("fm.runs.get('tiny run').data.metrics.loss.count === 150")
    page.wait("document.querySelector('#facts').innerText.includes('149')")
    assert page.evaluate("fm.runs.get('tiny run').data.metrics.loss.steps.at(-1)") == 149
    monitor.finish()
    page.wait("document.querySelector('#status').innerText === 'finished'")
    assert page.evaluate("fm.state.link") == "ended", "it does not knock at a closed door"


def test_an_event_is_seen_soon(page, monitor):
    train(monitor, 1)
    shown(page, monitor)
    page.evaluate("""
        window.late = [];
        fm.listen((what) => { if (what.has("epochs")) {
            const times = fm.runs.get("tiny run").epochs.time;
            late.push(Date.now() - 1000 * times[times.length - 1]); } });
    """)
    for epoch in range(1, 41):
        monitor.log(epoch, 1.0, {"valid_loss": 1.0})
        time.sleep(0.05)
    page.wait("late.length >= 5")
    late = sorted(page.evaluate("late"))
    # The bar of 50 ms is measured by benchmarks/monitor.py; here other tests are running, too.
    assert late[len(late) // 2] < 250


def test_it_comes_back_after_an_absence_and_has_everything(page, monitor):
    train(monitor, 2)
    shown(page, monitor)
    for first in range(2, 6):
        page.call("Network.emulateNetworkConditions", offline=True, latency=0,
                  downloadThroughput=0, uploadThroughput=0)  # fmt: skip
        for client in [*monitor._server._http.broadcaster._clients]:
            client.shutdown(2)
        train(monitor, 1, first=first)
        page.call("Network.emulateNetworkConditions", offline=False, latency=0,
                  downloadThroughput=-1, uploadThroughput=-1)  # fmt: skip
        page.wait(f"document.querySelectorAll('#epochs tbody tr').length === {first + 1}", 30)
    page.wait("fm.runs.get('tiny run').data.metrics.loss.count === 300")
    steps = page.evaluate("fm.runs.get('tiny run').data.metrics.loss.steps")
    assert steps == sorted(set(steps))
    epochs = page.evaluate("fm.runs.get('tiny run').epochs.epoch")
    assert epochs == list(range(6))
    # Being cut off is said in the console; nothing else is.
    page.problems[:] = [each for each in page.problems if "ERR_" not in each]


def test_a_million_points_are_drawn_and_zoomed(page, monitor):
    for block in range(100):
        for step in range(block * 10_000, block * 10_000 + 10_000):
            monitor.record(step, {"loss": 1.0 if step != 123_456 else 50.0})
        monitor.flush()
    began = time.monotonic()
    shown(page, monitor)
    page.wait("fm.runs.get('tiny run').data.metrics.loss.count === 1000000")
    assert time.monotonic() - began < 10
    assert page.evaluate("Math.max(...fm.runs.get('tiny run').data.metrics.loss.high)") == 50
    page.evaluate("fm.setZoom({ min: 123000, max: 124000 })")
    page.wait("fm.runs.get('tiny run').zoom?.loss")
    zoomed = page.evaluate("fm.runs.get('tiny run').zoom.loss")
    assert zoomed["per"] == 1
    assert zoomed["steps"][zoomed["mean"].index(50)] == 123_456
    drawing = page.evaluate("""(() => {
        const plot = fm.charts.get("metrics:loss").plot;
        const began = performance.now();
        for (let i = 0; i < 30; i++) plot.setScale("x", { min: i * 1000, max: 900000 + i });
        return (performance.now() - began) / 30;
    })()""")
    assert drawing < 33, "thirty pictures per second"


def test_zoom_smoothing_log_and_axes(page, monitor):
    train(monitor, 4)
    shown(page, monitor)
    page.wait("fm.charts.get('metrics:loss')?.plot?.data[0].length > 100")
    page.evaluate("fm.setZoom({ min: 50, max: 80 })")
    page.wait("fm.charts.get('metrics:loss').plot.scales.x.max === 80")
    assert page.evaluate("document.getElementById('unzoom').disabled") is False
    page.evaluate("document.getElementById('unzoom').click()")
    page.wait("fm.charts.get('metrics:loss').plot.scales.x.max > 150")
    page.evaluate("document.getElementById('log').click()")
    page.wait("fm.charts.get('metrics:loss').plot.scales.y.distr === 3")
    before = page.evaluate("fm.charts.get('metrics:loss').plot.series.length")
    page.evaluate("""{ const smooth = document.getElementById("smooth");
        smooth.value = 0.9; smooth.dispatchEvent(new Event("input")); }""")
    page.wait(f"fm.charts.get('metrics:loss').plot.series.length === {before + 1}")
    for axis, last in (("epoch", 4), ("step", 199)):
        page.evaluate(f"document.querySelector('#axis input[value={axis}]').click()")
        page.wait(f"Math.abs(fm.charts.get('metrics:loss').plot.data[0].at(-1) - {last}) < 0.02")
    page.evaluate("document.querySelector('#axis input[value=time]').click()")
    page.wait("fm.charts.get('metrics:loss').plot.data[0].at(-1) < 60")
    page.evaluate("""{ const find = document.getElementById("find");
        find.value = "acc"; find.dispatchEvent(new Event("input")); }""")
    page.wait(f"{TITLES}.join() === 'accuracy'")
    page.evaluate("localStorage.clear()")


def test_ranks_of_a_training_share_a_chart_for_each_number(page, monitor):
    ranks = tuple(RankShare(rank=rank, batches=4, busy=0.1) for rank in range(3))
    for step in range(1, 4):
        report = WindowReport(step=12 * step, seconds=0.12, loss=1.0 / step, per_rank=ranks)
        monitor.record(report.step, report.numbers())
    monitor.flush()
    shown(page, monitor)
    team = ["team size", "team share", "team sync"]
    wanted = ["loss", *team, "ranks batches", "ranks busy", "ranks wait"]
    assert page.evaluate(TITLES) == wanted
    assert page.evaluate("fm.charts.get('metrics:ranks busy').plot.series.length") >= 1 + 3


def test_the_keyboard_is_enough(page, monitor):
    train(monitor, 3)
    shown(page, monitor)
    page.wait("fm.charts.get('metrics:accuracy')?.plot")
    page.evaluate("document.querySelector('[data-key=\"metrics:accuracy\"] .plot').focus()")
    page.key("ArrowLeft")
    page.key("ArrowLeft")
    said = page.evaluate(
        "document.querySelector('[data-key=\"metrics:accuracy\"] output').innerText"
    )
    assert said == "49: accuracy 0"
    page.key("+")
    page.wait("document.getElementById('unzoom').disabled === false")
    page.key("Escape")
    page.wait("document.getElementById('unzoom').disabled === true")
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    stops = []
    page.evaluate("document.activeElement.blur(); window.scrollTo(0, 0)")
    for _ in range(12):
        page.call("Input.dispatchKeyEvent", type="keyDown", key="Tab", code="Tab",
                  windowsVirtualKeyCode=9)  # fmt: skip
        page.call("Input.dispatchKeyEvent", type="keyUp", key="Tab", code="Tab",
                  windowsVirtualKeyCode=9)  # fmt: skip
        stops.append(
            page.evaluate("document.activeElement.id || document.activeElement.className")
        )
        # The end of the page, and radio buttons, whose label has the outline.
        if page.evaluate("!['BODY', 'INPUT'].includes(document.activeElement.tagName)"):
            assert page.evaluate(outline) != "none", stops
    assert len(set(stops)) > 6


def test_every_chart_has_a_table_and_everything_has_a_name(page, monitor):
    train(monitor, 3)
    shown(page, monitor)
    page.evaluate(
        "document.querySelector('[data-key=\"metrics:accuracy\"] figcaption button').click()"
    )
    page.wait("document.querySelector('[data-key=\"metrics:accuracy\"] td')")
    cells = page.evaluate(
        "[...document.querySelectorAll('[data-key=\"metrics:accuracy\"] td')].map((e) => e.innerText)"
    )
    assert cells == ["0.2000", "0.1000", "0"]
    nodes = page.call("Accessibility.getFullAXTree")["nodes"]
    named = ("button", "checkbox", "radio", "slider", "searchbox", "region", "progressbar", "link")
    nameless = [
        node for node in nodes
        if node.get("role", {}).get("value") in named
        and not node.get("ignored") and not node.get("name", {}).get("value")
    ]  # fmt: skip
    assert nameless == []
    roles = {node.get("role", {}).get("value") for node in nodes}
    assert {"main", "banner", "status", "toolbar", "table", "columnheader", "rowheader"} <= roles
    page.evaluate(
        "document.querySelector('[data-key=\"metrics:accuracy\"] figcaption button').click()"
    )


CONTRAST = (Path(__file__).parent / "contrast.js").read_text()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_can_be_read_in_both_themes(page, monitor, theme):
    page.theme(theme)
    train(monitor, 3)
    monitor.record(150, {"loss": math.nan})
    monitor.flush()
    shown(page, monitor)
    page.evaluate("for (const e of document.querySelectorAll('details')) e.open = true")
    assert page.evaluate(CONTRAST) == []
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(15, 19, 23)"
    assert dark is (theme == "dark")


def test_the_theme_can_be_chosen(page, monitor):
    train(monitor, 1)
    shown(page, monitor)
    ground = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(ground) == "rgb(246, 247, 249)"
    page.evaluate("document.getElementById('theme').click()")
    assert page.evaluate(ground) == "rgb(15, 19, 23)"
    page.evaluate("document.getElementById('theme').click()")
    page.theme("dark")
    assert page.evaluate(ground) == "rgb(246, 247, 249)", "light was chosen"
    page.evaluate("localStorage.clear()")


def test_a_phone_is_wide_enough(page, monitor):
    page.resize(390, 844, mobile=True)
    train(monitor, 3)
    shown(page, monitor)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    widths = page.evaluate(
        "[...document.querySelectorAll('figure')].map((e) => e.getBoundingClientRect().right)"
    )
    assert max(widths) <= 390
    small = page.evaluate(
        "[...document.querySelectorAll('header button, .toolbar button')]"
        ".filter((e) => e.offsetParent && e.offsetHeight < 30).length"
    )
    assert small == 0


def test_runs_are_compared(page, tmp_path):
    for name, speed in (("slow", 400), ("fast", 100)):
        with Monitor(3, run=tmp_path / name, quiet=True, resources=False) as old:
            for step in range(150):
                old.record(step, {"loss": math.exp(-step / speed)})
            old.log(0, 1.0, {"valid_loss": 1.0})
    monitor = Monitor(3, run=tmp_path / "now", quiet=True, resources=False)
    monitor.record(0, {"loss": 1.0})
    monitor.flush()
    page.open(monitor.serve(compare=[tmp_path / "slow", tmp_path / "fast"]))
    page.wait("fm.charts.get('metrics:loss')?.plot?.data.length > 3")
    legend = "[data-key='metrics:loss'] .legend"
    labels = page.evaluate(
        f"[...document.querySelectorAll(`{legend} button`)].map((e) => e.getAttribute('aria-label'))"
    )
    assert [each for each in labels if each.startswith("loss")] == [
        "loss · now", "loss · slow", "loss · fast",
    ]  # fmt: skip
    page.evaluate("document.querySelector('#runs input[data-run=slow]').click()")
    page.wait(
        "![...document.querySelectorAll('.legend th')].some((e) => e.innerText.includes('slow'))"
    )
    monitor.finish()


def test_what_is_asked_for_on_the_page_reaches_the_training(page, monitor):
    train(monitor, 1)
    shown(page, monitor)
    page.wait("document.querySelectorAll('#controls button').length === 2")
    page.evaluate(
        "window.confirm = () => true;"
        "for (const b of document.querySelectorAll('#controls button')) b.click()"
    )
    limit = time.monotonic() + 10
    asked = ()
    while len(asked) < 2 and time.monotonic() < limit:
        asked += monitor.requests()
        time.sleep(0.02)
    assert sorted(asked) == ["save", "stop"]


def test_the_archive_needs_no_server(page, monitor, tmp_path):
    model = FlowBuilder.from_(nn.Linear(4, 8)).label("net").build()
    model(torch.ones(1, 4))
    monitor.watch(model)
    monitor.save_html(tmp_path / "run.html")
    train(monitor, 3)
    monitor.finish()
    page.open((tmp_path / "run.html").as_uri())
    page.wait("document.querySelectorAll('#metric-charts canvas').length > 0")
    assert page.evaluate(TITLES) == ["loss", "lr", "grad norm", "accuracy"]
    assert text(page, "#link") == "archive"
    assert text(page, "#status") == "finished"
    page.evaluate("document.getElementById('graph').open = true")
    page.wait("document.querySelector('#graph svg')")
    assert [each for each in page.requests if not each.startswith(("file:", "data:"))] == []


HOSTILE = """<svg xmlns="http://www.w3.org/2000/svg" onload="window.ran = 1">
<script>window.ran = 2</script><image href="x" onerror="window.ran = 3"/><rect id="drawn" width="9"/>
<a href="javascript:window.ran = 4"><text id="link">x</text></a>
<foreignObject><iframe xmlns="http://www.w3.org/1999/xhtml"
srcdoc="&lt;script&gt;parent.ran = 5&lt;/script&gt;"/></foreignObject></svg>"""


@pytest.mark.parametrize("how", ["live", "archive"])
def test_picture_with_scripts_runs_none_of_them(how, browser, monitor, tmp_path):
    train(monitor, 1)
    monitor.set_svg(HOSTILE)
    monitor.set_metadata(
        {"<img src=x onerror='window.ran = 6'>": "<script>window.ran = 7</script>"}
    )
    if how == "live":
        monitor.flush()
        browser.open(monitor.serve())
    else:
        monitor.save_html(tmp_path / "run.html")
        monitor.finish()
        browser.open((tmp_path / "run.html").as_uri())
    browser.wait("document.querySelectorAll('#metric-charts canvas').length > 0")
    browser.evaluate("document.getElementById('graph').open = true")
    browser.wait("document.querySelector('#graph svg, #graph img, #graph iframe, #graph object')")
    browser.evaluate("document.querySelector('#graph #link')?.dispatchEvent(new Event('click'))")
    time.sleep(0.5)
    assert browser.evaluate("typeof window.ran") == "undefined"
    browser.open("about:blank")
    browser.problems.clear()  # the browser says what it did not run


def test_it_works_through_a_proxy_like_that_of_jupyter(page, monitor):
    model = FlowBuilder.from_(nn.Linear(4, 8)).label("net").build()
    model(torch.ones(1, 4))
    monitor.watch(model)
    train(monitor, 2)
    address = monitor.serve()
    with Proxy(int(address.split(":")[2].split("/")[0])) as proxy:
        page.open(f"{proxy.url}?token={token_of(address)}")
        page.wait("document.querySelectorAll('#metric-charts canvas').length > 0")
        page.wait("fm.runs.get('tiny run').data.metrics.loss.count === 100")
        train(monitor, 1, first=2)
        page.wait("document.querySelectorAll('#epochs tbody tr').length === 3")
        page.evaluate("document.getElementById('graph').open = true")
        page.wait("document.querySelector('#graph svg')")
        page.evaluate("document.querySelector('#controls button').click()")
        limit = time.monotonic() + 10
        while not (asked := monitor.requests()) and time.monotonic() < limit:
            time.sleep(0.02)
        assert asked == ("save",)
        # Loaded again without the token in the address, it is known by its cookie.
        page.open(proxy.url)
        page.wait("document.querySelectorAll('#epochs tbody tr').length === 3")
        assert [each for each in proxy.asked if not each.startswith(PREFIX)] == []
        page.open("about:blank")
