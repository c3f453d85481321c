"""The named models of two packages from PyPI that are ported and compared, with small inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

# What "verified" means, by the names of the checks.
SEVEN = (
    "eval output",
    "second batch size",
    "train output",
    "gradients",
    "state_dict",
    "initial weights",
    "buffers",
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PackageModel:
    """A model: the file it is in, the class it has, and an `--example` that makes and calls it."""

    package: str
    module: str
    class_name: str
    example: str

    @property
    def name(self) -> str:
        """Return a short name for reports."""
        return f"{self.package}-{self.example.partition('(')[0]}"


def _pytorchcv(module: str, class_name: str, factory: str, size: int) -> PackageModel:
    return PackageModel(
        package="pytorchcv",
        module=f"models/{module}.py",
        class_name=class_name,
        example=f"{factory}(in_size=({size}, {size})): torch.randn(2, 3, {size}, {size})",
    )


def _perceiver(module: str, class_name: str, example: str) -> PackageModel:
    return PackageModel(
        package="perceiver_pytorch", module=f"{module}.py", class_name=class_name, example=example
    )


PYTORCHCV: tuple[PackageModel, ...] = (
    _pytorchcv("resnet_cifar", "CIFARResNet", "resnet20_cifar10", 32),
    _pytorchcv("preresnet_cifar", "CIFARPreResNet", "preresnet20_cifar10", 32),
    _pytorchcv("seresnet_cifar", "CIFARSEResNet", "seresnet20_cifar10", 32),
    _pytorchcv("sepreresnet_cifar", "CIFARSEPreResNet", "sepreresnet20_cifar10", 32),
    _pytorchcv("densenet_cifar", "CIFARDenseNet", "densenet40_k12_cifar10", 32),
    _pytorchcv("nin_cifar", "CIFARNIN", "nin_cifar10", 32),
    _pytorchcv("resdropresnet_cifar", "CIFARResDropResNet", "resdropresnet20_cifar10", 32),
    _pytorchcv("shakedropresnet_cifar", "CIFARShakeDropResNet", "shakedropresnet20_cifar10", 32),
    _pytorchcv("diaresnet_cifar", "CIFARDIAResNet", "diaresnet20_cifar10", 32),
    _pytorchcv("diapreresnet_cifar", "CIFARDIAPreResNet", "diapreresnet20_cifar10", 32),
    _pytorchcv("resneta", "ResNetA", "resneta10", 32),
    _pytorchcv("regnet", "RegNet", "regnetx002", 32),
    _pytorchcv("mobilenet", "MobileNet", "mobilenet_wd4", 224),
    _pytorchcv("fdmobilenet", "MobileNet", "fdmobilenet_wd4", 224),
    _pytorchcv("mobilenetv2", "MobileNetV2", "mobilenetv2_wd4", 224),
    _pytorchcv("shufflenet", "ShuffleNet", "shufflenet_g1_wd4", 224),
    _pytorchcv("shufflenetv2", "ShuffleNetV2", "shufflenetv2_wd2", 224),
    _pytorchcv("shufflenetv2b", "ShuffleNetV2b", "shufflenetv2b_wd2", 224),
    _pytorchcv("squeezenet", "SqueezeNet", "squeezenet_v1_1", 224),
    _pytorchcv("resnet", "ResNet", "resnet18_wd4", 224),
    _pytorchcv("darknet", "DarkNet", "darknet_ref", 224),
    _pytorchcv("erfnet", "ERFNet", "erfnet_cityscapes", 64),
    _pytorchcv("edanet", "EDANet", "edanet_cityscapes", 64),
    _pytorchcv("enet", "ENet", "enet_cityscapes", 64),
    _pytorchcv("esnet", "ESNet", "esnet_cityscapes", 64),
    _pytorchcv("lednet", "LEDNet", "lednet_cityscapes", 64),
    _pytorchcv("cgnet", "CGNet", "cgnet_cityscapes", 64),
    _pytorchcv("dabnet", "DABNet", "dabnet_cityscapes", 64),
    _pytorchcv("fpenet", "FPENet", "fpenet_cityscapes", 64),
    _pytorchcv("linknet", "LinkNet", "linknet_cityscapes", 64),
    _pytorchcv("contextnet", "ContextNet", "ctxnet_cityscapes", 64),
    _pytorchcv("fastscnn", "FastSCNN", "fastscnn_cityscapes", 64),
    _pytorchcv("bisenet", "BiSeNet", "bisenet_resnet18_celebamaskhq", 64),
    _pytorchcv("unet", "UNet", "unet_cityscapes", 32),
    _pytorchcv("resnesta", "ResNeStA", "resnestabc14", 32),
    _pytorchcv("menet", "MENet", "menet108_8x1_g3", 224),
    _pytorchcv("octresnet", "OctResNet", "octresnet10_ad2", 224),
    PackageModel(
        package="pytorchcv",
        module="models/superpointnet.py",
        class_name="SuperPointNet",
        example="superpointnet(transpose_descriptors=False): torch.randn(2, 1, 32, 32)",
    ),
)

PERCEIVER: tuple[PackageModel, ...] = (
    _perceiver(
        "perceiver_pytorch",
        "Perceiver",
        "Perceiver(num_freq_bands=3, max_freq=8.0, depth=2, input_channels=3, num_latents=6,"
        " latent_dim=12, latent_heads=2, cross_dim_head=4, latent_dim_head=4, num_classes=5,"
        " attn_dropout=0.1, ff_dropout=0.1): torch.randn(2, 5, 4, 3)",
    ),
    _perceiver(
        "perceiver_io",
        "PerceiverIO",
        "PerceiverIO(depth=2, dim=10, queries_dim=6, logits_dim=4, num_latents=5, latent_dim=8,"
        " cross_dim_head=4, latent_dim_head=4, latent_heads=2): torch.randn(2, 7, 10),"
        " queries=torch.randn(3, 6)",
    ),
    _perceiver(
        "perceiver_io",
        "PerceiverLM",
        "PerceiverLM(dim=8, num_tokens=11, max_seq_len=9, depth=1, num_latents=4,"
        " latent_dim=8, cross_dim_head=4, latent_dim_head=4, latent_heads=2):"
        " torch.randint(0, 11, (2, 9))",
    ),
    _perceiver(
        "gated",
        "Perceiver",
        "Perceiver(num_freq_bands=2, max_freq=4.0, depth=1, input_channels=2, num_latents=4,"
        " latent_dim=8, latent_heads=2, cross_dim_head=4, latent_dim_head=4, num_classes=3):"
        " torch.randn(2, 6, 5, 2)",
    ),
    _perceiver(
        "mixed_latents",
        "Perceiver",
        "Perceiver(num_freq_bands=2, max_freq=4.0, depth=1, input_channels=2, num_latents=4,"
        " latent_dim=8, latent_heads=2, cross_dim_head=4, latent_dim_head=4, num_classes=3):"
        " torch.randn(2, 6, 5, 2)",
    ),
    _perceiver(
        "experimental",
        "Perceiver",
        "Perceiver(num_freq_bands=3, max_freq=4.0, depth=1, fourier_encode_data=False,"
        " input_channels=2, num_latents=4,"
        " latent_dim=8, latent_heads=2, cross_dim_head=4, latent_dim_head=4, num_classes=3):"
        " torch.randn(2, 6, 5, 2)",
    ),
)

MODELS: tuple[PackageModel, ...] = (*PYTORCHCV, *PERCEIVER)
