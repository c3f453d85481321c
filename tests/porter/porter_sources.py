"""Made-up PyTorch scripts: random forwards over a fixed set of layers, comments anywhere."""

from hypothesis import strategies as st

HEADER = """\
# a script
import torch  # the library
import torch.nn as nn
import torch.nn.functional as F


def outside(t):
    if t.numel() > 3:
        t = F.relu(t)
    return t.clamp(max=3)
"""
CLASS = """\

class Net{number}(nn.Module):  # number {number}
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 4)  # second
        self.act = nn.ReLU(inplace=True)
        self.drop = nn.Dropout(0.5)
        self.mix = nn.Bilinear(4, 4, 4)
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])
        self.flag = True

    # the forward
    def forward(self, x, y=None):
"""
NAMES = st.sampled_from(["x", "h", "out", "identity"])
COMMENTS = st.sampled_from(["", "", "", "  # note", "  # 'quoted' #twice"])


def _calls(name):
    return [
        f"self.a({name})", f"self.b({name})", f"F.relu({name})", f"self.act(self.a({name}))",
        f"{name}.view(-1, 4)", f"{name} * 2", f"self.b({name}) + {name}", f"{name} + self.a({name})",
        f"torch.cat([self.a({name}), self.b({name})], dim=1)[:, :4]",
        f"F.dropout({name}, 0.5, self.training)",
        f"(self.a({name}))", f"self.layers[0]({name})", f"self.act(\n            self.a({name})\n        )",
        f"self.a(\n            {name}  # inside\n        )", f"self.a({name}) if self.flag else {name}",
        f"self.a({name}) @ {name}.t()", f"-self.a({name})", f"[self.a(t) for t in [{name}]][0]",
        f"self.a({name} + 1).view(-1, 4)", "torch.zeros(4, 4)", f"self.helper({name})",
        f"torch.stack([self.a({name}), self.b({name})]).sum(0)", f"self.mix({name}, x)",
        f"{name} + self.act(self.mix({name}, {name}))", f"self.a({name}) + self.b({name}) + {name}",
        f"self.a({name}) * torch.sigmoid(self.b({name}))", f"torch.max(self.a({name}), {name})",
        f"{name}.clone().mul_(2)", f"self.drop({name})", f"{name}.size(0) * self.a({name})",
        f"self.a(y) if y is not None else {name}", f"outside({name})", "torch.rand(4, 4)",
        f"self.act({name}[:, :2]).repeat(1, 2)", f"torch.randn_like({name}) + {name}",
        f"self.a({name}).split(2, dim=1)[0].repeat(1, 2)",
    ]  # fmt: skip


@st.composite
def blocks(draw, defined, depth=0, size=7):
    """Draw statements; `defined` are the names that may be read, and grows with them."""
    lines = []
    for _ in range(draw(st.integers(1, size))):
        lines += draw(statements(defined, depth))
    return lines


@st.composite
def statements(draw, defined, depth):
    kind = draw(st.integers(0, 9))
    name, note = draw(st.sampled_from(sorted(defined))), draw(COMMENTS)
    call = draw(st.sampled_from(_calls(name)))
    target = draw(NAMES)
    if kind == 6:
        target = draw(st.sampled_from(sorted(defined)))
        sign = draw(st.sampled_from(["+=", "*=", "-="]))
        return [f"{target} {sign} {call}{note}"]
    if kind <= 5 or depth > 1:
        if depth == 0:
            defined.add(target)
        return [f"{target if depth == 0 else name} = {call}{note}"]
    if kind == 7:
        defined.add(target)
        return (
            ["# alone", f"{target} = {name}{note}"] if depth == 0 else [f"{name} = {call}{note}"]
        )
    # What is bound inside may not be bound after it, so only known names are.
    body = [f"    {line}" for line in draw(blocks(set(defined), depth + 1, 2))]
    if kind == 8:
        test = draw(
            st.sampled_from(["self.flag", "y is not None", "self.training", "x.dim() == 2"])
        )
        return [f"if {test}:{note}", *body]
    loop = draw(
        st.sampled_from(["for m in self.layers:", "for _ in range(2):", "for i in range(3):"])
    )
    return [f"{loop}{note}", *body, f"    {name} = {draw(st.sampled_from(_calls(name)))}"]


HELPER = """
    def helper(self, t):
        t = self.b(t)  # helps
        return self.act(t)
"""


@st.composite
def scripts(draw):
    text = HEADER
    for number in range(draw(st.integers(1, 2))):
        text += CLASS.format(number=number)
        defined = {"x"}
        lines = draw(blocks(defined))
        lines.append(f"return {draw(st.sampled_from(sorted(defined)))}")
        # A statement of several lines carries its own indentation.
        text += "".join(f"        {line}\n" for line in lines)
        text += HELPER
    return text + "\n\nnet = Net0()  # done\n"
