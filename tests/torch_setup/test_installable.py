"""A machine that is set up now gets a build that can be installed, or learns where one is."""

import pytest
from made_machines import amd, linux

from fdl_cli.errors import EnvironmentLackingError
from fdl_cli.system.scenario import facts_of_scenario
from fdl_cli.torch_setup.choice.catalogue import HeldBuild, load
from fdl_cli.torch_setup.choice.choose import choose
from fdl_cli.torch_setup.choice.constraints import Constraints
from fdl_cli.torch_setup.choice.installable import choose_installable

RADEON_780M = facts_of_scenario(linux(amd("gfx1103")))
BOTH = facts_of_scenario(linux(amd("gfx1103", "gfx1100")))


def test_a_gpu_that_only_unchecked_packages_serve_gets_the_cpu_build_and_the_address():
    assert choose(RADEON_780M, Constraints(), load()).name == "2.14.1+rocm7.14"
    choice = choose_installable(RADEON_780M, Constraints(), load(), None)
    assert choice.name == "2.15.0+cpu"
    assert choice.codes == ("vendor_index_available",)
    assert "2.14.1+rocm7.14" in choice.warnings[0].hint
    assert "instead of 2.14.1+rocm7.14" in choice.why


def test_what_an_index_holds_decides_here_too():
    held = (
        HeldBuild(version="2.14.1", variant="rocm7.14"),
        HeldBuild(version="2.14.1", variant="cpu"),
    )
    choice = choose_installable(BOTH, Constraints(), load(), held)
    assert choice.name == "2.14.1+cpu"
    assert "vendor_index_available" in choice.codes


def test_other_machines_and_explicit_wishes_are_left_alone():
    assert choose_installable(BOTH, Constraints(), load(), None).name == "2.14.1+rocm7.2"
    wish = Constraints(variant="rocm7.14")
    assert choose_installable(BOTH, wish, load(), None) == choose(BOTH, wish, load())


def test_strict_does_not_leave_the_gpu_unused_in_silence():
    with pytest.raises(EnvironmentLackingError) as caught:
        choose_installable(RADEON_780M, Constraints(strict=True), load(), None)
    assert caught.value.error_id == "strict-amd-gpu-unsupported"


def test_an_index_that_has_the_version_for_another_machine_is_described_as_it_is():
    held = (HeldBuild(version="2.12.1", variant="cu130", tagged=False),)
    with pytest.raises(EnvironmentLackingError) as caught:
        choose(facts_of_scenario(linux()), Constraints(torch="2.12.1"), load(), held)
    assert "no CPU build of torch 2.12.1" in caught.value.message
    assert "only 2.12.1+cu130" in caught.value.message


def test_index_with_gpu_builds_alone_names_the_one_that_runs_without_a_gpu():
    held = (HeldBuild(version="2.14.1", variant="cu130", tagged=False),)
    with pytest.raises(EnvironmentLackingError) as caught:
        choose(facts_of_scenario(linux()), Constraints(), load(), held)
    assert caught.value.error_id == "index-without-build"
    assert "no CPU build of torch" in caught.value.message
    assert "`fdl setup --torch 2.14.1 --variant cu130`" in caught.value.hint
    assert "--offline" not in caught.value.hint
    named = choose(
        facts_of_scenario(linux()), Constraints(torch="2.14.1", variant="cu130"), load(), held
    )
    assert named.name == "2.14.1+cu130"


def test_index_without_any_build_says_so_alone():
    with pytest.raises(EnvironmentLackingError) as caught:
        choose(facts_of_scenario(linux()), Constraints(), load(), ())
    assert caught.value.message == "the source holds no torch build for Linux x86_64"
    assert "--offline" in caught.value.hint
