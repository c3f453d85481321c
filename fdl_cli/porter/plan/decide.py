"""Decisions about a whole file: which classes become graphs, and every edit that makes them so."""

from collections.abc import Iterator, Mapping

from fdl_cli.porter.ir.edits import (
    AddBase,
    ClassPlan,
    Decorate,
    Edit,
    PortPlan,
    Remove,
    ReplaceExpression,
    ReplaceStatement,
    ReplaceWord,
    Wrap,
)
from fdl_cli.porter.ir.expressions import FLOW_WORDS, Expr
from fdl_cli.porter.ir.findings import ClassStatus, Reason
from fdl_cli.porter.ir.pretty import reading
from fdl_cli.porter.ir.statements import Block, Stmt, expressions, statements
from fdl_cli.porter.ir.symbols import MethodIR, ModelIR, ScriptIR, ValueFact
from fdl_cli.porter.knowledge.torch_names import SUBFLOW_BELOW
from fdl_cli.porter.plan import NAMELESS, PATTERNS, STRUCTURE
from fdl_cli.porter.plan.counting import count_operations
from fdl_cli.porter.plan.eligible import find_obstacles
from fdl_cli.porter.plan.helper_steps import with_helper_steps
from fdl_cli.porter.plan.lifetimes import without_deletes
from fdl_cli.porter.plan.lower_calls import write_words
from fdl_cli.porter.rewrite.residual_sums import join_residuals
from fdl_cli.porter.rewrite.rewriter import shorten

# In the order in which an import lists them.
IMPORTABLE = (
    "Add",
    "Cat",
    "Flow",
    "FlowModule",
    "Graph",
    "Max",
    "Mul",
    "Stack",
    "call",
    "on_forward",
    "subflow",
)

# Decorators of helpers that may use `call` without `@subflow`: with tensors it is the call itself.
_UNMARKED = frozenset({"property", "staticmethod"})

_OPERATORS = frozenset({"binary", "unary", "compare", "boolean", "conditional", "assignment"})


def decide(script: ScriptIR, demoted: Mapping[str, Reason]) -> PortPlan:
    """Return all decisions about a file; `demoted` classes are kept for the reason given."""
    script, steps = with_helper_steps(script, _is_one_step)
    obstacles = find_obstacles(script, demoted)
    flows = frozenset(name for name, reasons in obstacles.items() if not reasons)
    modules = [each for each in script.relatives if each.is_module and not each.kept]
    flows |= {each.name for each in modules if not each.plain}
    plain = frozenset(each.name for each in modules if each.plain)
    classes = [
        _class_plan(model, obstacles[model.facts.name], steps[model.facts.name], flows, plain)
        for model in script.models
    ]
    classes += [_value_plan(value, demoted.get(value.name)) for value in script.values]
    needed = {word for plan in classes for word in plan.words}
    present = dict(script.flodl_names)
    names = tuple((word, present.get(word) or _free_name(word, script)) for word in IMPORTABLE)
    missing = tuple(word for word in IMPORTABLE if word in needed and word not in present)
    return PortPlan(classes=tuple(classes), names=names, missing=missing)


def only(plan: PortPlan, names: frozenset[str]) -> PortPlan:
    """Return the plan with the edits of some classes alone."""
    classes = tuple(item for item in plan.classes if item.name in names)
    return PortPlan(classes=classes, names=plan.names, missing=())


def _free_name(word: str, script: ScriptIR) -> str:
    name = word
    if name in script.used_names:
        name = f"flodl_{word}" if word[0].islower() else f"Flodl{word}"
    while name in script.used_names:
        name += "_"
    return name


