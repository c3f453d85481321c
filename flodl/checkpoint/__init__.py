"""Checkpoints that cannot run code, notice every flipped bit, and are either old or new, never half."""
