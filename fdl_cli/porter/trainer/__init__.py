"""Training loops become `Trainer` steps or builders: recognition, moves and refusals."""
