"""A recurrent cell that runs over the slices of a value, step by step.

Before: for t in range(x.size(1)): h = self.cell(x[:, t], h); outs.append(h)
After:  outs, h = x.scan(self.cell, h).along(1)

A described loop over time is recorded once for every length; a scan serves them all. It calls the cell
as the loop does, on the same slices in the same order, so outputs and gradients have the same bits.
A cell that gets more than its slice and its state, or gets them by the names of its parameters, is left
alone, as is a loop over `x.unbind(1)`: gradients of an unbound value add up to other zeros. Joining
`h.unsqueeze(1)` with `torch.cat` is no `torch.stack` here: gradients of `h` add up in another order.
"""

from dataclasses import dataclass, replace
from typing import final

from fdl_cli.porter.ir.expressions import Expr, names_read, place
from fdl_cli.porter.ir.statements import Block, Stmt, bound_names, target_names
from fdl_cli.porter.rewrite.collected import Collected, collected, folded, swapped
from fdl_cli.porter.rewrite.method_chain import straighten
from fdl_cli.porter.rewrite.pattern import Case, Match
from fdl_cli.porter.rewrite.slices import counts_slices, integer, slice_at, unbound
from fdl_cli.porter.rewrite.stages import as_stage, branch, is_pure

CASES = (
    Case(
        before="""
            def forward(self, x):
                x = x.unsqueeze(1)
                h = x.new_zeros(x.size(0), 4)
                outs = []
                for t in range(x.size(1)):
                    h = self.cell(x[:, t], h)
                    outs.append(h)
                outs = torch.stack(outs, dim=1)
                return self.head(outs), h
        """,
        after="""
            def flow(self, x):
                x = x.unsqueeze(1)
                outs, h = x.scan(self.cell, x.new_zeros(x.size(0), 4)).along(1)
                return outs.through(self.head), h
        """,
    ),
    # Only the outputs are wanted; each one is read out at its step.
    Case(
        before="""
            def forward(self, x):
                x = x.unsqueeze(1)
                B, T, D = x.shape
                outs = []
                h = torch.zeros(B, D)
                for t in range(T):
                    x_t = x[:, t, :]
                    h = self.cell(x_t, h)
                    outs.append(F.relu(self.head(h)))
                return self.norm(torch.stack(outs))
        """,
        after="""
            def flow(self, x):
                x = x.unsqueeze(1)
                B, T, D = x.shape
                h = torch.zeros(B, D)
                outs, _ = x.scan(self.cell, h, readout=(self.head, F.relu)).along(1, out_dim=0)
                return outs.through(self.norm)
        """,
    ),
    # The state of an LSTM has two parts; only the last one is wanted.
    Case(
        before="""
            def forward(self, x):
                x = x.unsqueeze(0)
                h = c = torch.zeros(x.size(1), 4)
                for t in range(len(x)):
                    h, c = self.lstm(x[t], (h, c))
                return self.head(h)
        """,
        after="""
            def flow(self, x):
                x = x.unsqueeze(0)
                h = c = torch.zeros(x.size(1), 4)
                h, c = x.scan(self.lstm, (h, c)).last(0)
                return h.through(self.head)
        """,
    ),
    Case(
        before="""
            def forward(self, x):
                x = x.unsqueeze(1)
                h = x.new_zeros(x.size(0), 4)
                outs = []
                for step in x.unbind(1):
                    h = self.cell(step, h)
                    outs.append(h)
                return self.head(torch.stack(outs, 1))
        """,
        after="""
            def flow(self, x):
                x = x.unsqueeze(1)
                outs, _ = x.scan(self.cell, x.new_zeros(x.size(0), 4)).along(1)
                return outs.through(self.head)
        """,
    ),
)
LEFT_ALONE = (
    # The slices count backwards.
    Case(
        before="""
            def forward(self, x):
                h = None
                for t in range(x.size(0) - 1, -1, -1):
                    h = self.cell(x[t:t + 1], h)
                return h
        """,
        after="""
            def flow(self, x):
                h = None
                for t in range(x.size(0) - 1, -1, -1):
                    h = x[t:t + 1].through(self.cell, h)
                return h
        """,
    ),
    # A step needs more than its slice and its state.
    Case(
        before="""
            def forward(self, x):
                x = x.unsqueeze(1)
                h = torch.zeros_like(x[:, 0])
                for t in range(x.size(1)):
                    h = self.cell(x[:, t] * t, h)
                return h
        """,
        after="""
            def flow(self, x):
                x = x.unsqueeze(1)
                h = torch.zeros_like(x[:, 0])
                for t in range(x.size(1)):
                    h = (x[:, t] * t).through(self.cell, h)
                return h
        """,
    ),
)
_CELLS = frozenset({"torch.nn.RNNCell", "torch.nn.GRUCell", "torch.nn.LSTMCell"})


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """One turn: the cell, its arguments, and the names of the parts of its state."""

    value: Expr
    cell: Expr
    state: Expr
    names: tuple[str, ...]
    target: Expr
    dim: int


