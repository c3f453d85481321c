"""Training parts under flodl's names: losses, optimizers, schedules, precision; no graphs here."""
