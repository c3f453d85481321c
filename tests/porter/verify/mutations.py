# ruff: noqa: E501
"""Small changes of meaning; each is planted alone into a correct port, and must be seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """Replace `before`, which occurs once in the class, by `after`."""

    name: str
    class_name: str
    before: str
    after: str


def _mutations(class_name: str, *changes: tuple[str, str, str]) -> tuple[Mutation, ...]:
    return tuple(
        Mutation(name=f"{class_name}-{name}", class_name=class_name, before=before, after=after)
        for name, before, after in changes
    )


CONV_BLOCK = _mutations(
    "ConvBlock",
    ("activation", "F.relu", "F.relu6"),
    ("activation-dropped", "self.bn, F.relu, self.drop", "self.bn, self.drop"),
    ("dropout-dropped", "F.relu, self.drop, self.pool", "F.relu, self.pool"),
    ("dropout-twice", "self.drop, self.pool", "self.drop, self.drop, self.pool"),
    ("order-norm-relu", "self.bn, F.relu", "F.relu, self.bn"),
    ("order-drop-pool", "self.drop, self.pool", "self.pool, self.drop"),
    ("default-dropout", "dropout=0.2", "dropout=0.25"),
    ("momentum", "momentum=0.1", "momentum=0.2"),
    ("extra-bias", ", bias=False", ""),
    ("padding-mode", "padding=1,", 'padding=1, padding_mode="circular",'),
    ("pool-kind", "nn.MaxPool2d(2)", "nn.AvgPool2d(2)"),
    (
        "initialisation-draw",
        "self.pool = nn.MaxPool2d(2)",
        "self.pool = nn.MaxPool2d(2); torch.rand(1)",
    ),
    (
        "renamed-attribute",
        "        self.pool = nn.MaxPool2d(2)\n",
        "        self.pool = nn.MaxPool2d(2)\n        self.conv1 = self.conv\n        del self.conv\n        self.conv = self.conv1\n",
    ),
)

BOTTLENECK = _mutations(
    "Bottleneck",
    ("skip-dropped", "out = out + identity", "out = out * 1.0"),
    ("skip-subtracted", "out = out + identity", "out = out - identity"),
    ("residual-branch-dropped", "out = out + identity", "out = identity * 1.0"),
    ("operator", "out = out + identity", "out = out * identity"),
    (
        "projection-ignored",
        "identity = x.through(self.downsample)",
        "identity = torch.cat([x, x], 1)",
    ),
    ("last-activation", "return out.through(F.relu)", "return out"),
    (
        "stale-value",
        "out = out.through(self.conv2).through(self.bn2)",
        "out = x.through(self.conv2).through(self.bn2)",
    ),
    ("norm-dropped", ".through(self.conv2).through(self.bn2)", ".through(self.conv2)"),
    ("inplace-not-harmless", "identity = x\n", "identity = x\n        x.add_(1.0)\n"),
    ("class-attribute", "expansion = 2", "expansion = 4"),
    ("zero-init-lost", "        nn.init.zeros_(self.bn2.weight)\n", ""),
)

SQUEEZE = _mutations(
    "SqueezeExcite",
    ("dims", "dim=(2, 3)", "dim=(1, 2)"),
    ("reduction", "x.mean(dim=(2, 3))", "x.amax(dim=(2, 3))"),
    ("gate-function", "torch.sigmoid", "torch.tanh"),
    ("unsqueeze-place", "scale.unsqueeze(-1).unsqueeze(-1)", "scale.unsqueeze(-1).unsqueeze(1)"),
    ("gate-added", "x * scale", "x + scale"),
    ("detached-gate", "x * scale", "x * scale.detach()"),
    ("detached-input", "x * scale", "x.detach() * scale"),
)

BRANCHES = _mutations(
    "Branches",
    ("branch-order", "x.split(self.a, self.b, self.c)", "x.split(self.b, self.a, self.c)"),
    ("branch-repeated", "x.split(self.a, self.b, self.c)", "x.split(self.a, self.b, self.a)"),
    ("branch-dropped", "x.split(self.a, self.b, self.c)", "x.split(self.a, self.b)"),
    ("padding-counted", "nn.AvgPool2d(3, 1, 1)", "nn.AvgPool2d(3, 1, 1, count_include_pad=False)"),
)

ATTENTION = _mutations(
    "Attention",
    ("softmax-dim", "F.softmax(att, dim=-1)", "F.softmax(att, dim=-2)"),
    ("scale-dropped", " * (1.0 / math.sqrt(C // self.heads))", ""),
    ("scale-of-all", "math.sqrt(C // self.heads)", "math.sqrt(C)"),
    ("swapped-query-key", "q, k, v = x", "k, q, v = x"),
    ("swapped-key-value", "q, k, v = x", "q, v, k = x"),
    ("mask-inverted", "mask[:, None, None, :] == 0", "mask[:, None, None, :] == 1"),
    ("mask-value", "-1e9", "-1.0"),
    ("mask-ignored", "if mask is not None:", "if False:"),
    ("mask-axis", "mask[:, None, None, :] == 0", "mask[:, None, :, None] == 0"),
    (
        "dropout-before-softmax",
        "F.softmax(att, dim=-1).through(self.drop)",
        "F.softmax(att.through(self.drop), dim=-1)",
    ),
    ("dropout-always-on", ".through(self.drop)", ".through(F.dropout, 0.25, True)"),
    (
        "heads-not-merged",
        "y = (att @ v).transpose(1, 2).contiguous()",
        "y = (att @ v).contiguous()",
    ),
    ("projection-dropped", "y = y.through(self.out)", "y = y * 1.0"),
    ("flag-inverted", "if need_weights:", "if not need_weights:"),
    ("weights-for-none", "return y, None", "return y, att"),
    ("list-for-tuple", "return y, None", "return [y, None]"),
    ("batch-size-baked", "contiguous().view(B, T, C)", "contiguous().view(2, T, C)"),
    ("default-of-flag", "need_weights=False", "need_weights=True"),
)

TAGGER = _mutations(
    "Tagger",
    ("norm-eps", "eps=1e-5", "eps=1e-3"),
    ("padding-index", "padding_idx=0", "padding_idx=1"),
    ("tie-lost", "if tie:", "if not tie:"),
    ("position-dropped", " + self.position[:, : tokens.size(1)]", ""),
    (
        "position-shifted",
        "self.position[:, : tokens.size(1)]",
        "self.position[:, 1 : tokens.size(1) + 1]",
    ),
    ("position-truncated", ": tokens.size(1)]", ":4]"),
    ("skip-dropped", "(y + x)", "(y + 0)"),
    ("log-dropped", "F.log_softmax", "F.softmax"),
    ("key-renamed", '"state": h', '"hidden": h'),
    ("state-for-output", '"state": h', '"state": y'),
    (
        "initial-order",
        "self.position = nn.Parameter(torch.randn(1, 5, dim) * 0.1)",
        "self.position = nn.Parameter(torch.rand(1, 5, dim) * 0.1)",
    ),
)

SAMPLER = _mutations(
    "Sampler",
    ("half-dropped", "0.5 * logvar", "logvar"),
    (
        "swapped-heads",
        "mu = x.through(self.mu)\n        logvar = x.through(self.logvar)",
        "logvar = x.through(self.mu)\n        mu = x.through(self.logvar)",
    ),
    ("noise-kind", "torch.randn_like(std)", "torch.rand_like(std)"),
    ("sampling-in-eval", "if self.training:", "if True:"),
    ("never-sampling", "if self.training:", "if False:"),
    (
        "reordered-draws",
        "        mu = x.through(self.mu)\n",
        "        noise = torch.rand(x.size(0), 1)\n        mu = x.through(self.mu)\n",
    ),
    ("noise-shape", "torch.rand(x.size(0), 1)", "torch.rand(x.size(0), 6)"),
    ("noise-batch-baked", "torch.rand(x.size(0), 1)", "torch.rand(4, 1)"),
    ("noise-constant", "torch.rand(x.size(0), 1)", "torch.full((x.size(0), 1), 0.5)"),
    ("output-order", ", mu, logvar\n", ", logvar, mu\n"),
    ("output-dropped", ", mu, logvar\n", ", mu\n"),
    (
        "sample-not-differentiable",
        "z = mu + torch.randn_like(std) * std",
        "z = (mu + torch.randn_like(std) * std).detach()",
    ),
)

REFINER = _mutations(
    "Refiner",
    ("one-step-less", "range(self.steps)", "range(self.steps - 1)"),
    ("default-steps", "steps=3", "steps=2"),
    ("swapped-arguments", "x.through(self.cell, h)", "h.through(self.cell, x)"),
    ("start-state", "torch.zeros_like(x)", "torch.ones_like(x)"),
    ("given-state-ignored", "if h is None:", "if True:"),
    (
        "counter-in-eval",
        "        if self.training:\n            self.calls.add_(1)\n",
        "        self.calls.add_(1)\n        if self.training:\n",
    ),
    ("counter-dropped", "            self.calls.add_(1)\n", ""),
    ("decay", "mul_(0.9)", "mul_(0.99)"),
    ("mean-not-updated-in-place", "self.mean.mul_(0.9).add_", "self.mean.mul(0.9).add_"),
    ("buffer-persistent", ", persistent=False", ""),
    (
        "buffer-added-before-norm",
        "h.through(self.norm) + self.mean",
        "(h + self.mean).through(self.norm)",
    ),
)

AFFINE = _mutations(
    "Affine",
    ("keepdim-axis", "mean(dim=1, keepdim=True)", "mean(dim=0, keepdim=True)"),
    ("deviation-kind", "self.weight.std()", "self.weight.std(unbiased=False)"),
    ("weight-detached", "self.weight.std()", "self.weight.detach().std()"),
    ("transposed", "F.linear(x, weight, self.shift)", "F.linear(x, weight.t(), self.shift)"),
    ("shift-dropped", "F.linear(x, weight, self.shift)", "F.linear(x, weight)"),
    ("temperature-trained", ", requires_grad=False", ""),
    ("column", "y[:, 0] = y[:, 1] * 2.0", "y[:, 1] = y[:, 0] * 2.0"),
    ("row-for-column", "y[:, 0] = y[:, 1] * 2.0", "y[0, :] = y[1, :] * 2.0"),
    ("clamp-bound", "max=2.5", "max=2.0"),
    ("clamp-dropped", "y.clamp(min=-1.5, max=2.5)", "y * 1.0"),
    ("operator-assigned", "y += x", "y -= x"),
)

IN_PLACE = _mutations(
    "InPlace",
    ("input-not-written", "x.mul_(2.0)", "x = x.mul(2.0)"),
    ("factor", "x.mul_(2.0)", "x.mul_(3.0)"),
    ("copy-for-input", "return x, y", "return x.clone(), y"),
    ("copy-for-view", "y[:, :2]", "y[:, :2].clone()"),
    ("view-of-other-columns", "y[:, :2]", "y[:, 2:]"),
)

TWO_INPUTS = _mutations(
    "TwoInputs",
    ("swapped-inputs", "left = a.through(self.left)", "left = b.through(self.left)"),
    ("swapped-parameters", "def flow(self, a: Flow, b: Flow)", "def flow(self, b: Flow, a: Flow)"),
    ("swapped-dropouts", "b.through(self.right).through(self.drop2)", "b.through(self.right)"),
    (
        "reordered-branches",
        "        left = a.through(self.left).through(self.drop1)\n        right = b.through(self.right).through(self.drop2)\n",
        "        right = b.through(self.right).through(self.drop2)\n        left = a.through(self.left).through(self.drop1)\n",
    ),
    ("detach-lost", "right.detach()", "right"),
    ("min-for-max", "joint.max(dim=0)", "joint.min(dim=0)"),
    ("indices-for-values", ".values", ".indices"),
    ("absolute-dropped", "(a - b).abs()", "(a - b)"),
    ("sum-axis", "abs().sum(1)", "abs().sum(0)"),
    (
        "registration-order",
        "        self.left = nn.Linear(dim, dim)\n        self.right = nn.Linear(dim, dim)\n",
        "        self.right = nn.Linear(dim, dim)\n        self.left = nn.Linear(dim, dim)\n",
    ),
)

UP_SKIP = _mutations(
    "UpSkip",
    ("concatenation-order", "torch.cat([x, low], dim=1)", "torch.cat([low, x], dim=1)"),
    ("slope", "nn.LeakyReLU(0.1)", "nn.LeakyReLU(0.01)"),
    ("activation-dropped", "x.through(self.down).through(self.act)", "x.through(self.down)"),
    ("pad-sides", "[0, x.size(3) - low.size(3), 0, x.size(2) - low.size(2)]", "[x.size(3) - low.size(3), 0, x.size(2) - low.size(2), 0]"),
    ("align-corners", "align_corners=False", "align_corners=True"),
    ("interpolation", 'mode="bilinear", align_corners=False', 'mode="bicubic", align_corners=False'),
    ("size-baked", "x.size(3) - low.size(3)", "-1"),
    ("flatten-from", "torch.flatten(x, 1)", "torch.flatten(x, 2)"),
)  # fmt: skip

ALL: tuple[Mutation, ...] = (
    *CONV_BLOCK, *BOTTLENECK, *SQUEEZE, *BRANCHES, *ATTENTION, *TAGGER, *SAMPLER, *REFINER, *AFFINE,
    *IN_PLACE, *TWO_INPUTS, *UP_SKIP,
)  # fmt: skip
