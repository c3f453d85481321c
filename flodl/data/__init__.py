"""Batches for training: any data set, an order that is a pure function, on the device or on its way there."""
