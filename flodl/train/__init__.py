"""The training loop: `Trainer` in three tiers. Knows data, steps and runs; a monitor only by its shape."""
