"""Constraints that a person may have for a torch, and the shape of the answer."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, final

from fdl_cli.errors import UsageError

_VARIANT = re.compile(r"cpu|xpu|cu\d{3}|rocm\d+(\.\d+)+")
_VERSION = re.compile(r"\d+\.\d+(\.\d+)?")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Constraints:
    """The request: every field is None (or empty) where the machine shall decide.

    `gpus` are indices or UUIDs. `gpu_target` and `driver_target` describe another machine, for
    which an image is built; they replace the facts of this one.
    """

    torch: str | None = None
    variant: str | None = None
    gpus: tuple[str, ...] = ()
    gpu_target: tuple[tuple[int, int], ...] = ()
    driver_target: str | None = None
    strict: bool = False

    @property
    def automatic(self) -> bool:
        """Return True if neither a version nor a variant is wished for."""
        return self.torch is None and self.variant is None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceWarning:
    """Something to know about a choice; `code` is stable, snake_case and documented."""

    code: str
    message: str
    hint: str


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TorchChoice:
    """The build to install, with the reason and everything that is worth a warning.

    `torch` has no local tag. `covers` are the GPUs that the build has machine code for,
    `left_out` those of the selection that it has none for. `sm` is what the build must carry,
    so that the proof can compare. `verified` is false when the machine code is an inference, or no
    index confirmed the build.
    """

    torch: str
    variant: str
    why: str
    warnings: tuple[ChoiceWarning, ...]
    covers: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    sm: tuple[str, ...] = ()
    certainty: str = ""
    verified: bool = True

    @property
    def name(self) -> str:
        """Return `2.14.1+cu126`."""
        return f"{self.torch}+{self.variant}"

    @property
    def codes(self) -> tuple[str, ...]:
        """Return the codes of the warnings."""
        return tuple(warning.code for warning in self.warnings)


def variant_of_cuda(text: str) -> str:
    """Turn `12.8` into `cu128`.

    Raises:
        UsageError: it is no CUDA version.
    """
    found = re.fullmatch(r"(\d{2})\.(\d)", text.strip())
    if found is None:
        raise _wrong("--cuda", text, "a CUDA version such as 12.8")
    return f"cu{found.group(1)}{found.group(2)}"


def make_wishes(values: Mapping[str, str]) -> Constraints:
    """Check the words of a request; unknown keys are refused, not ignored.

    Raises:
        UsageError: a word is not understood.
    """
    known = {
        "variant",
        "torch_version",
        "torch",
        "cuda",
        "cpu",
        "gpu",
        "gpus",
        "gpu_target",
        "driver_target",
        "strict",
    }
    for key in values:
        if key not in known:
            raise _wrong("request", key, f"one of {', '.join(sorted(known))}")
    torch = values.get("torch_version") or values.get("torch") or None
    if torch is not None:
        # `2.14.1+cu126` is how torch writes itself: the tag wishes for the variant.
        torch, _, tag = torch.partition("+")
        if not _VERSION.fullmatch(torch):
            raise _wrong("--torch", torch, "a version such as 2.14.1 or 2.14")
    else:
        tag = ""
    variant = values.get("variant") or tag or None
    if "cuda" in values:
        variant = _same(variant, variant_of_cuda(values["cuda"]))
    if values.get("cpu", "").lower() in ("true", "1"):
        variant = _same(variant, "cpu")
    if variant is not None and not _VARIANT.fullmatch(variant):
        raise _wrong("--variant", variant, "cpu, xpu, cu126, rocm7.2 ...")
    targets = values.get("gpu_target", "")
    return Constraints(
        torch=torch,
        variant=variant,
        gpus=_words(values.get("gpu") or values.get("gpus") or ""),
        gpu_target=tuple(_capability(word) for word in _words(targets)),
        driver_target=values.get("driver_target") or None,
        strict=values.get("strict", "").lower() in ("true", "1"),
    )


# Meaning of the words for another machine that an image is built for.
NEWEST_DRIVER: Final = (99, 0)


def _words(text: str) -> tuple[str, ...]:
    return tuple(word for word in re.split(r"[,\s]+", text) if word)


def _capability(word: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d{1,2})\.(\d)", word)
    if found is None:
        raise _wrong("--gpu-target", word, "compute capabilities such as 8.6,12.0")
    return int(found.group(1)), int(found.group(2))


def _same(first: str | None, second: str) -> str:
    if first is not None and first != second:
        raise UsageError(
            error_id="wishes-conflict",
            message=f"two variants are asked for: `{first}` and `{second}`",
            hint="name one of them with `--variant`",
        )
    return second


def _wrong(option: str, value: str, expected: str) -> UsageError:
    return UsageError(
        error_id="wish-unreadable",
        message=f"`{option}` got `{value}`, expected {expected}",
        hint="see `fdl setup --help`",
    )
