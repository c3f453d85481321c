"""Training of one model by several processes with the numbers of one: policy Sync. Alpha."""
