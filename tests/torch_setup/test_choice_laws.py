"""Laws that every choice keeps, on random machines and wishes."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from fdl_cli.errors import EnvironmentLackingError
from fdl_cli.system.facts import NvidiaFacts, NvidiaGpu, OsFacts, PythonFacts, SystemFacts
from fdl_cli.torch_setup.choice import compat
from fdl_cli.torch_setup.choice.catalogue import HeldBuild, load, numbers, platform_key
from fdl_cli.torch_setup.choice.choose import choose
from fdl_cli.torch_setup.choice.constraints import Constraints
from fdl_cli.torch_setup.choice.notices import codes

pytestmark = pytest.mark.slow

TABLE = load()
CAPS = st.sampled_from(
    [
        tuple(map(int, text.split(".")))
        for text in [
            "3.0",
            "3.5",
            "3.7",
            "5.0",
            "5.2",
            "6.0",
            "6.1",
            "7.0",
            "7.2",
            "7.5",
            "8.0",
            "8.6",
            "8.7",
            "8.9",
            "9.0",
            "10.0",
            "10.3",
            "11.0",
            "12.0",
            "12.1",
            "13.0",
        ]
    ]
)
CUDA = st.sampled_from(sorted({cuda for _, cuda in TABLE.branches} | {(10, 2), (14, 0)}))
SYSTEMS = st.sampled_from(
    [
        OsFacts(platform="linux", machine="x86_64", libc="glibc", libc_version="2.35"),
        OsFacts(platform="linux", machine="x86_64", libc="glibc", libc_version="2.27"),
        OsFacts(platform="linux", machine="aarch64", libc="glibc", libc_version="2.39"),
        OsFacts(platform="windows", machine="x86_64"),
    ]
)
PYTHONS = st.sampled_from(["3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.13t", "3.14", "3.15"])
VERSIONS = sorted({build.version for builds in TABLE.builds.values() for build in builds})
VARIANTS = sorted({build.variant for builds in TABLE.builds.values() for build in builds})

LAWS = settings(
    max_examples=settings().max_examples
    * 4
    // 3,  # 80, or a third where a quick look is asked for
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.filter_too_much],
)


@st.composite
def machines(draw):
    caps = draw(st.lists(CAPS, min_size=1, max_size=3))
    gpus = tuple(
        NvidiaGpu(
            index=index,
            name=f"GPU {cap[0]}.{cap[1]}",
            compute_cap=cap,
            memory_mib=draw(st.sampled_from([2048, 16384, 32768])),
        )
        for index, cap in enumerate(caps)
    )
    nvidia = NvidiaFacts(status="ok", driver="580.95.05", cuda=draw(CUDA), gpus=gpus)
    return SystemFacts(os=draw(SYSTEMS), python=PythonFacts(version=draw(PYTHONS)), nvidia=nvidia)


def try_choose(facts, held=None):
    try:
        return choose(facts, Constraints(), TABLE, held)
    except EnvironmentLackingError:
        return None


def build_of(facts, choice):
    builds = TABLE.builds[platform_key(facts.os)]
    return next(
        item for item in builds if (item.version, item.variant) == (choice.torch, choice.variant)
    )


@LAWS
@given(machines())
def test_every_covered_gpu_has_machine_code(facts):
    choice = try_choose(facts)
    assume(choice is not None)
    build = build_of(facts, choice)
    if build.cuda is None:
        return
    left = list(choice.left_out)
    for gpu in facts.nvidia.gpus:
        if gpu.name in left:
            assert "gpu_not_covered" in choice.codes
        else:
            assert compat.has_machine_code(build, gpu.compute_cap, TABLE)


@LAWS
@given(machines())
def test_never_a_cuda_major_above_the_driver(facts):
    choice = try_choose(facts)
    assume(choice is not None)
    build = build_of(facts, choice)
    if build.cuda is not None:
        assert build.cuda[0] <= facts.nvidia.cuda[0]
        older = build.cuda > facts.nvidia.cuda
        assert older == ("minor_version_compat" in choice.codes)


@LAWS
@given(machines(), CUDA)
def test_a_newer_driver_never_gives_an_older_torch(facts, other):
    low, high = sorted([facts.nvidia.cuda, other])
    older = try_choose(replace(facts, nvidia=replace(facts.nvidia, cuda=low)))
    newer = try_choose(replace(facts, nvidia=replace(facts.nvidia, cuda=high)))
    assume(older is not None and newer is not None)
    if older.variant != "cpu" and len(older.covers) >= len(newer.covers):
        assert newer.variant != "cpu"
        assert numbers(newer.torch) >= numbers(older.torch)


@LAWS
@given(machines(), st.sampled_from([None, *VERSIONS]), st.sampled_from([None, *VARIANTS]))
def test_wishes_are_honoured_or_refused(facts, torch, variant):
    try:
        choice = choose(facts, Constraints(torch=torch, variant=variant), TABLE)
    except EnvironmentLackingError as error:
        refusal = error
    else:
        assert torch is None or choice.torch == torch
        assert variant is None or choice.variant == variant
        return
    assert refusal.hint
    assert refusal.message


@LAWS
@given(machines(), st.lists(st.sampled_from(VERSIONS), min_size=1, max_size=4))
def test_what_the_index_lacks_is_never_chosen(facts, versions):
    held = tuple(HeldBuild(version=version, variant="cu126") for version in versions)
    held += (HeldBuild(version="2.13.0", variant="cpu"),)
    choice = try_choose(facts, held=held)
    assume(choice is not None)
    assert (choice.torch, choice.variant) in {(item.version, item.variant) for item in held}


@LAWS
@given(machines())
def test_exactly_one_reason_and_only_known_codes(facts):
    choice = try_choose(facts)
    assume(choice is not None)
    assert set(choice.codes) <= set(codes())
    caps = {code for code in choice.codes if code.endswith(("caps_torch", "version_capped"))}
    assert len(caps | ({"driver_too_old_for_newest"} & set(choice.codes))) <= 2
    if choice.variant != "cpu":
        assert len(caps | ({"driver_too_old_for_newest"} & set(choice.codes))) <= 1
    newest = max(build.key for build in TABLE.builds[platform_key(facts.os)])
    if numbers(choice.torch) < newest and "gpu_not_covered" not in choice.codes:
        assert caps or "driver_too_old_for_newest" in choice.codes


@LAWS
@given(machines())
def test_a_gpu_alone_is_never_worse_off_than_in_company(facts):
    choice = try_choose(facts)
    assume(choice is not None and choice.variant != "cpu" and not choice.left_out)
    for gpu in facts.nvidia.gpus:
        alone = choose(facts, Constraints(gpus=(str(gpu.index),)), TABLE)
        assert numbers(alone.torch) >= numbers(choice.torch)
