"""Timelines: samples of a machine, events beside them, gaps and their causes, files."""

import csv
import json
import time
from html.parser import HTMLParser
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from flodl import Monitor, Timeline, Trainer, UnknownNameError
from flodl.train.timeline import TimelineEvent, TimelineSample
from flodl.train.timeline.adapter import TimedMonitor
from flodl.train.timeline.page import timeline_page
from flodl.train.timeline.records import find_gaps, load_names

WAIT = 20.0  # seconds until a thread counts as hung


def wait_until(holds):
    end = time.monotonic() + WAIT
    while not holds():
        assert time.monotonic() < end, "the timeline does not sample"
        time.sleep(0.005)


def sampled(loads, step=0.1, name="gpu"):
    return [TimelineSample(at=n * step, values={name: load}) for n, load in enumerate(loads)]


def gaps(samples, events=(), device="cuda:0", shortest=0.25, around=0.1):
    return list(find_gaps(samples, events, device, below=5.0, shortest=shortest, around=around))


def test_gap_ends_with_the_first_busy_sample_or_the_last_one():
    found = gaps(sampled([90, 1, 0, 4, 90, 3, 90, 0, 0, 0]))
    assert [(round(each.start, 1), round(each.end, 1)) for each in found] == [(0.1, 0.4)]
    found = gaps(sampled([90, 0, 0, 0, 0]))
    assert [(round(each.start, 1), round(each.end, 1)) for each in found] == [(0.1, 0.4)]


def test_gap_names_the_events_in_it_once_and_no_end_of_an_epoch():
    kinds = [(0.02, "before"), (0.3, "checkpoint"), (0.31, "checkpoint"), (0.35, "epoch_end")]
    events = [TimelineEvent(at=at, kind=kind) for at, kind in [*kinds, (0.9, "after")]]
    (found,) = gaps(sampled([90, 90, 1, 0, 4, 90]), events)
    assert found.causes == ("checkpoint",)


@given(st.lists(st.sampled_from([0.0, 3.0, 50.0, 100.0]), max_size=40))
def test_gaps_are_apart_in_order_and_hold_idle_samples_alone(loads):
    samples = sampled(loads)
    found = gaps(samples, shortest=0.0)
    assert all(first.end < second.start for first, second in pairwise(found))
    inside = [each for each in samples if any(gap.start <= each.at < gap.end for gap in found)]
    assert all(each.values["gpu"] < 5 for each in inside)
    # Of the idle samples, only the last one of all has no length.
    idle = [each for each in samples[:-1] if each.values["gpu"] < 5]
    assert len(inside) == len(idle)


def test_several_gpus_have_a_load_each_and_no_mean():
    assert load_names({"gpu0.gpu": 1.0, "gpu1.gpu": 2.0, "gpu": 1.5}) == {
        "cuda:0": "gpu0.gpu",
        "cuda:1": "gpu1.gpu",
    }


def test_timeline_samples_until_it_stops_and_stopping_twice_is_fine():
    timeline = Timeline(poll_ms=1)
    timeline.start()
    timeline.start()
    wait_until(lambda: timeline.sample_count() >= 5)
    timeline.stop()
    timeline.stop()
    count = timeline.sample_count()
    time.sleep(0.02)
    assert timeline.sample_count() == count == len(timeline.samples())
    times = [each.at for each in timeline.samples()]
    assert times == sorted(times)
    assert "process" in timeline.devices()


def test_process_that_sleeps_is_idle_and_one_that_computes_is_not():
    with Timeline(poll_ms=20) as timeline:
        end = time.process_time() + 0.3
        while time.process_time() < end:
            pass
        timeline.event("sleep")
        time.sleep(0.8)
    found = timeline.idle_gaps(min_ms=300, threshold_pct=20)
    assert any("sleep" in gap.causes for gap in found)
    assert timeline.summary().events == {"sleep": 1}
    assert 0.0 < timeline.summary().idle["process"] < 1.0


