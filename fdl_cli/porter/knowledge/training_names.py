"""The calls that training scripts are made of, by the block that they belong to."""

from typing import Final

# The sections of a report, in its order.
KINDS: Final = (
    "data", "device", "distributed", "seed", "loss", "optimizer", "scheduler", "amp", "loop",
    "backward", "clipping", "accumulation", "evaluation", "checkpoint", "logging",
)  # fmt: skip

PREFIXES: Final = (
    ("torch.optim.lr_scheduler.", "scheduler"),
    ("torch.optim.swa_utils.", "optimizer"),
    ("torch.optim.", "optimizer"),
    ("transformers.get_", "scheduler"),
    ("torch.utils.data.distributed.", "distributed"),
    ("torch.utils.data.", "data"),
    ("torchvision.datasets.", "data"),
    ("torchvision.transforms.", "data"),
    ("torchtext.", "data"),
    ("datasets.load_dataset", "data"),
    ("torch.cuda.amp.", "amp"),
    ("torch.amp.", "amp"),
    ("torch.autocast", "amp"),
    ("torch.nn.parallel.", "distributed"),
    ("torch.nn.DataParallel", "distributed"),
    ("torch.distributed.", "distributed"),
    ("torch.multiprocessing.", "distributed"),
    ("accelerate.", "distributed"),
    ("torch.nn.utils.clip_grad", "clipping"),
    ("torch.save", "checkpoint"),
    ("torch.load", "checkpoint"),
    ("torch.manual_seed", "seed"),
    ("torch.cuda.manual_seed", "seed"),
    ("random.seed", "seed"),
    ("numpy.random.seed", "seed"),
    ("torch.no_grad", "evaluation"),
    ("torch.inference_mode", "evaluation"),
    ("torch.device", "device"),
    ("torch.cuda.is_available", "device"),
    ("torch.cuda.set_device", "device"),
    ("torch.utils.tensorboard.", "logging"),
    ("tensorboardX.", "logging"),
    ("wandb.", "logging"),
    ("mlflow.", "logging"),
    ("tqdm.", "logging"),
    ("logging.", "logging"),
)

METHODS: Final = {
    "backward": "backward",
    "zero_grad": "optimizer",
    "step": "optimizer",
    "load_state_dict": "checkpoint",
    "eval": "evaluation",
    "cuda": "device",
    "to": "device",
    "add_scalar": "logging",
    "scale": "",
    "unscale_": "amp",
    "init_process_group": "distributed",
}
