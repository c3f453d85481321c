"""Families of transformers by name, as ported modules.

`port("bert")` -> the module `flodl.hf.ported.modeling_bert`.  The first call proves it on a tiny
configuration.
"""

from __future__ import annotations

import difflib
import importlib.util
import warnings
from pathlib import Path
from types import ModuleType

from flodl.hf.cache import HuggingFaceError, cache_folder, ported, require, store
from flodl.hf.proof import prove


def port(family: str) -> ModuleType:
    """Return the ported module of a family of transformers.

    The first call ports the file and compares original and port on a tiny configuration, bit for bit, in eval
    and in train mode.  A warning says if there is no such proof, and why.

    Args:
        family: the name of the family's folder in transformers, such as `bert` or `deberta_v2`.

    Raises:
        HuggingFaceError: transformers is missing, the family is unknown, or the port is not equal.

    Example:
        >>> import flodl.hf
        >>> try:
        ...     flodl.hf.port("brt")
        ... except flodl.hf.HuggingFaceError:
        ...     print("no such family, or no transformers")
        no such family, or no transformers
    """
    require()
    name = family.replace("-", "_")
    known = families()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=3)
        hint = (
            f"; did you mean {' or '.join(near)}?"
            if near
            else f"; there are {len(known)} families"
        )
        raise HuggingFaceError(f"transformers {require()} has no family {family!r}{hint}")
    original = f"transformers.models.{name}.modeling_{name}"
    module, record = ported(original)
    if "proof" not in record:
        record["proof"] = prove(original, module)
        store(cache_folder(), f"modeling_{name}", record)
    if record["proof"] == "different":
        raise HuggingFaceError(
            f"the port of {name} computes other values; please report the family"
        )
    if record["proof"] != "equal":
        warnings.warn(f"the port of {name} is not proved: {record['proof']}", stacklevel=2)
    return module


def families() -> list[str]:
    """Return the names of the families that have a model file."""
    spec = importlib.util.find_spec("transformers")
    places = spec.submodule_search_locations if spec else None
    if not places:
        return []
    folder = Path(next(iter(places))) / "models"
    return sorted(
        each.name for each in folder.iterdir() if (each / f"modeling_{each.name}.py").is_file()
    )
