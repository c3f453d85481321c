"""Metrics, trends and exports against the reference values and formulas of the specification."""

import copy
import csv
import io
import json
import pickle
import re
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flodl.errors import UnknownNameError
from flodl.observe.duration import format_duration, short_time
from flodl.observe.export import csv_text, log_text, number_text, plot_text, write_text
from flodl.observe.metrics import MetricLog
from flodl.observe.profile import NodeTiming, Profile
from flodl.observe.trend import Trend, TrendGroup

numbers = st.floats(-1e6, 1e6)


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def test_slopes_of_the_specification():
    assert Trend((10.0, 8.0, 6.0, 4.0, 2.0)).slope() == -2.0
    assert Trend((1.0, 5.0, 10.0, 8.0, 6.0)).slope(3) == -2.0


def test_convergence_of_the_specification():
    trend = Trend((5.0, 5.01, 4.99, 5.0, 5.01))
    assert trend.converged(5, 1e-3)
    assert not trend.converged(5, 1e-5)


@given(st.lists(numbers, min_size=2, max_size=30))
def test_slope_is_the_least_squares_line(values):
    line = statistics.linear_regression(range(len(values)), values)
    assert Trend(tuple(values)).slope() == pytest.approx(line.slope, rel=1e-6, abs=1e-5)


@given(st.lists(numbers, max_size=20), st.integers(0, 25))
def test_a_window_looks_at_the_last_values_only(values, window):
    trend = Trend(tuple(values))
    tail = Trend(tuple(values[-window:]) if window else tuple(values))
    assert trend.slope(window) == tail.slope()
    assert trend.converged(window, 0.5) == tail.converged(0, 0.5)


@pytest.mark.parametrize("values", [(), (1.0,), (1.0, 1.0), (1.0, 1.0, 1.0, 1.0)])
def test_nothing_is_stalled_before_the_window_is_full(values):
    assert not Trend(values).stalled(5, 1e-4)


def test_a_flat_full_window_is_stalled():
    assert Trend((9.0, 1.0, 1.0, 1.0, 1.0, 1.0)).stalled(5, 1e-4)
    assert not Trend((1.0, 2.0, 3.0, 4.0, 5.0)).stalled(5, 1e-4)


def test_relative_tolerances_scale_with_the_values():
    trend = Trend((1000.0, 1000.1, 1000.2))
    assert not trend.stalled(3, 1e-3)
    assert trend.stalled(3, 1e-3, relative=True)
    assert not trend.converged(3, 1e-8)
    assert trend.converged(3, 1e-8, relative=True)


@pytest.mark.parametrize(("mode", "better"), [("min", False), ("max", True)])
def test_the_mode_says_what_improving_means(mode, better):
    rising = Trend((1.0, 2.0, 3.0), mode)
    assert rising.improving(3) is better
    assert rising.best == (3.0 if mode == "max" else 1.0)
    assert not Trend((1.0,), mode).improving(3)


def test_an_empty_trend_has_neutral_values():
    trend = Trend()
    assert (len(trend), trend.is_empty, trend.latest, trend.mean) == (0, True, 0.0, 0.0)
    assert (trend.min, trend.max, trend.slope(), trend.last(3)) == (
        float("inf"), float("-inf"), 0.0, (),
    )  # fmt: skip
    assert not trend.converged()


def test_a_negative_window_is_refused():
    with pytest.raises(ValueError, match="got -1"):
        Trend((1.0, 2.0)).slope(-1)


def test_groups_ask_every_trend():
    falling, rising = Trend((3.0, 2.0, 1.0)), Trend((1.0, 2.0, 3.0))
    group = TrendGroup({"a": falling, "b": rising})
    assert (group.all_improving(), group.any_improving()) == (False, True)
    assert group.mean_slope() == 0.0
    assert TrendGroup({"a": falling}).all_improving(3)
    empty = TrendGroup()
    assert not any((empty.all_improving(), empty.all_stalled(), empty.all_converged()))
    assert empty.mean_slope() == 0.0
    flat = Trend((1.0, 1.0))
    assert TrendGroup({"a": flat, "b": rising}).any_stalled(2)
    assert not TrendGroup({"a": flat, "b": rising}).all_stalled(2)
    assert TrendGroup({"a": flat, "b": rising}).any_converged(2)
    assert TrendGroup({"a": flat}).all_converged(2)


def test_a_flush_appends_means_and_empties_the_buffer():
    log = MetricLog()
    log.record("loss", [1.0, 3.0])
    log.record("acc", 0.5)
    assert log.collected("loss") == (1.0, 3.0)
    assert log.flush() == ("loss", "acc")
    assert log.collected("loss") == ()
    assert log.latest() == {"loss": 2.0, "acc": 0.5}
    log.record("acc", 0.7)
    assert log.flush() == ("acc",)
    assert log.history("loss") == (2.0,)
    assert log.trend("acc").values == (0.5, 0.7)


def test_a_partial_flush_is_no_epoch():
    log = MetricLog()
    log.record("a", 1.0)
    log.record("b", 1.0)
    assert log.flush(["a"]) == ("a",)
    assert (log.flush_count, log.collected("b")) == (0, (1.0,))
    log.flush()
    assert log.flush_count == 1
    log.flush()
    assert log.flush_count == 1, "nothing was flushed"


@pytest.mark.parametrize("ask", ["trend", "history", "collected", "group"])
def test_unknown_names_raise_and_suggest(ask):
    log = MetricLog()
    log.record("loss", 1.0)
    log.declare((), {"losses": ("loss",)})
    method = {
        "trend": log.trend, "history": log.history, "collected": log.collected, "group": log.group,
    }[ask]  # fmt: skip
    with pytest.raises(UnknownNameError, match="did you mean `loss"):
        method("los")
    with pytest.raises(UnknownNameError, match="`los`"):
        log.flush(["los"])


