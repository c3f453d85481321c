"""Regions of a recorded step: stretches of operations that repeat are compiled once and called often.

Example:
    A step of a transformer with 12 layers is recorded as one list of 3,852 nodes:
        embed  layer layer ... layer  loss  back back ... back  update update ... update
    The operations of each layer are the same; only the tensors that they work on differ. The list
    becomes a few regions and a chain of calls:
        embed(tokens) -> a;  layer(a, weights of layer 0) -> b;  layer(b, weights of layer 1) -> c; ...
    The compiler sees each region once: a fifth of the operations.

`torch.compile` calls this regional compilation, and leaves the choice of the regions to the user:
https://docs.pytorch.org/tutorials/recipes/regional_compilation.html
"""
