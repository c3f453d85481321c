"""A buffer that is registered again is set, where the constructor surely registered it the same way."""

import ast

import pytest

from fdl_cli.porter.parse.buffers import is_settled, settle_buffers

CLASS = """
class Net:
    def __init__(self, wide):
        {first}

    def forward(self, x):
        {again}
"""
MASK = 'self.register_buffer("mask", x, False)'


@pytest.mark.parametrize(
    ("first", "again", "is_set"),
    [
        (MASK, MASK, True),
        (MASK, 'self.register_buffer("mask", x, persistent=False)', True),
        ('self.register_buffer("mask", None)', 'self.register_buffer("mask", x, True)', True),
        (MASK, 'if x is None: self.register_buffer("mask", x, False)', True),
        (f"if wide: {MASK}", MASK, False),
        (MASK, 'self.register_buffer("mask", x)', False),
        (MASK, 'self.register_buffer("other", x, False)', False),
        (MASK, "self.register_buffer(name, x, False)", False),
        (MASK, "other.register_buffer('mask', x, False)", False),
        (MASK, f"y = {MASK}", False),
        ("pass", MASK, False),
    ],
)
def test_which_registrations_are_assignments(first, again, is_set):
    tree = ast.parse(CLASS.format(first=first, again=again))
    settle_buffers(tree)
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Assign) and is_settled(node)]
    assert [ast.unparse(node) for node in found] == (["self.mask = x"] if is_set else [])