def test_a_declared_metric_without_values_is_an_empty_trend():
    log = MetricLog()
    log.declare(["hidden"])
    assert log.trend("hidden").is_empty


def test_modes_and_groups_belong_to_the_log():
    log = MetricLog()
    log.set_mode("acc", "max")
    log.declare((), {"heads": ("head_0", "head_1")})
    for value in (1.0, 2.0):
        log.record("acc", value)
        log.record("head_0", value)
        log.record("head_1", -value)
        log.flush()
    assert log.trend("acc").improving(2)
    assert not log.trend("acc", "min").improving(2)
    assert log.trends(["heads"]).slopes() == {"head_0": 1.0, "head_1": -1.0}
    assert len(log.trends()) == 3
    log.reset(["heads"])
    assert log.trend("head_0").is_empty
    assert len(log.trend("acc")) == 2


def test_the_remaining_time_is_the_mean_epoch_times_the_rest():
    clock = Clock()
    log = MetricLog(clock)
    assert log.eta(10) == 0.0
    for _ in range(2):
        log.record("loss", 1.0)
        clock.now += 3.0
        log.flush()
    assert log.flush_times == (3.0, 6.0)
    assert log.eta(10) == pytest.approx(24.0)
    assert log.eta(1) == 0.0
    log.reset()
    assert (log.flush_count, log.eta(10)) == (0, 0.0)


def test_a_log_survives_pickling_with_its_durations():
    log = MetricLog()
    log.record("loss", 1.0)
    log.flush()
    for twin in (pickle.loads(pickle.dumps(log)), copy.deepcopy(log)):
        assert twin.history("loss") == (1.0,)
        twin.record("loss", 2.0)
        twin.flush()
        first, second = twin.flush_times
        assert 0 <= first <= second < first + 5
    assert log.history("loss") == (1.0,)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0ms"), (0.0421, "42ms"), (0.9996, "1.0s"), (1.24, "1.2s"), (59.96, "1m00s"),
     (125.2, "2m05s"), (3725, "62m05s")],
)  # fmt: skip
def test_durations_as_text(seconds, text):
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (0.00042, "4.20e-04"), (-0.5, "-0.5000"), (99.99, "99.9900"), (100.0, "100.00")],
)
def test_numbers_as_text(value, text):
    assert number_text(value) == text


def test_times_of_steps_as_text():
    assert (short_time(999e-6), short_time(999.9e-6)) == ("999us", "1.00ms")


def test_csv_has_blanks_where_a_series_is_shorter():
    text = csv_text({"loss": (0.5, 0.25), 'odd,"name"': (1.0,)})
    rows = list(csv.reader(io.StringIO(text)))
    assert rows == [
        ["epoch", "loss", 'odd,"name"'],
        ["1", "0.50000000", "1.00000000"],
        ["2", "0.25000000", ""],
    ]


def test_the_log_states_duration_and_remaining_time():
    clock = Clock()
    log = MetricLog(clock)
    for value in (0.5, 0.25):
        log.record("loss", value)
        clock.now += 2.0
        log.flush()
    assert log_text(log, 4) == (
        "epoch 1/4  loss=0.5000  [2.0s, ETA 6.0s]\nepoch 2/4  loss=0.2500  [2.0s, ETA 4.0s]\n"
    )
    assert "ETA" not in log_text(log)
    with pytest.raises(UnknownNameError):
        log_text(log, 4, ["lost"])


def test_a_plot_is_one_page_with_the_data():
    text = plot_text({"a</script>": (1.0, float("nan"), 2.0)}, "losses & more")
    data = re.search(r'id="data">(.*?)</script>', text, re.DOTALL)
    assert json.loads(data[1]) == [{"name": "a</script>", "values": [1.0, None, 2.0]}]
    assert "losses &amp; more" in text
    assert "http" not in text
    with pytest.raises(ValueError, match="flush"):
        plot_text({"a": ()}, "nothing")


def test_files_are_written_whole(tmp_path):
    path = write_text(tmp_path / "new" / "log.csv", "one\n")
    assert path.read_text() == "one\n"
    write_text(path, "two\n")
    assert [each.name for each in path.parent.iterdir()] == ["log.csv"]


def test_a_profile_groups_levels():
    times = [("a", 0, 0.002), ("b", 1, 0.003), ("c", 1, 0.001)]
    nodes = tuple(
        NodeTiming(
            id=name, index=i, tags=("t",) if name == "b" else (), duration=took, level=level
        )
        for i, (name, level, took) in enumerate(times)
    )
    profile = Profile(total=0.0065, nodes=nodes, clock="host")
    assert [level.num_nodes for level in profile.levels] == [1, 2]
    assert profile.levels[0].parallelism == 1.0
    assert profile.levels[1].parallelism == pytest.approx(4 / 3)
    assert profile.timing("t") == profile.timing("b") == 0.003
    assert profile.timing("nobody") is None
    assert "level 1: 4.00ms, x1.3 parallel\n  b #t: 3.00ms" in str(profile)


def test_trend_figures_may_be_called():
    trend = Trend((3.0, 1.0, 2.0))
    for name, value in {"mean": 2.0, "latest": 2.0, "min": 1.0, "max": 3.0, "best": 1.0}.items():
        figure = getattr(trend, name)
        assert figure == figure() == value
        assert type(figure()) is float
    assert Trend().mean() == 0.0
    assert json.dumps(trend.mean) == "2.0"
