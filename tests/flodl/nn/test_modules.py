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


CPU = flodl.Device.CPU
# Per layer: positions as ported code writes them, and what torch's layer is then made with.
POSITIONAL = {
    "AdaptiveMaxPool2d": ((7, 5), ((7, 5),), {}),
    "Conv1d": ((4, 6, 3, True, 2, 1, 3, 2, CPU), (4, 6, 3, 2, 1, 3, 2, True), {}),
    "Conv2d": ((4, 6, 3, False, [2, 2], [1, 1], [3, 3], 2, CPU), (4, 6, 3, 2, 1, 3, 2, False), {}),
    "Conv3d": ((4, 6, [3, 3, 3], True), (4, 6, 3), {"bias": True}),
    "ConvTranspose1d": ((4, 6, 3, False, 2, 1, 1, 1, 2, CPU), (4, 6, 3, 2, 1, 1, 2, False, 1), {}),
    "ConvTranspose2d": ((4, 6, 3, True, [2, 2], [1, 1], [1, 1], [1, 1]), (4, 6, 3, 2, 1, 1), {}),
    "ConvTranspose3d": ((4, 6, [3, 3, 3], False), (4, 6, 3), {"bias": False}),
    "Fold": (
        ([8, 8], [3, 3], [2, 2], [1, 1], [2, 2]),
        ([8, 8], [3, 3], [2, 2], [1, 1], [2, 2]),
        {},
    ),
    "PReLU": ((3, CPU), (3,), {"device": CPU}),
    "Unfold": (([3, 3], [1, 1], [0, 0], [1, 1]), ([3, 3], [1, 1], [0, 0], [1, 1]), {}),
}


@pytest.mark.parametrize("name", POSITIONAL)
def test_layer_ported_positions_make_torchs_layer(name):
    ported, positions, named = POSITIONAL[name]
    made = getattr(modules, name)(*ported)
    expected = getattr(nn, name)(*positions, **named)
    assert type(made) is getattr(nn, name)
    assert repr(made) == repr(expected)
    shapes = [[tuple(each.shape) for each in layer.parameters()] for layer in (made, expected)]
    assert shapes[0] == shapes[1]


@pytest.mark.parametrize("name", POSITIONAL)
def test_layer_torchs_own_arguments_pass_through(name):
    _, positions, named = POSITIONAL[name]
    kind, torchs = getattr(modules, name), getattr(nn, name)
    assert repr(kind(*positions, **named)) == repr(torchs(*positions, **named))
    assert inspect.signature(kind) == inspect.signature(torchs)
    assert isinstance(torchs(*positions, **named), kind)
    assert not isinstance(nn.ReLU(), kind)


def test_unfold_lists_whose_order_matters_raise():
    with pytest.raises(
        TypeError, match=r"Unfold: three lists by position .* dilation=\[2, 2\], padding="
    ):
        modules.Unfold([3, 3], [2, 2], [1, 1], [1, 1])
    with pytest.raises(TypeError, match="Fold: three lists by position"):
        modules.Fold([8, 8], [3, 3], [2, 2], [1, 1], [1, 1])
    layer = modules.Unfold([3, 3], stride=[2, 2], padding=[1, 1], dilation=[1, 1])
    assert (layer.stride, layer.dilation) == ([2, 2], [1, 1])
    assert modules.Unfold(3, 2, 1, 1).dilation == 2
    with pytest.raises(TypeError, match="at most 9 positions, got 10"):
        modules.Conv2d(4, 6, 3, True, 1, 1, 1, 1, CPU, None)


def test_layer_class_derived_from_a_name_is_a_class():
    class Halved(modules.Conv2d):
        def __init__(self, channels):
            super().__init__(channels, channels // 2, 3)

    layer = Halved(4)
    assert type(layer) is Halved
    assert isinstance(layer, modules.Conv2d)
    assert not isinstance(nn.Conv2d(4, 2, 3), Halved)
    assert list(inspect.signature(Halved).parameters) == ["channels"]


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
    own = [name for name in shared if getattr(modules, name) is not getattr(nn, name)]
    assert sorted(own) == sorted(["Upsample", *POSITIONAL])
    for name in POSITIONAL:
        assert isinstance(getattr(modules, name), type)
        assert issubclass(getattr(nn, name), getattr(modules, name))


def test_a_class_stands_for_its_instance():
    layer = nn.Linear(3, 3)
    flow = flodl.FlowBuilder.from_(layer).through(nn.ReLU).build()
    x = torch.randn(2, 3)
    assert torch.equal(flow(x), layer(x).relu())
