"""Ranks on the CPU, also where there are GPUs: a number of devices would mean these."""

import pytest
import torch


@pytest.fixture(autouse=True, scope="module")
def no_gpus():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.cuda, "device_count", lambda: 0)
        patch.setattr(torch.cuda, "is_available", lambda: False)
        yield
