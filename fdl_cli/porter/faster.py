"""The gain of a fused optimizer: its measurement, the decision, and the port that has it.

Example: a script trains with `AdamW`, and `fdl port train.py --fast --training builder` is called.

    own      0.41 0.40 0.42 ...  ms      median 0.41 ms
    fused    0.29 0.28 0.29 ...  ms      median 0.29 ms: 1.41 times as fast
    weights  after 10 steps of both, within rounding

The fused step is faster and verified, so the builder is written without `.fused(False)`, and the script runs
once more as a whole. Without a gain, or with weights that are more than rounding apart, nothing changes.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from fdl_cli.porter.ir.evidence import SpeedOutcome
from fdl_cli.porter.ir.findings import SpeedFinding
from fdl_cli.porter.port_loop import Proof, Proving, run_script, script_request
from fdl_cli.porter.project import Project

# As for `.step("auto")`: less is not worth other bits.
LEAST_GAIN: Final = 1.02
LEAST_PAIRS: Final = 5
_COMPILED: Final = (
    "compiled step: not measured, since compiling takes many times as long as this measurement; "
    '`.step("auto")` of a builder compiles and compares in the training itself'
)


def measure_training(project: Project, path: Path, proving: Proving, proof: Proof) -> Proof:
    """Measure the training step of a script, and let its builders use fused kernels if that is better."""
    if proving.measure is None:
        return proof
    if not project.draft(path).script.starts or not project.trains(path):
        detail = "nothing to measure: the file is no script with a training loop"
        return replace(proof, speed=SpeedFinding(status="not-measured", detail=detail))
    found = decide(proving.measure(script_request(project, path, proving)))
    if found.status != "faster":
        return replace(proof, speed=found)
    if not _is_built(project, path):
        return replace(proof, speed=replace(found, action=_by_hand(found)))
    return _written(project, path, proving, replace(proof, speed=found))


def _is_built(project: Project, path: Path) -> bool:
    made = project.draft(path)
    return any(loop.reached(made.level) == "builder" for loop in made.loops)


def _by_hand(found: SpeedFinding) -> str:
    return (
        f"to have it: `{found.optimizer}(..., fused=True)`, or `--fast --training builder`, "
        "which writes it where the loop moves to a builder"
    )


def _written(project: Project, path: Path, proving: Proving, proof: Proof) -> Proof:
    """Write the builders with fused kernels, and run the script; a different one is put back."""
    assert proof.speed is not None
    project.move_training(path, fused=frozenset(proof.speed.optimizer.split(", ")))
    script = run_script(project, path, proving, rounding=True)
    if script.status in {"equal", "close"}:
        action = "written: the builder is without `.fused(False)`"
        return replace(
            proof, script=script, speed=replace(proof.speed, action=action, written=True)
        )
    project.move_training(path)
    action = f"not written: the script so written was not verified: {script.detail}"
    return replace(proof, speed=replace(proof.speed, action=action))


def decide(outcome: SpeedOutcome) -> SpeedFinding:
    """Return what a measurement shows.

    Example:
        >>> found = decide(SpeedOutcome(own=(0.4,) * 5, fused=(0.2,) * 5, equality="rounding", steps=10))
        >>> found.status, found.ratio
        ('faster', 2.0)
    """
    trouble = _trouble(outcome)
    if trouble:
        return SpeedFinding(
            status="not-measured", detail=f"not measured: {trouble}", threads=outcome.threads
        )
    ratios = [own / max(new, 1e-9) for own, new in zip(outcome.own, outcome.fused, strict=False)]
    ratio = statistics.median(ratios)
    gains = ratio >= LEAST_GAIN and is_sure(ratios)
    found = SpeedFinding(
        status="faster" if gains else "no-gain",
        detail=_gain_words(outcome, ratio, gains=gains),
        proof=_proof_words(outcome),
        compiled=_COMPILED,
        optimizer=_names(outcome),
        own_ms=round(1000 * statistics.median(outcome.own), 4),
        fused_ms=round(1000 * statistics.median(outcome.fused), 4),
        ratio=round(ratio, 4),
        equality=outcome.equality,
        difference=_finite(outcome.difference),
        rounding=_finite(outcome.rounding),
        steps=outcome.steps,
        threads=outcome.threads,
    )
    if outcome.equality in {"equal", "rounding"}:
        return (
            found if gains else replace(found, action="nothing is written: it gains nothing here")
        )
    why = "it is not the same training" if outcome.equality else "it is not verified"
    return replace(found, status="different", action=f"nothing is written: {why}")


def is_sure(ratios: Sequence[float]) -> bool:
    """Return True if more pairs than chance show a gain: two standard deviations above the half of them.

    Example:
        >>> is_sure([1.3, 1.2, 0.9, 1.4, 1.2]), is_sure([1.3, 1.2, 1.1, 1.4, 1.2])
        (False, True)
    """
    share = sum(each > 1 for each in ratios) / len(ratios)
    return share >= min(1.0, 0.5 + 1 / math.sqrt(len(ratios)))


def _trouble(outcome: SpeedOutcome) -> str:
    """Return why a measurement shows nothing, if so."""
    first = _early_trouble(outcome)
    if first:
        return first
    if outcome.trouble.startswith("copy: ") and len(outcome.fused) < LEAST_PAIRS:
        return f"a copy of its step ended with {outcome.trouble.removeprefix('copy: ')}"
    if outcome.kernels and not any(item.startswith("fused ") for item in outcome.kernels):
        return _no_kernel(outcome.kernels)
    if min(len(outcome.own), len(outcome.fused)) >= LEAST_PAIRS:
        return ""
    if outcome.trouble == "time":
        return f"its steps take too long for the {outcome.limit_s:.0f} s that there are; add `--timeout`"
    return "the script takes too few optimizer steps"


def _early_trouble(outcome: SpeedOutcome) -> str:
    """Return why a script came to no step, if so."""
    if outcome.own or outcome.fused or outcome.kernels:
        return ""
    match outcome.trouble:
        case "":
            return "the script takes too few optimizer steps"
        case "finished":
            return "the script takes no backward pass, so there is no training step"
        case "time":
            return f"the script takes no training step within {outcome.limit_s:.0f} s; add `--timeout`"
        case error if error.startswith("copy: "):
            return ""
        case error:
            place = "" if outcome.line is None else f" (line {outcome.line})"
            return f"the script does not run here: {error}{place}"


def _no_kernel(kernels: tuple[str, ...]) -> str:
    names = ", ".join(dict.fromkeys(item.partition(" ")[2] for item in kernels))
    if all(item.startswith("already ") for item in kernels):
        return f"{names} uses its fused kernel already"
    return f"{names} has no fused kernel, or its settings leave it out"


def _names(outcome: SpeedOutcome) -> str:
    fused = (item.removeprefix("fused ") for item in outcome.kernels if item.startswith("fused "))
    return ", ".join(dict.fromkeys(fused))


def _gain_words(outcome: SpeedOutcome, ratio: float, *, gains: bool) -> str:
    own, fused = (_milliseconds(item) for item in (outcome.own, outcome.fused))
    count = min(len(outcome.own), len(outcome.fused))
    threads = "1 CPU thread" if outcome.threads == 1 else f"{outcome.threads} CPU threads"
    stubs = f", with stand-ins for {outcome.stubs}" if outcome.stubs else ""
    rest = f"{ratio:.2f} times as fast"
    if not gains:
        why = "steps vary more than that" if ratio >= LEAST_GAIN else "too little to count"
        rest = f"no sure gain: {rest}, {why}"
    return (
        f"your step: {own} -> {fused} with the fused {_names(outcome)} "
        f"({rest}; median of {count} steps on {threads}{stubs})"
    )


def _milliseconds(seconds: tuple[float, ...]) -> str:
    value = 1000 * statistics.median(seconds)
    return f"{value:.0f} ms" if value >= 100 else f"{value:.3g} ms"


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _proof_words(outcome: SpeedOutcome) -> str:
    steps = f"{outcome.steps} steps"
    one_more = f"one more rounding in each step makes {outcome.rounding:.1e}"
    match outcome.equality:
        case "equal":
            return f"verified: the weights are equal bit for bit after {steps}"
        case "rounding":
            return (
                f"verified: bits change, and the weights are within rounding after {steps}: "
                f"{outcome.difference:.1e} apart, relative to their size; {one_more}"
            )
        case "different":
            return (
                f"the weights are DIFFERENT after {steps}: a tensor is {outcome.difference:.1e} apart, "
                f"relative to its size; {one_more}"
            )
        case None:
            return (
                "not verified: the weights were not compared, as both variants did not come to the same "
                "number of steps, or the weights are larger than 512 MB"
            )
