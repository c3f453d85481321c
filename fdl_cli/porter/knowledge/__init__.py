"""Tables about torch and Python: the meaning of names; no decisions."""