def _class_plan(
    model: ModelIR,
    reasons: tuple[Reason, ...],
    steps: frozenset[str],
    flows: frozenset[str],
    plain: frozenset[str],
) -> ClassPlan:
    facts = model.facts
    total = sum(count_operations(method.body) for method in model.methods)
    edits: tuple[Edit, ...] = ()
    words: tuple[str, ...] = ()
    text = f"{facts.name}: kept"
    described = [method for method in model.methods if method.name not in steps]
    blocks = [] if reasons else [(item, describe(item)) for item in described]
    reasons = reasons or tuple(_undecorable(blocks))
    if not reasons:
        edits = tuple(_class_edits(model, blocks, flows, plain))
        words = tuple(_words(edits, blocks))
        text = reading(facts.name, blocks)
    inside = [where for method in described for where in method.opaque]
    hidden = sum(count for _, count in inside)
    kept = [method for method in model.methods if method.name in steps]
    status: ClassStatus = "kept" if reasons else "partial" if inside or kept else "graph"
    return ClassPlan(
        name=facts.name,
        line=facts.span.line,
        status=status,
        edits=edits,
        words=words,
        reasons=tuple(sorted(reasons or (*_opaque_parts(inside), *_opaque_helpers(kept)))),
        ops_total=total + hidden,
        ops_in_graph=0 if reasons else total - sum(count_operations(m.body) for m in kept),
        reading=text,
    )


def _opaque_parts(inside: list[tuple[int, int]]) -> Iterator[Reason]:
    for line, count in inside:
        message = f"a function that is handed on is one step: {count} operations inside it"
        yield Reason(line=line, code="FDL310", message=message)


def _opaque_helpers(kept: list[MethodIR]) -> Iterator[Reason]:
    for method in kept:
        count = count_operations(method.body)
        what = "is decorated and" if not method.refusals else "cannot be described and"
        message = f"`{method.name}` {what} stays one step: {count} operations inside it"
        if method.refusals:
            message += f" ({method.refusals[0].message})"
        yield Reason(line=method.span.line, code="FDL310", message=message)


def _undecorable(blocks: list[tuple[MethodIR, Block]]) -> Iterator[Reason]:
    """Find properties that need flow words but cannot be a `@subflow`, as they are not called."""
    for method, block in blocks:
        if _is_undecorable(method, block):
            message = f"`{method.name}` is decorated and calls layers or functions"
            yield Reason(line=method.span.line, code="FDL315", message=message)


def _is_one_step(method: MethodIR) -> bool:
    """Return True if a helper stays as it is, and is one step of its callers."""
    return method.is_whole_step or (not method.refusals and _is_undecorable(method))


def _is_undecorable(method: MethodIR, block: Block | None = None) -> bool:
    """Return True if a helper needs flow words but cannot be a `@subflow`."""
    if method.name == "forward" or set(method.decorators) <= SUBFLOW_BELOW:
        return False
    words = block_words(describe(method) if block is None else block)
    return bool(words) and not _needs_no_mark(method, words)


def _needs_no_mark(method: MethodIR, words: set[str]) -> bool:
    """Return True if a helper works with tensors as it does in a flow: `call` is just the call there."""
    return bool(_UNMARKED & set(method.decorators)) and words == {"apply"}


def describe(method: MethodIR) -> Block:
    """Return the body of a method in flow words, as short as the patterns make it."""
    written = write_words(method.body)
    if method.name == "forward" or block_words(written):
        written = without_deletes(written)
    if any(stmt.name == "nonlocal" for stmt in statements(written)):
        # A call may set variables: nothing is moved.
        return written
    patterns = PATTERNS if _runs_once(method) else NAMELESS
    structured = shorten(written, STRUCTURE)
    return shorten(join_residuals(structured, method.params), patterns)


def _runs_once(method: MethodIR) -> bool:
    """Return True if a method is a whole flow, of which the flow of a base is no part."""
    has_base = any(expr.op == "name" and expr.name == "super" for expr in expressions(method.body))
    return method.name == "forward" and not has_base


def _value_plan(value: ValueFact, reason: Reason | None) -> ClassPlan:
    kept = reason is not None
    return ClassPlan(
        name=value.name,
        line=value.span.line,
        status="kept" if kept else "graph",
        edits=() if kept else (Wrap(span=value.span, word="Graph", method="from_sequential"),),
        words=() if kept else ("Graph",),
        reasons=() if reason is None else (reason,),
        ops_total=value.stages,
        ops_in_graph=0 if kept else value.stages,
        reading=f"{value.name}: kept" if kept else f"{value.name}: a graph of its layers",
    )


