"""Choice of a torch build: facts, constraints and an index in, one build out, with the reason."""
