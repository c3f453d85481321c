"""Trees, tags, metrics, times, pictures and checkpoints of any module."""
