"""torch's layers and activations under the names that flodl uses; all but three make torch's own classes."""

from __future__ import annotations

from typing import Any, Final

from torch import nn
from torch.nn import ELU as ELU
from torch.nn import GELU as GELU
from torch.nn import SELU as SELU
from torch.nn import AdaptiveAvgPool2d as AdaptiveAvgPool2d
from torch.nn import AlphaDropout as AlphaDropout
from torch.nn import AvgPool1d as AvgPool1d
from torch.nn import AvgPool2d as AvgPool2d
from torch.nn import BatchNorm1d as BatchNorm1d
from torch.nn import BatchNorm2d as BatchNorm2d
from torch.nn import Bilinear as Bilinear
from torch.nn import Dropout as Dropout
from torch.nn import Dropout2d as Dropout2d
from torch.nn import Embedding as Embedding
from torch.nn import EmbeddingBag as EmbeddingBag
from torch.nn import Flatten as Flatten
from torch.nn import GroupNorm as GroupNorm
from torch.nn import GRUCell as GRUCell
from torch.nn import Hardsigmoid as Hardsigmoid
from torch.nn import Hardswish as Hardswish
from torch.nn import Identity as Identity
from torch.nn import InstanceNorm2d as InstanceNorm2d
from torch.nn import LayerNorm as LayerNorm
from torch.nn import LeakyReLU as LeakyReLU
from torch.nn import Linear as Linear
from torch.nn import LogSoftmax as LogSoftmax
from torch.nn import LSTMCell as LSTMCell
from torch.nn import MaxPool1d as MaxPool1d
from torch.nn import MaxPool2d as MaxPool2d
from torch.nn import Mish as Mish
from torch.nn import Module as Module
from torch.nn import Parameter as Parameter
from torch.nn import PixelShuffle as PixelShuffle
from torch.nn import PixelUnshuffle as PixelUnshuffle
from torch.nn import ReflectionPad2d as ReflectionPad2d
from torch.nn import ReLU as ReLU
from torch.nn import RMSNorm as RMSNorm
from torch.nn import Sigmoid as Sigmoid
from torch.nn import SiLU as SiLU
from torch.nn import Softmax as Softmax
from torch.nn import Softplus as Softplus
from torch.nn import Tanh as Tanh
from torch.nn import ZeroPad2d as ZeroPad2d

from flodl.nn.positional import AdaptiveMaxPool2d as AdaptiveMaxPool2d
from flodl.nn.positional import Conv1d as Conv1d
from flodl.nn.positional import Conv2d as Conv2d
from flodl.nn.positional import Conv3d as Conv3d
from flodl.nn.positional import ConvTranspose1d as ConvTranspose1d
from flodl.nn.positional import ConvTranspose2d as ConvTranspose2d
from flodl.nn.positional import ConvTranspose3d as ConvTranspose3d
from flodl.nn.positional import Fold as Fold
from flodl.nn.positional import PReLU as PReLU
from flodl.nn.positional import Unfold as Unfold

BatchNorm = BatchNorm1d
"""`nn.BatchNorm1d`, for `[B, F]`; for images, the name is BatchNorm2d."""

_UPSAMPLE_MODES: Final = ("nearest", "bilinear")


class InstanceNorm(nn.InstanceNorm2d):
    """`nn.InstanceNorm2d` whose second argument is `affine`; the other settings are torch's, by name."""

    def __init__(self, num_features: int, affine: bool = False, **settings: Any) -> None:
        super().__init__(num_features, affine=affine, **settings)


class Upsample(nn.Upsample):
    """`nn.Upsample` that also takes the modes by number: 0 is nearest, 1 is bilinear.

    Its second argument is the mode, other settings are torch's, by name.
    """

    def __init__(
        self,
        size: int | tuple[int, ...] | None = None,
        mode: int | str = "nearest",
        **settings: Any,
    ) -> None:
        if isinstance(mode, int):
            if not 0 <= mode < len(_UPSAMPLE_MODES):
                raise ValueError(f"Upsample knows mode 0 (nearest) and 1 (bilinear), got {mode}")
            mode = _UPSAMPLE_MODES[mode]
        super().__init__(size=size, mode=mode, **settings)


def modules(*branches: nn.Module) -> list[nn.Module]:
    """Return the branches of a split as a list."""
    return list(branches)