def _class_edits(
    model: ModelIR,
    blocks: list[tuple[MethodIR, Block]],
    flows: frozenset[str],
    plain: frozenset[str],
) -> Iterator[Edit]:
    bases = [base.span for base in model.facts.bases if base.kind == "module"]
    for span in (*bases, *model.facts.module_inits):
        yield ReplaceWord(span=span, word="FlowModule")
    layers = [
        base.span
        for base in model.facts.bases
        if base.kind == "layer" or (base.kind == "local" and base.name in plain)
    ]
    # A base that becomes a flow brings FlowModule, which may not precede it.
    if (
        layers
        and not bases
        and not any(base.name in flows for base in model.facts.bases if base.kind == "local")
    ):
        yield AddBase(at=layers[-1].end, word="FlowModule")
    for method, block in blocks:
        describes = bool(block_words(block))
        if method.name == "forward":
            # An overload for a type checker or for TorchScript that kept its name would hide the flow.
            for span in (*model.facts.overloads, method.name_span):
                yield ReplaceWord(span=span, word="flow")
            for span in method.around:
                yield Wrap(span=span, word="on_forward")
        elif describes and not _needs_no_mark(method, block_words(block)):
            yield Decorate(at=method.span.start, word="subflow")
        if method.name == "forward" or describes:
            for span in method.annotations:
                yield ReplaceWord(span=span, word="Flow")
        yield from _block_edits(method.body, block)


def _block_edits(before: Block, after: Block) -> Iterator[Edit]:
    """Return the edits that turn one block into the other."""
    originals = {stmt.sources[0]: stmt for stmt in before}
    kept = {span for stmt in after for span in stmt.sources}
    joined = [stmt.sources for stmt in after if len(stmt.sources) > 1]
    for span in originals:
        # Text between two statements that become one is replaced together with them.
        inside = any(each[0].start < span.start < each[-1].end for each in joined)
        if span not in kept and not inside:
            yield Remove(span=span)
    for stmt in after:
        original = originals.get(stmt.sources[0])
        if original is None or len(stmt.sources) > 1 or original.op != stmt.op:
            yield ReplaceStatement(stmt=stmt)
            continue
        is_settled = stmt.op == "assign" and stmt.targets[0].span is None
        if is_settled or (stmt.lead is not None and stmt.exprs[0].span is None):
            yield ReplaceStatement(stmt=stmt)
            continue
        yield from _statement_edits(original, stmt)


def _statement_edits(before: Stmt, after: Stmt) -> Iterator[Edit]:
    pairs = zip((*before.exprs, *before.targets), (*after.exprs, *after.targets), strict=True)
    for old, new in pairs:
        if new is not old:
            yield from _expression_edits(old, new)
    yield from _block_edits(before.body, after.body)
    yield from _block_edits(before.orelse, after.orelse)


def _expression_edits(old: Expr, new: Expr) -> Iterator[Edit]:
    assert old.span is not None, "what was read from the source has a place"
    differs = new.span is None or old.op != new.op or len(old.parts) != len(new.parts)
    if differs or (new.op in _OPERATORS and any(_is_loose(part) for part in new.parts)):
        yield ReplaceExpression(span=old.span, expr=new)
        return
    for before, after in zip(old.parts, new.parts, strict=True):
        if after is not before:
            yield from _expression_edits(before, after)


def _is_loose(expr: Expr) -> bool:
    """Return True if an operand is one that we made, which may need parentheses that the source has not."""
    return expr.span is None and expr.op in _OPERATORS


def block_words(block: Block) -> set[str]:
    """Return the flow words that a block uses."""
    return {expr.op for expr in expressions(block) if expr.op in FLOW_WORDS}


def _words(edits: tuple[Edit, ...], blocks: list[tuple[MethodIR, Block]]) -> Iterator[str]:
    for edit in edits:
        if isinstance(edit, ReplaceWord | AddBase | Decorate | Wrap) and edit.word != "flow":
            yield edit.word
    for _, block in blocks:
        for expr in expressions(block):
            if expr.op == "apply":
                yield "call"
            elif expr.op == "merge":
                yield expr.name
