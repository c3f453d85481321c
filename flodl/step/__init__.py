"""One training step - forward, loss, backward, clip, update - as fast as this machine can do it."""
