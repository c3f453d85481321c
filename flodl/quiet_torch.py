"""The import of torch, without its warning where numpy is not installed.

torch warns at its import, although users of flodl may not need numpy; everything but the functions on
numpy arrays works, and those raise their own error.
"""

import warnings

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", message="Failed to initialize NumPy", category=UserWarning)
    import torch as torch
