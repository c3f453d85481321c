"""Every recorded machine gets the build that a person worked out by hand."""

import json
from pathlib import Path

import pytest
from edge_machines import scenarios

from fdl_cli.errors import EnvironmentLackingError
from fdl_cli.system.recorded import machine_of
from fdl_cli.torch_setup.choice.catalogue import HeldBuild, load
from fdl_cli.torch_setup.choice.choose import choose
from fdl_cli.torch_setup.choice.constraints import make_wishes

SCENARIOS = json.loads(
    (Path(__file__).parents[1] / "data" / "gpu_scenarios.json").read_text("utf-8")
)["scenarios"]


def solve_scenario(scenario):
    machine = machine_of({key: scenario[key] for key in scenario if key != "expect"}, Path("s"))
    held = machine.index and tuple(
        HeldBuild(version=version, variant=variant)
        for variant, versions in machine.index.items()
        for version in versions
    )
    return choose(machine.facts, make_wishes(machine.requested), load(), held)


def mismatch(scenario):
    """Return what is wrong with the answer to a scenario, or nothing."""
    expect = scenario["expect"]
    try:
        choice = solve_scenario(scenario)
    except EnvironmentLackingError as error:
        wanted = expect.get("error_contains")
        if wanted is None or wanted not in error.message:
            return f"error {error.message!r}, expected {expect}"
        return None
    if "error_contains" in expect:
        return f"chose {choice.name}, expected an error with {expect['error_contains']!r}"
    variants = {expect["variant"], *expect.get("variant_also_ok", ())}
    got = (choice.torch, choice.variant, set(choice.codes))
    if choice.variant not in variants or choice.torch != expect["torch_version_best"]:
        return f"{got}, expected {expect}"
    if set(choice.codes) != set(expect["warnings"]):
        return f"{got}, expected {expect}"
    if len(choice.codes) != len(set(choice.codes)) or not choice.why:
        return f"repeated warnings or no reason: {choice}"
    return None


@pytest.mark.parametrize("scenario", SCENARIOS, ids=[item["id"] for item in SCENARIOS])
def test_scenario(scenario):
    assert mismatch(scenario) is None


@pytest.mark.parametrize("scenario", [*scenarios()], ids=lambda scenario: scenario["id"])
def test_machine_at_an_edge(scenario):
    assert mismatch(scenario) is None


def _has_driver_number(scenario):
    nvidia = scenario.get("nvidia") or {}
    # Jetson driver numbers are no branches of the desktop driver.
    return bool(nvidia.get("driver") and "raw" in scenario and not scenario.get("tegra"))


@pytest.mark.parametrize(
    "scenario", [*filter(_has_driver_number, SCENARIOS)], ids=lambda s: s["id"]
)
def test_the_driver_number_is_enough_where_no_library_answers(scenario):
    silent = {**scenario["nvidia"], "cuda_driver_version": None}
    assert mismatch({**scenario, "nvidia": silent}) is None
