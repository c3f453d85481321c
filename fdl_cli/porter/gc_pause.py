"""Python's search for cycles, left out while a file is read and its port is made.

The trees of a file are hundreds of thousands of objects, which hold no cycles and live to the end:
to look through all of them again and again takes a quarter of the time of a port.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_collection() -> Iterator[None]:
    """Free unreferenced objects, and look for no cycles until the end."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
