"""Runs on disk: one directory per training run. Knows files and the machine, no loop and no monitor."""
