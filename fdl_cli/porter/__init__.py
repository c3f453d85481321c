"""The porter: PyTorch source becomes the same program on flow graphs; never imports torch.

Its stages are independent and speak to each other in `ir`; `pipeline` has their order.
"""