def test_long_timeline_keeps_all_its_time_in_few_samples():
    timeline = Timeline(most=8)
    for number in range(1000):
        timeline._take(TimelineSample(at=float(number), values={"gpu": float(number % 100)}))
    kept = timeline.samples()
    assert len(kept) <= 8
    assert timeline.sample_count() == 1000
    assert kept[0].at == 0.0
    assert kept[-1].at + 2 * timeline._looks > 1000
    # Means of equal parts: the whole has the same mean.
    whole = [float(number % 100) for number in range(1000)][: int(kept[-1].at) + timeline._looks]
    mean = sum(each.values["gpu"] for each in kept) / len(kept)
    assert mean == pytest.approx(sum(whole) / len(whole))


def test_events_are_counted_where_the_oldest_are_forgotten():
    timeline = Timeline(most=3)
    for number in range(10):
        timeline.event("window", number=number)
    assert [each.detail["number"] for each in timeline.events()] == [7, 8, 9]
    assert timeline.summary().events == {"window": 10}


def test_event_that_is_told_late_goes_to_its_place():
    timeline = Timeline()
    time.sleep(0.02)
    timeline.event("second")
    timeline.event("first", ago=0.01)
    assert [each.kind for each in timeline.events()] == ["first", "second"]


def test_reader_gets_everything_in_batches_and_draining_forgets():
    timeline = Timeline(poll_ms=1, broadcast_ms=5)
    queue = timeline.subscribe()
    with timeline:
        timeline.event("one")
        wait_until(lambda: timeline.sample_count() >= 20)
    batches = []
    while not queue.empty():
        batches.append(queue.get())
    assert len(batches) > 1
    assert sum(len(each.samples) for each in batches) == timeline.sample_count()
    assert [event.kind for each in batches for event in each.events] == ["one"]
    assert len(timeline.drain().samples) == timeline.sample_count()
    assert timeline.samples() == timeline.events() == ()


def test_unknown_device_is_named_with_those_that_are_there():
    with pytest.raises(UnknownNameError, match=r"`cuda:7` is not known .*no sample"):
        Timeline().idle_gaps("cuda:7")
    timeline = Timeline()
    timeline._take(TimelineSample(at=0.0, values={"gpu": 1.0}))
    with pytest.raises(UnknownNameError, match="there are: `cuda:0`"):
        timeline.idle_gaps("process")


@pytest.mark.parametrize("wrong", [{"poll_ms": 0}, {"broadcast_ms": -1}, {"most": 1}])
def test_numbers_out_of_range_are_refused(wrong):
    with pytest.raises(ValueError, match="must be positive"):
        Timeline(**wrong)


def test_throttled_gpu_is_an_event_when_it_begins():
    timeline = Timeline()
    for throttled in (0.0, 1.0, 1.0, 0.0, 1.0):
        timeline._take(TimelineSample(at=0.0, values={"throttled": throttled}))
    assert [each.kind for each in timeline.events()] == ["throttle"] * 2


def scripted():
    timeline = Timeline()
    for number, load in enumerate([90.0, 90.0, *[0.0] * 8, 95.0]):
        timeline._take(TimelineSample(at=number / 10, values={"gpu": load, "ram_used": 1e9}))
    timeline._events.append(TimelineEvent(at=0.4, kind="<b>", detail={"note": "a & b"}))
    return timeline


def test_files_hold_samples_events_and_gaps(tmp_path):
    timeline = scripted()
    timeline.save_json(tmp_path / "a.json")
    data = json.loads((tmp_path / "a.json").read_text())
    assert data["samples"]["gpu"] == [each.values["gpu"] for each in timeline.samples()]
    assert data["events"] == [{"at": 0.4, "kind": "<b>", "note": "a & b"}]
    assert [(gap["device"], gap["causes"]) for gap in data["idle_gaps"]] == [("cuda:0", ["<b>"])]
    timeline.save_csv(tmp_path / "a.csv")
    rows = list(csv.DictReader((tmp_path / "a.csv").read_text().splitlines()))
    assert [float(row["gpu"]) for row in rows] == data["samples"]["gpu"]
    assert [row["events"] for row in rows].index("<b>") == 4


