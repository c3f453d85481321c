"""`FlowModule` and its generated forward; knows nothing of the builder."""
