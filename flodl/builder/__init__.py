"""`FlowBuilder`, a graph as a value, and its lowering to a description."""
