"""The import of torch, without its warning where numpy is not installed.

torch says so at its own import, which nobody who imports flodl has written; everything but the functions on
numpy arrays works, and those raise an error of their own.
"""

import warnings

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", message="Failed to initialize NumPy", category=UserWarning)
    import torch as torch
