"""One side of a comparison: the process that runs user code, what it observes, and its messages."""
