"""Where a line is broken changes nothing: the same flow is written on pages of any width."""

import ast
import textwrap

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdl_cli.porter.emit import apply
from fdl_cli.porter.emit.joining import joined
from fdl_cli.porter.emit.wrapping import Frame, wrapped

NAMES = st.sampled_from(["x", "y", "self.steps", "2", "-1.5", "x.size(0)", "'a, (b'", "None"])
BINARY = st.sampled_from(["+", "-", "*", "/", "@", "%", "**", "//", "|", "==", "<", "and", "or"])


def combined(inner):
    """Return larger expressions of smaller ones, with brackets only where they are needed."""
    return st.one_of(
        st.tuples(inner, BINARY, inner).map(lambda t: f"({t[0]}) {t[1]} ({t[2]})"),
        inner.map(lambda e: f"-({e})"),
        inner.map(lambda e: f"not ({e})"),
        inner.map(lambda e: f"self.a({e})"),
        st.tuples(inner, inner).map(lambda t: f"self.mix({t[0]}, {t[1]})"),
        st.tuples(inner, inner).map(lambda t: f"torch.cat([{t[0]}, {t[1]}], dim=1)"),
        inner.map(lambda e: f"F.relu({e}, inplace=True)"),
        inner.map(lambda e: f"({e}).view(x.size(0), -1)"),
        inner.map(lambda e: f"({e})[:, 0:2, None]"),
        st.tuples(inner, inner, inner).map(lambda t: f"({t[0]}) if ({t[1]}) else ({t[2]})"),
        st.tuples(inner, inner).map(lambda t: f"torch.stack(({t[0]}, *[{t[1]} for n, m in x]))"),
        st.tuples(inner, inner).map(
            lambda t: f"sum({t[0]} for n, m in ({t[1]}) if n if m for k in n)"
        ),
        inner.map(lambda e: f"{{n: ({e}) for n in x}}"),
        inner.map(lambda e: f"call(*({e}), key=lambda a, b: a + b)"),
        inner.map(lambda e: f"f'{{x + y}} {{({e})!r}}'" if "'" not in e else e),
    )


EXPRESSIONS = st.recursive(NAMES, combined, max_leaves=12).map(lambda e: ast.unparse(ast.parse(e)))
WIDTHS = st.integers(20, 100)


def parsed(lines):
    return ast.dump(ast.parse(textwrap.dedent("\n".join(lines))))


@given(text=EXPRESSIONS, width=WIDTHS, prefix=st.sampled_from(["", "y = ", "return "]))
def test_a_broken_line_says_the_same(text, width, prefix):
    frame = Frame(indent="    ", unit="    ", width=width)
    assert parsed(wrapped(frame, prefix, text)) == parsed([f"{prefix}{text}"])


@given(texts=st.lists(EXPRESSIONS, min_size=2, max_size=4), width=WIDTHS)
def test_several_values_are_broken_at_their_commas(texts, width):
    frame = Frame(indent="", unit="  ", width=width)
    text = ", ".join(f"({each})" for each in texts)
    assert parsed(wrapped(frame, "y = ", text)) == parsed([f"y = {text}"])


@given(text=EXPRESSIONS, width=WIDTHS)
def test_what_was_broken_is_joined_again(text, width):
    broken = "\n".join(wrapped(Frame(indent="    ", unit="    ", width=width), "", text)).strip()
    made = joined(broken)
    assert "\n" not in made
    assert parsed([f"y = {made}"]) == parsed([f"y = {text}"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f(\n    a,\n    b,\n)", "f(a, b)"),
        ("x[\r\n    :,\r\n\r\n    None,\r\n]", "x[:, None]"),
        ("(\n    a,\n)", "(a,)"),
        ("[\n    'x,  y',\n    (z\n     + 1),\n]", "['x,  y', (z + 1)]"),
        ("f(a,  # why\n  b)", None),
        ('f("""a\n,\n)""",\nb)', None),
        ("f(a, \\\n  b)", None),
    ],
)
def test_lines_are_joined_if_nothing_is_lost(text, expected):
    assert joined(text) == (text if expected is None else expected)


