"""What the environment says of a process that a launcher or a batch system started."""

import pytest

from flodl.distributed.team.place import place_of
from flodl.errors import DeviceError

TORCHRUN = {
    "RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2",
    "MASTER_ADDR": "node0", "MASTER_PORT": "29500", "TORCHELASTIC_USE_AGENT_STORE": "True",
    "TORCHELASTIC_RUN_ID": "job", "TORCHELASTIC_RESTART_COUNT": "2",
}  # fmt: skip
SLURM = {
    "SLURM_PROCID": "0", "SLURM_NTASKS": "4", "SLURM_LOCALID": "0", "SLURM_NNODES": "1",
    "SLURM_JOB_ID": "17", "SLURM_STEP_ID": "2", "FLODL_STORE": "node0:29400",
}  # fmt: skip


def test_place_of_torchrun_has_its_numbers_and_the_store_of_its_agent():
    place = place_of(TORCHRUN)
    assert (place.rank, place.world_size, place.local_rank) == (3, 4, 1)
    assert (place.address, place.serves, place.is_local) == (("node0", 29500), False, False)
    assert (place.run, place.attempt, place.starter) == ("job", 2, "torchrun")


def test_place_of_ranks_on_one_host_is_local():
    assert place_of({**TORCHRUN, "LOCAL_WORLD_SIZE": "4"}).is_local


def test_place_without_an_agent_has_the_store_in_its_first_rank():
    plain = {name: TORCHRUN[name] for name in ("WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")}
    assert place_of({**plain, "RANK": "0"}).serves
    assert not place_of({**plain, "RANK": "1"}).serves
    assert place_of({**plain, "RANK": "1"}).local_rank == 1


def test_place_of_slurm_needs_the_address_of_a_store():
    place = place_of(SLURM)
    assert (place.rank, place.world_size, place.address) == (0, 4, ("node0", 29400))
    assert (place.serves, place.is_local, place.run) == (True, True, "17.2")
    # A batch script is a process of SLURM too, and may start processes of its own.
    assert place_of({name: SLURM[name] for name in SLURM if name != "FLODL_STORE"}) is None


def test_place_of_a_number_of_processes_alone_is_none():
    assert place_of({"WORLD_SIZE": "2"}) is None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"RANK": "one"}, "RANK is 'one'"),
        ({"MASTER_ADDR": None}, "MASTER_ADDR and MASTER_PORT are not"),
        ({"MASTER_ADDR": None, "FLODL_STORE": "node0"}, "FLODL_STORE is 'node0'"),
    ],
)
def test_place_of_an_environment_with_a_mistake_says_it(changes, said):
    changed = {**TORCHRUN, **changes}
    with pytest.raises(DeviceError, match=said):
        place_of({name: text for name, text in changed.items() if text is not None})