def match(tail: Block, live: frozenset[str]) -> Match | None:
    """Write a loop over time as a scan, with its outputs or its last state alone."""
    if tail[-1].op == "for":
        return _last_state(tail, live)
    found = collected(tail, live)
    if found is None or found.merge != "Stack" or len(found.lead) != 1 or not is_pure(found.dim):
        return None
    before = (*found.earlier, *found.between)
    step = _step(found.lead[0], found.target, found.iterable, before)
    readout = branch(found.element)
    if step is None or readout is None or readout.head != step.names[0]:
        return None
    if any(names_read(stage) & {found.target.name, *step.names} for stage in readout.stages):
        return None
    dim = () if integer(found.dim) == step.dim else (found.dim,)
    read = (as_stage(readout.stages),) if readout.stages else ()
    labels = (*("out_dim" for _ in dim), *("readout" for _ in read))
    word = _scan(step, "along", (*dim, *read), labels, found.node)
    return _with_outputs(tail, live, found, step, word)


def _last_state(tail: Block, live: frozenset[str]) -> Match | None:
    loop = tail[-1]
    target = loop.targets[0]
    body = folded(loop.body, live)
    if loop.orelse or len(body) != 1 or names_read(target) & live:
        return None
    step = _step(body[0], target, loop.exprs[0], tail[:-1])
    if step is None:
        return None
    word = _scan(step, "last", (), (), step.value)
    stmt = Stmt(
        op="assign", targets=(step.target,), exprs=(word,), sources=loop.sources, name="loop"
    )
    return Match(count=1, stmt=stmt)


def _step(stmt: Stmt, index: Expr, iterable: Expr, earlier: Block) -> _Step | None:
    """Read `h = self.cell(x[:, t], h)`, if t counts all slices of x."""
    if stmt.op != "assign" or len(stmt.targets) != 1 or index.op != "name":
        return None
    target, value = stmt.targets[0], stmt.exprs[0]
    if value.op != "through" or len(value.parts) != 3 or not _is_state(value):
        return None
    item, cell, state = value.parts
    names = _names(state)
    found = _slices(item, index, iterable, earlier)
    if found is None or not names or names != _names(target):
        return None
    own = {index.name, *names}
    if found[0].name in own or names_read(cell) & own or not is_pure(cell):
        return None
    return _Step(value=found[0], cell=cell, state=state, names=names, target=target, dim=found[1])


def _slices(item: Expr, index: Expr, iterable: Expr, earlier: Block) -> tuple[Expr, int] | None:
    """Return of which value, along which dimension, the cell gets every slice in turn."""
    if item.op == "name" and item.name == index.name:
        return unbound(iterable)
    sliced = slice_at(item, index.name)
    if sliced is None or not counts_slices(iterable, sliced, earlier):
        return None
    return item.parts[0], sliced[1]


def _is_state(call: Expr) -> bool:
    """Return True if the second argument is passed as such; cells of torch call it `hx`."""
    label = call.labels[0]
    return label == "" or (label == "hx" and call.parts[1].maker in _CELLS)


def _names(state: Expr) -> tuple[str, ...]:
    """Return the names of `h` or of `(h, c)`; nothing for anything else."""
    parts = state.parts if state.op in {"tuple", "list"} else (state,)
    if len(parts) == 1 and state.op != "name":
        return ()
    names = tuple(part.name for part in parts if part.op == "name")
    return names if len(set(names)) == len(parts) else ()


def _scan(
    step: _Step, result: str, more: tuple[Expr, ...], labels: tuple[str, ...], node: Expr
) -> Expr:
    dim = Expr(op="constant", name=str(step.dim), kind="python")
    return Expr(
        op="scan",
        name=result,
        parts=(step.value, step.cell, step.state, dim, *more),
        labels=("", "state", "dim", *labels),
        kind="flow",
        origin=place(node),
    )


def _with_outputs(
    tail: Block, live: frozenset[str], found: Collected, step: _Step, word: Expr
) -> Match | None:
    """Give the outputs and the state their names; the last statement reads the outputs by name."""
    last = tail[-1]
    alone = last.op == "assign" and len(last.targets) == 1 and last.exprs[0] is found.node
    alone = alone and last.targets[0].op == "name"
    read = frozenset() if alone else _read_besides(last, found)
    wanted = (live - bound_names(last)) | read
    kept = any(name in wanted for name in step.names)
    if not kept and "_" in live | read:
        return None
    unused = Expr(op="name", name="_", kind="flow")
    name = last.targets[0].name if alone else found.name
    if name in step.names or not name:
        return None
    outputs = Expr(op="name", name=name, kind="flow")
    # A target of ours is written with the parentheses that it needs inside another one.
    state = replace(step.target, span=None) if step.target.op == "tuple" else step.target
    targets = Expr(op="tuple", parts=(outputs, state if kept else unused), kind="flows")
    sources = (*found.loop, *last.sources) if alone else found.loop
    stmt = Stmt(op="assign", targets=(targets,), exprs=(word,), sources=sources, name="loop")
    before = found.between
    if alone:
        return Match(count=found.count, stmt=stmt, before=before)
    value = straighten(swapped(last.exprs[0], found.node, outputs))
    return Match(count=found.count, stmt=replace(last, exprs=(value,)), before=(*before, stmt))


def _read_besides(last: Stmt, found: Collected) -> frozenset[str]:
    """Return the variables that the last statement reads besides the list."""
    mark = Expr(op="name", name="", kind="flow")
    rest = swapped(last.exprs[0], found.node, mark)
    targets = frozenset().union(*(names_read(t) - target_names(t) for t in last.targets))
    return names_read(rest) | targets
