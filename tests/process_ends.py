"""Ends of processes that a test waits for."""

import os
import time


def is_gone(pid, seconds=10.0):
    """Return True if a process ends within some seconds."""
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    return False
