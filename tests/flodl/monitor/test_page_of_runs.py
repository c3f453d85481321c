"""The page of three runs in a real browser: smooth lines, one run in the head, best values, events."""

import json
import math

import pytest

from flodl.monitor.export import archive_of
from flodl.monitor.monitor import Monitor
from flodl.monitor.store.storage import open_reader
from tests.flodl.monitor.chromium import BROWSER

pytestmark = [
    pytest.mark.torch,
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="there is no chromium on the PATH"),
]

RATES = {"plain": 0.001, "wide": 0.003, "a run with a rather long name that no column holds": 0.01}
LOSSES = {"plain": (3.0, 1.0, 2.0), "wide": (3.0, 2.5, 1.5), [*RATES][2]: (9.0, 8.0, 7.0)}


def record(folder, name, place):
    with Monitor(3, run=folder / name, quiet=True, resources=False) as monitor:
        monitor.set_metadata({"optimizer": {"lr": RATES[name], "name": "Adam"}})
        monitor.set_svg(
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><text>{name}</text></svg>'
        )
        for step in range(300):
            loss = math.exp(-step / 99) + (step % 2) / 5 + place
            monitor.record(step, {"loss": loss, "lr": step})
        for epoch, loss in enumerate(LOSSES[name]):
            monitor.log(
                epoch, 1.0, {"loss": loss, "valid_loss": loss, "accuracy": 1 / loss, "odd": loss}
            )
            monitor.event("checkpoint", f"saved epoch {epoch + 1}")


@pytest.fixture
def runs(page, tmp_path):
    """The browser with the saved page of three runs."""
    readers = {}
    for place, name in enumerate(RATES):
        record(tmp_path, name, place)
        readers[name] = open_reader(tmp_path / name).run
    (tmp_path / "runs.html").write_text(archive_of(readers))
    page.open((tmp_path / "runs.html").as_uri())
    page.wait("fm.charts.get('metrics:loss')?.plot")
    page.evaluate("for (const e of document.querySelectorAll('details')) e.open = true")
    yield page
    page.evaluate("localStorage.clear()")


def texts(page, selector):
    return page.evaluate(
        f"[...document.querySelectorAll({json.dumps(selector)})].map((e) => e.innerText.trim())"
    )


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 800, 1280])
def test_page_of_runs_at_any_width_has_no_overflow(runs, width, theme):
    runs.resize(width, 900, mobile=width < 500)
    runs.theme(theme)
    runs.wait(f"document.querySelector('#metric-charts figure').clientWidth < {width}")
    assert runs.evaluate("document.documentElement.scrollWidth <= innerWidth")
    dark = runs.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(15, 19, 23)"
    assert dark is (theme == "dark")


def test_page_of_runs_legends_are_lower_than_their_plots(runs):
    heights = runs.evaluate(
        "[...document.querySelectorAll('figure')].map((e) => "
        "[e.querySelector('.legend').offsetHeight, e.querySelector('.plot').offsetHeight])"
    )
    assert heights
    assert all(0 < legend < plot for legend, plot in heights)


def test_page_of_runs_noisy_lines_are_smooth_above_pale_ones_and_clean_ones_stay(runs):
    noisy, clean = runs.evaluate("""["loss", "lr"].map((name) => {
        const card = fm.charts.get(`metrics:${name}`), { plot } = card;
        return { count: plot.series.length - 1, lines: card.chart.lines.map((line) => line.at),
                 strokes: plot.series.slice(1).map((each) => each._stroke ?? each.stroke()),
                 swing: [1, card.chart.lines[0].at].map((at) =>
                   Math.abs(plot.data[at][201] - plot.data[at][200])) };
    })""")
    # Three pale lines, three smooth ones, and three of valid_loss.
    assert noisy["count"] == 9
    assert min(noisy["lines"]) == 4
    assert all(len(each) == len("#rrggbbaa") for each in noisy["strokes"][:3])
    assert all(len(each) == len("#rrggbb") for each in noisy["strokes"][3:])
    assert noisy["swing"][0] > 5 * noisy["swing"][1]
    assert clean["count"] == 3
    # Without smoothing there are no pale lines.
    runs.evaluate("""{ const smooth = document.getElementById("smooth");
        smooth.value = 0; smooth.dispatchEvent(new Event("input")); }""")
    runs.wait("fm.charts.get('metrics:loss').plot.series.length === 7")


