"""Tables about torch and Python: which names mean what; no decisions."""
