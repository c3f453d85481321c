"""A faster start for the ranks of tests that look at what ranks do, and not at how they start."""

import sys

import pytest

from tests.flodl.rank_forks import RankForks, launcher_modules


@pytest.fixture(scope="session")
def rank_forks():
    made = RankForks()
    yield made
    made.close()


@pytest.fixture(scope="module")
def forked_ranks(request):
    """Let launchers of this process fork ranks; campaigns do without, and start them as users do."""
    if sys.platform != "linux":
        yield
        return
    from flodl.distributed.team import launcher

    forks = request.getfixturevalue("rank_forks")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launcher, "subprocess", launcher_modules(forks))
        yield
