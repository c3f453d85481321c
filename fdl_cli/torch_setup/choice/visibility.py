"""The environment variable that hides every GPU from torch, if there is one.

Before: CUDA_VISIBLE_DEVICES=3 on a machine with one GPU
After:  CUDA_VISIBLE_DEVICES, because the list ends at its first entry that is no GPU
"""

import re
from typing import Final

from fdl_cli.system.facts import SystemFacts

NVIDIA: Final = ("CUDA_VISIBLE_DEVICES",)
# ROCm honours its own names and, for programs written for CUDA, that one too.
AMD: Final = ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")


def hiding_variable(
    facts: SystemFacts, names: tuple[str, ...], count: int | None
) -> tuple[str, str] | None:
    """Return the variable that hides all GPUs and its value; None when some stay visible.

    `count` is how many GPUs there are, None when only a selection of them is known.
    """
    for name in names:
        value = facts.variable(name)
        if value is not None and hides_all(value, count):
            return name, value
    return None


def hides_all(value: str, count: int | None) -> bool:
    """Return True if a list of visible devices is empty: it ends at its first entry that is none.

    Example:
        >>> hides_all("-1,0", 1), hides_all("3", 2), hides_all("1", 2), hides_all("3", None)
        (True, True, False, False)
    """
    first = value.split(",", maxsplit=1)[0].strip()
    if first.startswith(("GPU-", "MIG-")):
        return False
    number = re.match(r"[+-]?\d+", first)
    if number is None:
        return True
    index = int(number.group())
    return index < 0 or (count is not None and index >= count)
