"""Steps as CUDA graphs; without a GPU they are refused with what to do instead."""

import pytest
import torch
from torch import nn

from flodl.data.batch import Batch
from flodl.errors import DeviceError
from flodl.nn.optimizers import SGD, Adam
from flodl.step.batch_key import read, rebuilt
from flodl.step.step import make_step
from tests.flodl.step.helpers import batches, net, train_fn

pytestmark = pytest.mark.torch
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")


def test_a_model_on_the_cpu_is_refused():
    model = net()
    with pytest.raises(DeviceError, match="use mode='compiled' or 'auto'"):
        make_step(model, Adam(model), train_fn, mode="graph")


def test_batches_keep_their_form_with_other_tensors():
    batch = {"x": torch.ones(1), "rest": [torch.ones(2), (torch.ones(3), "name", None)]}
    tensors, key = read(batch)
    twin = rebuilt(batch, iter([each * 2 for each in tensors]))
    assert [float(each.sum()) for each in read(twin)[0]] == [2.0, 4.0, 6.0]
    assert read(twin)[1] == key
    named = Batch((torch.ones(1), torch.ones(2)), names=("image", "label"))
    tensors, key = read(named)
    twin = rebuilt(named, iter([each * 2 for each in tensors]))
    assert float(twin["label"].sum()) == 4.0
    assert read(twin)[1] == key != read(tuple(tensors))[1]


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("clip", [None, 0.1])
@pytest.mark.parametrize("optimizer", [Adam, SGD])
def test_a_graph_is_bit_identical_to_eager(optimizer, clip):
    found = []
    for mode in ("graph", "eager"):
        model = net().cuda()
        model.append(nn.Dropout(0.1))
        step = make_step(model, optimizer(model, 0.01), train_fn, mode=mode, clip_norm=clip)
        torch.manual_seed(3)
        found.append(torch.stack([step((x.cuda(), y.cuda())) for x, y in batches(100)]))
        assert step.mode == mode, step.decision
    assert torch.equal(*found)


@pytest.mark.gpu
@needs_gpu
def test_rates_reach_the_recorded_kernels():
    model = net().cuda()
    optimizer = SGD(model, 0.1)
    step = make_step(model, optimizer, train_fn, mode="graph")
    for x, y in batches():
        step((x.cuda(), y.cuda()))
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    before = model[0].weight.clone()
    step(tuple(each.cuda() for each in batches(1)[0]))
    assert step.mode == "graph"
    assert torch.equal(model[0].weight, before)
