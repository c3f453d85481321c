"""The few modules of our own: single-stream recurrences and attention, blur, and two constructors."""

import copy
import inspect

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import flodl
from flodl.nn import modules
from flodl.nn.blur import GaussianBlur, gaussian_blur_2d
from flodl.nn.single_stream import GRU, LSTM, MultiheadAttention

pytestmark = pytest.mark.torch


@pytest.mark.parametrize(("ours", "theirs"), [(GRU, nn.GRU), (LSTM, nn.LSTM)])
def test_recurrences_return_the_sequence(ours, theirs):
    torch.manual_seed(0)
    one = ours(3, 4, num_layers=2, batch_first=True)
    two = theirs(3, 4, num_layers=2, batch_first=True)
    two.load_state_dict(one.state_dict())
    x = torch.randn(2, 5, 3)
    assert torch.equal(one(x), two(x)[0])
    hidden = torch.randn(2, 2, 4) if ours is GRU else (torch.randn(2, 2, 4), torch.randn(2, 2, 4))
    assert torch.equal(one(x, hidden), two(x, hidden)[0])


@pytest.mark.parametrize("kind", [GRU, LSTM])
def test_weights_loaded_after_a_forward_are_used(kind):
    torch.manual_seed(0)
    one, two = kind(3, 4), kind(3, 4)
    x = torch.randn(5, 2, 3)
    one(x)
    one.load_state_dict(two.state_dict())
    assert torch.equal(one(x), two(x))
    one.double()
    assert one(x.double()).dtype == torch.float64


def test_attention_on_one_stream():
    torch.manual_seed(0)
    one = MultiheadAttention(8, 2)
    two = nn.MultiheadAttention(8, 2, batch_first=True)
    two.load_state_dict(one.state_dict())
    x, memory = torch.randn(3, 5, 8), torch.randn(3, 7, 8)
    torch.testing.assert_close(one(x), two(x, x, x)[0])
    torch.testing.assert_close(one(x, memory), two(x, memory, memory)[0])
    mask = torch.ones(5, 7, dtype=torch.bool).tril().logical_not()
    mask[:, 0] = False
    torch.testing.assert_close(
        one.forward_named(x, {"key": memory, "mask": mask}),
        two(x, memory, memory, attn_mask=mask)[0],
    )


@pytest.mark.parametrize(
    ("ours", "theirs", "needed"),
    [
        (MultiheadAttention, nn.MultiheadAttention, (8, 2)),
        (modules.InstanceNorm, nn.InstanceNorm2d, (8,)),
        (modules.Upsample, nn.Upsample, (8,)),
    ],
)
def test_layer_takes_every_setting_of_torchs_by_name(ours, theirs, needed):
    parameters = inspect.signature(theirs).parameters
    settings = [name for name, each in parameters.items() if each.default is not each.empty]
    settings = [name for name in settings if name not in ("size", "batch_first")]
    assert len(settings) >= 4
    for name in settings:
        ours(*needed, **{name: parameters[name].default})


def test_layers_are_made_on_a_device():
    assert modules.InstanceNorm(64, True, device="meta").weight.is_meta
    attention = MultiheadAttention(512, 8, device="meta", dtype=torch.float64, bias=False)
    assert attention.in_proj_weight.is_meta
    assert attention.in_proj_weight.dtype == torch.float64
    assert attention.in_proj_bias is None
    assert modules.Upsample(mode=1, scale_factor=2.0, align_corners=True).align_corners is True


def test_they_stand_in_a_flow():
    flow = (
        flodl.FlowBuilder.from_(GRU(3, 8, batch_first=True))
        .through(MultiheadAttention(8, 2))
        .build()
    )
    x = torch.randn(2, 4, 3)
    recurrence, attention = flow.children()
    assert torch.equal(flow(x), attention(recurrence(x)))


def test_blur_is_the_product_of_two_gaussians():
    x = torch.randn(2, 3, 12, 10, dtype=torch.float64)
    sigma = 0.8
    radius = 3
    offsets = torch.arange(-radius, radius + 1, dtype=torch.float64)
    row = torch.exp(-(offsets**2) / (2 * sigma**2))
    kernel = torch.outer(row, row)
    kernel = (kernel / kernel.sum()).expand(3, 1, 7, 7)
    expected = F.conv2d(x, kernel, padding=radius, groups=3)
    torch.testing.assert_close(gaussian_blur_2d(x, sigma), expected)
    assert torch.equal(GaussianBlur(sigma)(x), gaussian_blur_2d(x, sigma))


def test_blur_has_no_gradient_and_stands_in_a_flow():
    x = torch.randn(1, 1, 8, 8, requires_grad=True)
    assert not gaussian_blur_2d(x, 1.0).requires_grad
    flow = flodl.FlowBuilder.from_(GaussianBlur(1.0)).build()
    assert torch.equal(copy.deepcopy(flow)(x), gaussian_blur_2d(x, 1.0))


def test_blur_refuses_what_it_cannot_do():
    with pytest.raises(ValueError, match="sigma > 0"):
        GaussianBlur(0.0)
    with pytest.raises(ValueError, match="sigma > 0"):
        gaussian_blur_2d(torch.ones(1, 1, 4, 4), -1.0)
    with pytest.raises(ValueError, match="B, C, H, W"):
        gaussian_blur_2d(torch.ones(4, 4), 1.0)


def test_upsample_knows_modes_by_number():
    x = torch.randn(1, 2, 3, 3)
    for number, name in enumerate(("nearest", "bilinear")):
        assert torch.equal(modules.Upsample((6, 6), number)(x), nn.Upsample((6, 6), mode=name)(x))
    assert modules.Upsample(scale_factor=2)(x).shape == (1, 2, 6, 6)
    with pytest.raises(ValueError, match="mode 0"):
        modules.Upsample((6, 6), 2)


def test_instance_norm_takes_affine_second():
    layer = modules.InstanceNorm(3, True)
    assert isinstance(layer, nn.InstanceNorm2d)
    assert layer.weight.shape == (3,)


def test_modules_is_a_list_of_branches():
    branches = modules.modules(nn.ReLU(), nn.Tanh())
    assert [type(each) for each in branches] == [nn.ReLU, nn.Tanh]


def test_the_rest_is_torchs():
    shared = [name for name in vars(modules) if name in vars(nn) and name[0].isupper()]
    assert len(shared) > 50
    assert [name for name in shared if getattr(modules, name) is not getattr(nn, name)] == [
        "Upsample"
    ]


def test_a_class_stands_for_its_instance():
    layer = nn.Linear(3, 3)
    flow = flodl.FlowBuilder.from_(layer).through(nn.ReLU).build()
    x = torch.randn(2, 3)
    assert torch.equal(flow(x), layer(x).relu())