class Balanced(HTMLParser):
    """Fails unless every tag that is opened is closed, in order."""

    def __init__(self):
        super().__init__()
        self.open, self.texts, self.tags = [], [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def test_page_is_whole_escapes_texts_and_loads_nothing(tmp_path):
    scripted().save_html(tmp_path / "a.html", "Run <1>")
    text = (tmp_path / "a.html").read_text()
    page = Balanced()
    page.feed(text)
    assert page.open == []
    assert "Run <1>" in page.texts
    assert "0.80" in page.texts
    assert not {"script", "link", "img", "b"} & set(page.tags)
    assert "http" not in text


def test_page_of_nothing_says_that_no_device_was_idle():
    assert "No device was idle for long." in timeline_page("Empty", [], [], [], "nothing")


def test_page_of_a_long_run_stays_small():
    samples = sampled([float(each % 100) for each in range(50_000)])
    events = [TimelineEvent(at=each / 10, kind="window") for each in range(50_000)]
    assert len(timeline_page("Long", samples, events, [], "")) < 400_000


def train_step(model, batch):
    return model(batch).square().mean()


def builder():
    made = Trainer.builder(
        lambda: nn.Linear(2, 1), lambda each: torch.optim.SGD(each, 0.1), train_step
    )
    return made.dataset([torch.ones(4, 2)] * 6).num_epochs(2).seed(0).step("eager").progress(False)


def test_training_tells_its_epochs_and_checkpoints(tmp_path):
    timeline = Timeline(poll_ms=5)
    builder().timeline(timeline).run_dir(tmp_path / "run").run().join()
    counts = timeline.summary().events
    assert (counts["epoch_start"], counts["epoch_end"], counts["checkpoint"]) == (2, 2, 2)
    ends = [each for each in timeline.events() if each.kind == "epoch_end"]
    assert [each.detail["epoch"] for each in ends] == [0, 1]
    assert ends[0].detail["loss"] > ends[1].detail["loss"]
    count = timeline.sample_count()
    time.sleep(0.03)
    assert timeline.sample_count() == count, "it samples after the end"


def test_epoch_ends_before_its_callbacks_take_their_time():
    timeline = Timeline(poll_ms=5)
    made = builder().timeline(timeline)
    made.on("epoch", lambda training, metrics: timeline.event("slow")).run().join()
    kinds = [each.kind for each in timeline.events() if each.kind.startswith(("epoch", "slow"))]
    assert kinds == ["epoch_start", "epoch_end", "slow"] * 2


def test_timeline_ends_with_a_training_that_stops_early():
    timeline = Timeline(poll_ms=5)
    stop = builder().timeline(timeline).on("step", lambda training, loss: training.stop("enough"))
    assert stop.run().join().stopped_by == "enough"
    count = timeline.sample_count()
    time.sleep(0.03)
    assert timeline.sample_count() == count


def test_training_with_a_monitor_and_a_timeline_tells_both(tmp_path):
    monitor, timeline = Monitor(2, quiet=True, resources=False), Timeline()
    builder().timeline(timeline).monitor(monitor).run().join()
    assert len(monitor.history()) == 2
    assert timeline.summary().events["epoch_end"] == 2


class Asked:
    """A monitor whose page wants a checkpoint."""

    def requests(self):
        return ("save",)


@pytest.mark.parametrize(("inner", "asked"), [(Asked(), ("save",)), (object(), ()), (None, ())])
def test_requests_of_the_page_pass_through(inner, asked):
    timed = TimedMonitor(Timeline(), inner)
    assert timed.requests() == asked
    timed.set_metadata({})  # it need not be able to show them


@pytest.mark.slow
def test_training_on_two_devices_tells_its_windows():
    timeline = Timeline(poll_ms=20)
    builder().num_epochs(30).devices(["cpu"] * 2).timeline(timeline).run().join()
    counts = timeline.summary().events
    assert counts["epoch_end"] == 30
    assert counts["sync_start"] == counts["sync_end"] > 0
    assert timeline.summary().mean_sync > 0.0
    assert "process" not in timeline.devices()