@pytest.mark.parametrize(("axis", "end"), [("step", 12_500_000), ("time", 100), ("time", 7200)])
def test_page_ticks_are_within_the_chart(runs, axis, end):
    runs.evaluate(f"document.querySelector('#axis input[value={axis}]').click()")
    # The last tick is at the end of the plot.
    runs.evaluate(f"fm.setZoom({{ min: 0, max: {end} }})")
    runs.wait(f"fm.charts.get('metrics:loss').plot.scales.x.max === {end}")
    over = runs.evaluate("""[...fm.charts.values()].filter((card) => card.plot).map(({ plot }) => {
        const axis = plot.axes[0], pen = document.createElement("canvas").getContext("2d");
        pen.font = "11px system-ui, -apple-system, Helvetica, Arial, sans-serif";
        const left = plot.over.getBoundingClientRect().left - plot.root.getBoundingClientRect().left;
        const ends = axis._splits.map((at, i) => left + plot.valToPos(at, "x")
          + pen.measureText(axis._values[i] ?? "").width / 2);
        return Math.max(...ends) - plot.width; })""")
    assert over
    assert max(over) <= 0


def test_page_small_ticks_are_not_rounded_to_one_digit(runs):
    values = runs.evaluate("""(() => { const { plot } = fm.charts.get("metrics:lr");
        return plot.axes[1].values(plot, [0, 0.00025, 0.0005, 0.00075]); })()""")
    assert values == ["0", "2.5e-4", "5e-4", "7.5e-4"]


def test_page_of_runs_choosing_a_run_changes_head_epochs_and_model(runs):
    assert texts(runs, "#title") == ["plain"]
    runs.evaluate("document.querySelector('#runs button[data-choose=wide]').click()")
    runs.wait("document.getElementById('title').innerText === 'wide'")
    runs.wait("document.querySelector('#graph svg')?.textContent === 'wide'")
    assert texts(runs, "#epochs-h") == ["Epochs of wide"]
    assert texts(runs, "#graph h2") == ["Model of wide"]
    assert runs.evaluate("document.getElementById('run').value") == "wide"
    runs.evaluate("""{ const select = document.getElementById("run");
        select.value = "plain"; select.dispatchEvent(new Event("change")); }""")
    runs.wait("document.getElementById('title').innerText === 'plain'")
    assert texts(runs, "#runs tr.chosen button") == ["plain"]


def test_page_of_runs_table_has_settings_that_differ_and_best_values(runs):
    assert texts(runs, "#runs thead th")[3:] == [
        "optimizer.lr", "loss", "valid_loss", "accuracy", "odd",
    ]  # fmt: skip
    first = texts(runs, "#runs tbody tr:first-child td")
    assert first[3:] == ["0.001", "2 best 1", "2 best 1", "0.5000 best 1", "2"]
    assert len(texts(runs, "#runs td.winner")) == 3
    assert texts(runs, "#runs tr:first-child td.winner") == [
        "2 best 1",
        "2 best 1",
        "0.5000 best 1",
    ]
    assert texts(runs, "#setup tr.differs th") == ["optimizer.lr"]


def test_page_facts_name_the_best_value_and_its_epoch(runs):
    facts = texts(runs, "#facts > div")
    assert any(
        each.startswith("valid_loss") and each.endswith("best 1, epoch 2") for each in facts
    )
    assert any(each.startswith("odd") and "best" not in each for each in facts)
    runs.evaluate("fm.focus('wide')")
    runs.wait("document.getElementById('title').innerText === 'wide'")
    assert any(
        each.startswith("valid_loss") and "best so far" in each
        for each in texts(runs, "#facts > div")
    )


def test_page_of_runs_events_are_grouped_and_name_their_run(runs):
    rows = texts(runs, "#events > ul > li")
    assert len(rows) == 3
    for name, row in zip(reversed(RATES), rows, strict=True):
        assert name in row
        assert "saved epoch 3" in row
        assert row.endswith("Show 2 earlier")
    runs.evaluate("document.querySelector('#events button').click()")
    assert [each.split()[-1] for each in texts(runs, "#events li li")] == ["2", "1"]
    runs.evaluate("document.querySelector('#events button').click()")
    assert texts(runs, "#events li li") == []


def test_page_of_finished_runs_is_not_called_live(page, tmp_path):
    record(tmp_path, "plain", 0)
    with Monitor(1, run=tmp_path / "now", quiet=True, resources=False) as monitor:
        monitor.record(0, {"loss": 1.0})
        page.open(monitor.serve(compare=[tmp_path / "plain"]))
        page.wait("fm.charts.get('metrics:loss')?.plot")
        assert texts(page, "#link") == ["live"]
        assert texts(page, "#title") == ["now"]
        page.evaluate("fm.runs.get('now').status = 'finished'; fm.mark('about')")
        page.wait("document.getElementById('link').innerText === ''")
        assert page.evaluate("fm.state.link") == "live"
        assert texts(page, "#status") == ["finished"]
