"""Made-up PyTorch scripts: random forwards over a fixed set of layers, comments anywhere."""

from hypothesis import strategies as st

HEADER = '''\
# a script
import torch  # the library
import torch.nn as nn
import torch.nn.functional as F

'''
CLASS = '''\

class Net{number}(nn.Module):  # number {number}
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 4)  # second
        self.act = nn.ReLU()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])
        self.flag = True

    # the forward
    def forward(self, x, y=None):
'''
NAMES = st.sampled_from(["x", "h", "out", "identity"])
COMMENTS = st.sampled_from(["", "", "", "  # note", "  # 'quoted' #twice"])


def _calls(name):
    return [
        f"self.a({name})", f"self.b({name})", f"F.relu({name})", f"self.act(self.a({name}))",
        f"{name}.view(-1, 4)", f"{name} * 2", f"self.b({name}) + {name}", f"{name} + self.a({name})",
        f"torch.cat([self.a({name}), self.b({name})], dim=1)", f"F.dropout({name}, 0.5, self.training)",
        f"(self.a({name}))", f"self.layers[0]({name})", f"self.act(\n            self.a({name})\n        )",
        f"self.a(\n            {name}  # inside\n        )", f"self.a({name}) if self.flag else {name}",
        f"self.a({name}) @ {name}.t()", f"-self.a({name})", f"[self.a(t) for t in [{name}]][0]",
        f"self.a({name} + 1).view(-1)", "torch.zeros(3)", f"self.helper({name})",
    ]  # fmt: skip


@st.composite
def statements(draw, depth=0):
    kind = draw(st.integers(0, 9))
    target, name, note = draw(NAMES), draw(NAMES), draw(COMMENTS)
    call = draw(st.sampled_from(_calls(name)))
    if kind <= 5 or depth > 1:
        return [f"{target} = {call}{note}"]
    if kind == 6:
        return [f"{target} += {call}{note}"]
    if kind == 7:
        return ["# alone", f"{target} = {name}{note}"]
    body = [f"    {line}" for inner in draw(st.lists(statements(depth + 1), min_size=1, max_size=2))
            for line in inner]  # fmt: skip
    if kind == 8:
        test = draw(st.sampled_from(["self.flag", "y is not None", "self.training", "x.dim() == 2"]))
        return [f"if {test}:{note}", *body]
    loop = draw(st.sampled_from(["for m in self.layers:", "for _ in range(2):", "for i in range(3):"]))
    return [f"{loop}{note}", *body, f"    {target} = {draw(st.sampled_from(_calls(target)))}"]


HELPER = '''
    def helper(self, t):
        t = self.b(t)  # helps
        return self.act(t)
'''


@st.composite
def scripts(draw):
    text = HEADER
    for number in range(draw(st.integers(1, 2))):
        text += CLASS.format(number=number)
        lines = [line for stmt in draw(st.lists(statements(), min_size=1, max_size=7)) for line in stmt]
        lines.append(f"return {draw(NAMES)}")
        # A statement of several lines carries its own indentation.
        text += "".join(f"        {line}\n" for line in lines)
        text += HELPER
    return text + "\n\nnet = Net0()  # done\n"
