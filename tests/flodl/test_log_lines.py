"""Log lines in a flow: written in every call, with the values of that call, by one plan."""

import logging

import pytest
import torch

from flodl import FlowError, FlowModule

pytestmark = pytest.mark.torch

LEVEL = logging.INFO
LOG = logging.getLogger("tests.lines")
ADAPTED = logging.LoggerAdapter(LOG, {})


class Kept(logging.Handler):
    """The records that were logged."""

    def __init__(self):
        super().__init__()
        self.records = []

    def emit(self, record):
        self.records.append(record)

    @property
    def messages(self):
        return [record.getMessage() for record in self.records]


@pytest.fixture
def kept():
    handler, before = Kept(), logging.root.level
    logging.root.addHandler(handler)
    logging.root.setLevel(LEVEL)
    yield handler
    logging.root.removeHandler(handler)
    logging.root.setLevel(before)


class Direct(FlowModule):
    def flow(self, x):
        LOG.info("sum %.1f of %s", x.sum(), x.size(0))
        return x * 2


class Adapted(FlowModule):
    def flow(self, x):
        ADAPTED.info("sum %.1f of %s", x.sum(), x.size(0))
        return x * 2


class OfRoot(FlowModule):
    def flow(self, x):
        logging.info("sum %.1f of %s", x.sum(), x.size(0))  # noqa: LOG015 - a user may
        return x * 2


class Owned(FlowModule):
    def __init__(self):
        super().__init__()
        self.log = LOG

    def flow(self, x):
        self.log.log(logging.INFO, "sum %.1f of %s", x.sum(), x.size(0))
        return x * 2


@pytest.mark.parametrize("kind", [Direct, Adapted, OfRoot, Owned])
def test_log_line_of_a_flow_is_written_in_every_call_by_one_plan(kind, kept):
    module = kind()
    for rows in (1, 2, 3):
        module(torch.ones(rows))
    assert kept.messages == ["sum 1.0 of 1", "sum 2.0 of 2", "sum 3.0 of 3"]
    assert module.code.count("def forward") == 1
    assert "time" not in module.code


def test_log_line_follows_the_level_of_each_call(kept):
    module = Direct()
    for level in (logging.WARNING, logging.INFO, logging.WARNING):
        logging.root.setLevel(level)
        module(torch.ones(1))
    assert kept.messages == ["sum 1.0 of 1"]


def test_loggers_after_a_trace_have_their_own_methods_and_lines(kept):
    Direct()(torch.ones(1))
    assert "info" not in vars(LOG)
    assert "info" not in vars(logging.root)
    LOG.info("after")
    assert kept.messages[-1] == "after"
    assert kept.records[-1].filename == "test_log_lines.py"


def test_log_line_of_another_function_while_a_flow_is_traced_names_its_own_line(kept):
    class Stage:
        def __call__(self, x):
            LOG.info("in a stage")
            return x

    class Staged(FlowModule):
        def flow(self, x):
            LOG.debug("not shown")
            return x.through(Stage())

    Staged()(torch.ones(1))
    (record,) = kept.records
    assert (record.filename, record.funcName) == ("test_log_lines.py", "__call__")


def test_method_that_a_program_gave_a_logger_stays(monkeypatch):
    seen = []
    monkeypatch.setattr(LOG, "info", lambda *args: seen.append(args))
    Direct()(torch.ones(1))
    assert vars(LOG)["info"] is LOG.info
    assert len(seen) == 1


ITERATOR = iter([1.0])


def test_loggers_after_a_flow_that_is_refused_have_their_own_methods(kept):
    class Refused(FlowModule):
        def flow(self, x):
            LOG.info("not reached")
            return x * next(ITERATOR)

    kind = Refused.__getattribute__
    with pytest.raises(FlowError, match="state may change unseen"):
        Refused()(torch.ones(1))
    assert "info" not in vars(LOG)
    assert "info" not in vars(logging.root)
    assert Refused.__getattribute__ is kind
