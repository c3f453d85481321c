"""Work in a thread, whose outcome or error is taken later."""

import threading

import pytest

from flodl.distributed.team.background import Background


def test_background_work_runs_beside_the_caller_and_is_taken_once_it_is_done():
    may_end = threading.Event()

    def work():
        assert may_end.wait(20.0)
        return threading.current_thread()

    background = Background(work)
    may_end.set()  # a work that the caller did itself could not come so far
    assert background.take() is not threading.current_thread()


def test_background_error_is_raised_where_the_outcome_is_taken():
    def fail():
        raise KeyboardInterrupt("a signal")

    background = Background(fail)
    with pytest.raises(KeyboardInterrupt, match="a signal"):
        background.take()
