"""The purposes by which public names are grouped, from where they are defined."""

from typing import Final

# The longest prefix that fits decides; the order is the order of the printed groups.
CATEGORIES: Final[tuple[tuple[str, str], ...]] = (
    ("Writing flows", "flodl.tracing"),
    ("Writing flows", "flodl.vocabulary"),
    ("Writing flows", "flodl.module"),
    ("Writing flows", "flodl.builder"),
    ("Merging branches", "flodl.nodes.merge"),
    ("Writing flows", "flodl.nodes.field"),
    ("Building blocks", "flodl.nodes"),
    ("Building blocks", "flodl.nn.routers"),
    ("Graphs", "flodl.graph"),
    ("Graphs", "flodl.builder.graph"),
    ("Graphs", "flodl.inspect"),
    ("Descriptions", "flodl.ir"),
    ("Pictures", "flodl.visual"),
    ("Layers", "flodl.nn"),
    ("Layers", "torch.nn"),
    ("Losses", "flodl.nn.loss"),
    ("Losses", "flodl.nn.losses"),
    ("Optimizers", "flodl.nn.optim"),
    ("Optimizers", "flodl.nn.optimizers"),
    ("Schedulers", "flodl.nn.schedul"),
    ("Initialisation", "flodl.nn.init"),
    ("Parameters", "flodl.nn.parameters"),
    ("Parameters", "torch.nn.Parameter"),
    ("Mixed precision", "flodl.nn.precision"),
    ("Random numbers", "flodl.nn.rng"),
    ("Devices and memory", "flodl.nn.devices"),
    ("Devices and memory", "flodl.nn.gpu"),
    ("CUDA graphs", "flodl.nn.cuda_graphs"),
    ("Tensor operations", "flodl.ops"),
    ("Gradients", "flodl.autograd"),
    ("Gradients", "torch.is_grad_enabled"),
    ("Tensors and devices", "flodl.tensor"),
    ("Tensors and devices", "torch"),
    ("Checkpoints", "flodl.checkpoint"),
    ("Observation", "flodl.observe"),
    ("Monitoring", "flodl.monitor"),
    ("Monitoring", "flodl.log"),
    ("Data", "flodl.data"),
    ("Training", "flodl.train"),
    ("Training", "flodl.step"),
    ("Training", "flodl.runs"),
    ("Many devices", "flodl.distributed"),
    ("Hugging Face", "flodl.hf"),
    ("Values and their parts", "flodl.pytree"),
    ("Errors", "flodl.errors"),
)
OTHER: Final = "Other"


def category_of(module: str) -> str:
    """Return the purpose of a module's definitions.

    Example:
        >>> category_of("flodl.nodes.merge")
        'Merging branches'
    """
    best, length = OTHER, 0
    for title, prefix in CATEGORIES:
        if module.startswith(prefix) and len(prefix) > length:
            best, length = title, len(prefix)
    return best


def category_order(title: str) -> int:
    """Return the position of a group in a listing."""
    titles = [name for name, _ in CATEGORIES]
    return titles.index(title) if title in titles else len(titles)
