"""Metrics of runs on disk and in memory: frames, segments, series, records."""