@pytest.mark.slow
@hypothesis.settings(
    max_examples=20,  # each ports a file four times
    suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture],
)
@given(first=EXPRESSIONS, second=EXPRESSIONS, sign=BINARY)
def test_the_width_of_the_page_changes_no_flow(porter, first, second, sign):
    forward = f"""
        def forward(self, x, y):
            out = self.b({first})
            out = ({second}) {sign} out
            return F.relu(out) {sign} (y {sign} x)
    """
    text = porter.around(forward)
    flows = set()
    with pytest.MonkeyPatch.context() as patch:
        for width in (30, 60, 99, 100_000):
            patch.setattr(apply, "_WIDTH", width)
            flows.add(ast.dump(ast.parse(porter.text(text))))
    assert len(flows) == 1


def test_where_lines_are_broken():
    frame = Frame(indent="    ", unit="    ", width=60)

    def lines(text):
        return wrapped(frame, "return ", text)

    assert lines("F.linear(F.normalize(feats, dim=1), F.normalize(self.weight))") == [
        "    return F.linear(",
        "        F.normalize(feats, dim=1), F.normalize(self.weight)",
        "    )",
    ]
    assert lines("self.first(x) + self.second(x) if self.training else self.third(x)") == [
        "    return (",
        "        self.first(x) + self.second(x)",
        "        if self.training",
        "        else self.third(x)",
        "    )",
    ]
    assert lines("self.first(x, 1), self.second(x, 2), self.third(x, 3)") == [
        "    return (",
        "        self.first(x, 1),",
        "        self.second(x, 2),",
        "        self.third(x, 3),",
        "    )",
    ]
    # What a bracket of its own can break needs no other one.
    assert lines("loss(prediction, target) * self.weights_of_the_loss(prediction, target)") == [
        "    return (",
        "        loss(prediction, target)",
        "        * self.weights_of_the_loss(prediction, target)",
        "    )",
    ]
    assert lines("torch.stack([self.first(x, y) for x, y in self.pairs if x is not None])") == [
        "    return torch.stack(",
        "        [",
        "            self.first(x, y)",
        "            for x, y in self.pairs if x is not None",
        "        ]",
        "    )",
    ]
    assert lines("self.first(x, y).view(batch, size, heads, width).transpose(1, 2)") == [
        "    return self.first(x, y).view(",
        "        batch, size, heads, width",
        "    ).transpose(1, 2)",
    ]
    assert lines('warn("a sentence of several words," " and one more: " + reason, 2)') == [
        "    return warn(",
        "        (",
        '            "a sentence of several words," " and one more: "',
        "            + reason",
        "        ),",
        "        2,",
        "    )",
    ]
    assert lines('warn("a sentence of more than several words," " and one more sentence")') == [
        "    return warn(",
        "        (",
        '            "a sentence of more than several words,"',
        '            " and one more sentence"',
        "        )",
        "    )",
    ]
    # A name cannot be broken, nor what a lambda takes.
    assert len(lines("a" * 70)) == 1
    assert len(lines("lambda first, second: first + second + first * second * 1000")) == 1


@pytest.mark.parametrize("sign", ["*", "/", "//", "%", "@", "-", "+", "**"])
def test_brackets_on_the_right_stay(porter, sign):
    flow = porter.flow(
        f"""
        def forward(self, x, y):
            out = self.a(x).view(x.size(0), -1, 1).transpose(1, 2)
            weight = self.norm(out).exp().clamp(min=0.0001, max=1000)
            return F.relu(weight) {sign} (y.mean(dim=1, keepdim=True) {sign} self.steps)
        """
    )
    binary = ast.parse(flow).body[0].body[-1].value
    assert isinstance(binary, ast.BinOp)
    assert isinstance(binary.right, ast.BinOp)
    assert "steps" in ast.unparse(binary.right)
