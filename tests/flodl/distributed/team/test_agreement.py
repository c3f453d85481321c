"""Ranks that do not share one state are named."""

import pytest

from flodl.distributed import ControlRow
from flodl.distributed.team import DesyncError
from flodl.distributed.team.team import require_agreement


def rows(*checksums):
    return [
        ControlRow(rank=rank, window=7, done=1, busy=0.1, crc=crc)
        for rank, crc in enumerate(checksums)
    ]


def test_agreement_of_equal_checksums_holds():
    require_agreement(rows(5, 5, 5))


@pytest.mark.parametrize(
    ("checksums", "named"), [((5, 9, 5), (1,)), ((9, 5, 5, 8), (0, 3)), ((5, 9), (1,))]
)
def test_agreement_broken_names_the_minority(checksums, named):
    with pytest.raises(DesyncError, match="resume from a checkpoint") as caught:
        require_agreement(rows(*checksums))
    assert caught.value.ranks == named
