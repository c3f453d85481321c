"""Location of the reference's index, and the quick look-up of one name in it.

People and assistants call `fdl api-ref NAME` often; this module answers it with next
to no imports, from texts that were rendered when the index was built. (`pathlib` alone would
take as long as everything else here.)
"""

import os
from collections.abc import Mapping
from typing import Any, Final

PACKAGE_FOLDER: Final = os.path.dirname(os.path.abspath(__file__))
PACKAGED: Final = os.path.join(PACKAGE_FOLDER, "data", "api_index.json")
SOURCE_ROOT: Final = os.path.dirname(os.path.dirname(PACKAGE_FOLDER))


def quick_text(name: str, cache_folder: str | None) -> str | None:
    """Return the reference of one name, or nothing when the long way must be taken."""
    stored = None if cache_folder is None else read_stored(cache_folder)
    if stored is None:
        return None
    texts: dict[str, str] = stored["texts"]
    return texts.get(name)


def read_stored(cache_folder: str) -> dict[str, Any] | None:
    """Return the stored index: that of the wheel, or the cached one if it is still true."""
    import json  # TAB needs the folder only, and reads nothing

    packaged = os.path.exists(PACKAGED)
    path = PACKAGED if packaged else cache_path(cache_folder)
    try:
        with open(path, encoding="utf-8") as stream:
            stored: dict[str, Any] = json.load(stream)
    except (OSError, ValueError):
        return None
    if not packaged and stored.get("state") != source_state():
        return None
    return stored


def cache_path(cache_folder: str) -> str:
    """Return where the index of this checkout is cached."""
    key = SOURCE_ROOT.strip("/\\").replace(os.sep, "-").replace(":", "")[-120:]
    return os.path.join(cache_folder, "api-ref", f"{key}.json")


def source_state() -> str:
    """Return a text that changes whenever a source of the reference does."""
    newest = count = total = 0
    pending = [os.path.join(SOURCE_ROOT, "flodl"), PACKAGE_FOLDER]
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                if entry.is_dir():
                    if entry.name != "__pycache__":
                        pending.append(entry.path)
                elif entry.name.endswith((".py", ".json")):
                    facts = entry.stat()
                    newest = max(newest, facts.st_mtime_ns)
                    total += facts.st_size
                    count += 1
    return f"{newest}-{count}-{total}"


def quick_cache(environ: Mapping[str, str]) -> str | None:
    """Return the cache folder where it is plain to see; nothing when the long way knows better."""
    own = environ.get("FLODL_HOME")
    if own:
        return os.path.join(own, "cache")
    xdg = environ.get("XDG_CACHE_HOME", "")
    if xdg.startswith("/"):
        return os.path.join(xdg, "flodl")
    home = environ.get("HOME", "")
    if os.name == "posix" and os.uname().sysname == "Linux" and home:
        return os.path.join(home, ".cache", "flodl")
    return None
