"""A loop of your own in one of several processes: each takes its share of the batches."""
