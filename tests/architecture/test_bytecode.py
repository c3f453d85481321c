"""Only `flodl.bytecode` knows how a version of Python compiles: no other file reads opcodes."""

import ast

from flodl.bytecode.opcodes import NO_OPERATION, RULES

PACKAGE = "flodl.bytecode"
MODULES = {"dis", "opcode", "_opcode"}
# Attributes of instructions and of code objects that hold raw bytecode.
RAW = {"opname", "opcode", "baseopname", "baseopcode", "co_code", "_co_code_adaptive"}
OPCODES = {name for name in (*RULES, *NO_OPERATION) if "_" in name}


def readers(source):
    """Return the places of a source that read bytecode."""
    found = []
    for node in source.nodes:
        names = set()
        if isinstance(node, ast.Import):
            names = {alias.name for alias in node.names} & MODULES
        elif isinstance(node, ast.ImportFrom):
            names = {node.module} & MODULES
        elif isinstance(node, ast.Attribute):
            names = {node.attr} & RAW
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names = {node.value} & (OPCODES | MODULES)
        if names:
            found.append(f"{source.at(node)} {min(names)}")
    return found


# The prover tells functions of one process apart by a digest, and reads no instruction.
DIGESTS = {"flodl.pytree.readers"}


def test_bytecode_is_read_in_one_package(sources):
    outside = [
        source
        for source in sources
        if not source.name.startswith(PACKAGE) and source.name not in DIGESTS
    ]
    assert [place for source in outside for place in readers(source)] == []


def test_bytecode_rule_finds_every_way_to_read_it(sources):
    kind = type(sources[0])
    for text in (
        "import dis",
        "from dis import get_instructions",
        "step.opname",
        "code.co_code",
        "name == 'LOAD_FAST'",
        "importlib.import_module('opcode')",
    ):
        tree = ast.parse(text)
        planted = kind("planted.py", "flodl.planted", text, tree, tuple(ast.walk(tree)))
        assert len(readers(planted)) == 1, text
