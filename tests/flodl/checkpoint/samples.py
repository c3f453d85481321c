"""Models and tensors that the checkpoint tests save."""

import io

import torch
from torch import nn

from flodl.checkpoint.store import save


def net(seed=0, width=4):
    torch.manual_seed(seed)
    model = nn.Sequential(
        nn.Linear(3, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, 2)
    )
    model(torch.randn(5, 3))
    return model


def every_dtype():
    torch.manual_seed(1)
    floats = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
    tensors = {str(dtype)[6:]: torch.randn(3, 2).to(dtype) for dtype in floats}
    integers = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16)
    tensors |= {str(dtype)[6:]: torch.arange(5).to(dtype) for dtype in integers}
    tensors["bool"] = torch.tensor([True, False, True])
    tensors["complex64"] = torch.randn(2, dtype=torch.complex64)
    tensors["float8"] = torch.randn(4).to(torch.float8_e4m3fn)
    tensors["scalar"] = torch.tensor(3.5)
    tensors["empty"] = torch.empty(0, 4)
    return tensors


def saved(model, **settings):
    stream = io.BytesIO()
    save(model, stream, **settings)
    return stream.getvalue()


def same(first, second):
    one, two = first.state_dict(), second.state_dict()
    return list(one) == list(two) and all(
        torch.equal(a, b) for a, b in zip(one.values(), two.values(), strict=True)
    )
