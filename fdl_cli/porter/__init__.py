"""The porter: reads PyTorch source, decides and writes flow graphs, and proves them equal.

A library: it must not know the terminal, the network, docker, torch or flodl.
"""
