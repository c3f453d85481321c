"""Every pattern module carries its cases: here they are compared, as text and as numbers."""

import textwrap

import pytest

from fdl_cli.porter.plan import PATTERNS

CASES = [
    pytest.param(case, id=f"{pattern.__name__.rpartition('.')[2]}-{kind}-{number}")
    for pattern in PATTERNS
    for kind, cases in (("change", pattern.CASES), ("leave", pattern.LEFT_ALONE))
    for number, case in enumerate(cases)
]


@pytest.fixture(scope="module", params=CASES)
def case(request):
    """One case of a pattern; for the whole module, so that its tests follow each other."""
    return request.param


@pytest.fixture(scope="module")
def ported(porter, case):
    """The whole text around a case, before and after."""
    before = porter.around(case.before)
    return before, porter.text(before)


def test_text_of_the_flow(porter, case, ported):
    expected = textwrap.dedent(case.after).strip("\n") + "\n"
    assert porter.flow_of(ported[1]) == expected


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda module: module.__name__)
def test_every_pattern_has_cases_of_both_kinds(pattern):
    assert len(pattern.CASES) >= 2
    assert len(pattern.LEFT_ALONE) >= 2
    assert "Before:" in pattern.__doc__
    assert "After:" in pattern.__doc__


@pytest.mark.torch
def test_numbers_of_the_flow(case, ported):
    import torch

    results = []
    for text in ported:
        space = {"__name__": "case"}
        exec(text, space)  # the texts are our own
        torch.manual_seed(0)
        net = space["Net"]()
        inputs = [torch.randn(2, 4) for _ in range(case.before.split(":")[0].count(",") or 1)]
        # Twice: the first call records, the second runs the generated code.
        results.append([net(*(tensor.clone() for tensor in inputs)) for _ in range(2)])
    for old, new in zip(*results, strict=True):
        assert_same(old, new)


def assert_same(old, new):
    import torch

    if isinstance(old, torch.Tensor):
        assert torch.equal(old, new)
        return
    assert type(old) is type(new)
    assert len(old) == len(new)
    for first, second in zip(old, new, strict=True):
        assert_same(first, second)
