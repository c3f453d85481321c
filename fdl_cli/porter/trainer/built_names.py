"""Names that the functions of a built loop share, and the value each of them starts with."""

import ast
from collections.abc import Iterable, Mapping
from typing import Final, final

from fdl_cli.porter.ir.source import Span
from fdl_cli.porter.ir.training import BuiltIR, PartIR
from fdl_cli.porter.lower.names import FunctionNode
from fdl_cli.porter.trainer.built_calls import calls_of, is_schedule
from fdl_cli.porter.trainer.loop_pieces import Pieces, own_jumps
from fdl_cli.porter.trainer.loop_place import LoopPlace
from fdl_cli.porter.trainer.rest_of_scope import later_mentions
from fdl_cli.porter.trainer.scope_names import bound, mentioned, stays_inside
from fdl_cli.porter.trainer.training_step import NotMovedError, StepParts, receiver

TRAIN: Final = "train"
AFTER_STEP: Final = "after_step"
BEFORE: Final = "before_epoch"
AFTER: Final = "after_epoch"


@final
class Naming:
    """Decides for one loop; `outer` is the loop over epochs that is taken over with it."""

    def __init__(
        self,
        place: LoopPlace,
        pieces: Pieces,
        parts: StepParts,
        model: str,
        outer: ast.For | None,
    ) -> None:
        self.place = place
        self.pieces = pieces
        self.parts = parts
        self.model = model
        self.outer = outer
        self.top = outer or pieces.loop
        self.removed = list(parts.removed())
        self.calls: list[str] = []
        self.index, self.target, self.data = self._batches()
        self.statements = self._statements()
        self._absorb_schedule()
        self.reads = self._reads()
        self.all = mentioned([self.top])
        self.given: dict[str, set[str]] = {TRAIN: bound([self.target])}
        self.opening: dict[str, list[str]] = {}
        self.later = later_mentions(place, self.top) | self._read_by_data() | self._declared()
        self.loss = self._loss_parameter()
        self.shared: set[str] = set()
        self.epoch_parameter = self.free("epoch", "number", "epoch_number")
        self.training = self.free("training", "run", "trainer_state")

    def built(self) -> BuiltIR:
        """Return the decisions."""
        self._open_index()
        self._open_epoch()
        self.shared |= self._crossing()
        self._refuse_annotations()
        source, scope = self.place.source, self.place.scope
        declared = self._declared()
        inside = isinstance(scope, FunctionNode)
        return BuiltIR(
            first=self.top.lineno,
            last=self.top.end_lineno or 0,
            optimizer=ast.unparse(self.parts.optimizer),
            parameter=self.model if self.model.isidentifier() else self.free("model", "module"),
            loss=self.loss or self.free("_loss", "_step_loss"),
            calls=tuple(
                calls_of(self.place, self.parts, self.model, self.data, self.outer, self.calls)
            ),
            train=self._train_part(),
            after_step=self._after_step_part(),
            before_epoch=self._before_part(),
            after_epoch=self._after_part(),
            epoch_parameter=self.epoch_parameter,
            training=self.training,
            batch=self.free("batch", "batch_", "given"),
            metrics=self.free("metrics", "epoch_metrics"),
            taken=tuple(
                each.lineno for each in (self.pieces.backward, self.parts.step, *self.removed)
            ),
            globals_=frozenset(self.shared & declared if inside else self.shared),
            unbound=tuple(sorted(self._unbound(declared))) if inside else (),
            unit=self._unit(source.indent_at(source.span(self.pieces.loop).start)),
        )

    def _refuse_annotations(self) -> None:
        """Refuse shared names with an annotation: Python does not let them be declared."""
        for node in ast.walk(self.top):
            match node:
                case ast.AnnAssign(target=ast.Name(id=name)) if name in self.shared:
                    message = f"`{name}` has an annotation, and several functions would share it"
                    raise NotMovedError("FDL427", message, node)
                case _:
                    pass

    def _declared(self) -> set[str]:
        """Return the names that the function around the loop declares as the module's."""
        if not isinstance(self.place.scope, FunctionNode):
            return set()
        nodes = ast.walk(self.place.scope)
        return {name for node in nodes if isinstance(node, ast.Global) for name in node.names}

    def free(self, *candidates: str) -> str:
        """Return the first name that the loop does not mention."""
        return next((name for name in candidates if name not in self.all), f"{candidates[0]}_")

    # ---- what goes where -------------------------------------------------------------------------

    def _statements(self) -> dict[str, tuple[ast.stmt, ...]]:
        pieces = self.pieces
        found = {
            TRAIN: pieces.train,
            AFTER_STEP: (*pieces.between, *pieces.after),
            BEFORE: (),
            AFTER: (),
        }
        if self.outer is not None:
            at = self.outer.body.index(pieces.loop)
            found[BEFORE] = tuple(self.outer.body[:at])
            found[AFTER] = tuple(self.outer.body[at + 1 :])
        return found

    def _reads(self) -> dict[str, set[str]]:
        found = {name: mentioned(nodes) for name, nodes in self.statements.items()}
        found[TRAIN] |= mentioned([self.pieces.loss, self.target])
        return found

    def _batches(self) -> tuple[str, ast.expr, ast.expr]:
        """Return the name that counts the batches, the targets of a batch, and the data.

        `for i, batch in enumerate(data)` gives its number to what follows the step only.
        """
        loop = self.pieces.loop
        items = loop.iter
        if (
            isinstance(items, ast.Call)
            and isinstance(items.func, ast.Name)
            and items.func.id == "enumerate"
            and len(items.args) == 1
            and not items.keywords
            and isinstance(loop.target, ast.Tuple)
            and len(loop.target.elts) == 2
            and isinstance(loop.target.elts[0], ast.Name)
        ):
            index, target = loop.target.elts
            assert isinstance(index, ast.Name)
            early = mentioned([*self.pieces.train, self.pieces.loss, target, items])
            late = bound([*self.pieces.between, *self.pieces.after])
            if index.id not in early | late:
                return index.id, target, items.args[0]
        return "", loop.target, items

    def _absorb_schedule(self) -> None:
        """Let the builder move a schedule whose step comes right after the update, or the epoch."""
        for part, every in ((AFTER_STEP, ', every="step"'), (AFTER, "")):
            nodes = self.statements[part]
            first = nodes[0] if nodes else None
            ready = part == AFTER or not self.pieces.between
            if ready and isinstance(first, ast.Expr) and is_schedule(self.place, self.top, first):
                name = ast.unparse(receiver(first.value))
                self.calls.append(f".scheduler({name}{every})")
                self.removed.append(first)
                self.statements[part] = nodes[1:]
                return

    # ---- names -----------------------------------------------------------------------------------

    def _loss_parameter(self) -> str:
        """Return the name of the loss when only the lines after the step look at it."""
        if not isinstance(self.pieces.loss, ast.Name):
            return ""
        name = self.pieces.loss.id
        elsewhere = self.later | self.reads[BEFORE] | self.reads[AFTER]
        own = stays_inside(self.statements[TRAIN], name, set_before=False)
        late = stays_inside(self.statements[AFTER_STEP], name, set_before=True)
        made = name in bound(self.statements[TRAIN])
        return name if made and own and late and name not in elsewhere else ""

    def _open_index(self) -> None:
        if not self.index:
            return
        far = self.later | self.reads[AFTER] | self.reads[BEFORE]
        if self.index in far | self.reads[AFTER_STEP]:
            self.opening.setdefault(AFTER_STEP, []).append(
                f"{self.index} = {self.training}.position - 1"
            )
            self.given.setdefault(AFTER_STEP, set()).add(self.index)
        if self.index in far:
            self.shared.add(self.index)

    def _open_epoch(self) -> None:
        """Give the number of the epoch to the functions that need it."""
        if self.outer is None:
            return
        assert isinstance(self.outer.target, ast.Name)
        assert isinstance(self.outer.iter, ast.Call)
        name = self.outer.target.id
        start = self.outer.iter.args[0] if len(self.outer.iter.args) == 2 else None
        offset = "" if start is None else f" + {_operand(start)}"
        everything = [node for nodes in self.statements.values() for node in nodes]
        wide = name in self.later | self.reads[TRAIN] or name in bound(everything)
        if wide:
            self.shared.add(name)
        if wide or (offset and name in self.reads[BEFORE]):
            self.opening[BEFORE] = [f"{name} = {self.epoch_parameter}{offset}"]
        elif name in self.reads[BEFORE]:
            self.epoch_parameter = name
        self.given.setdefault(BEFORE, set()).add(name)
        for part in (AFTER_STEP, AFTER):
            if not wide and name in self.reads[part]:
                line = f"{name} = {self.training}.epoch{offset}"
                self.opening.setdefault(part, []).append(line)
                self.given.setdefault(part, set()).add(name)

    def _crossing(self) -> set[str]:
        """Return the names that one function sets and something else reads."""
        sets = {part: bound(nodes) for part, nodes in self.statements.items()}
        sets[TRAIN] |= bound([self.target])
        names = set().union(*sets.values())
        return {name for name in names if not self._is_private(name, sets)}

    def _is_private(self, name: str, sets: Mapping[str, set[str]]) -> bool:
        if name == self.loss:
            return True
        readers = [part for part, found in self.reads.items() if name in found]
        if name in self.later:
            return False
        # A name that each of several functions sets before it reads it is another one in each.
        return all(
            name in sets[part] | self.given.get(part, set())
            and stays_inside(
                self.statements[part], name, set_before=name in self.given.get(part, set())
            )
            for part in readers
        )

    def _unbound(self, declared: set[str]) -> set[str]:
        """Return the shared names that the function around the loop does not set anywhere else."""
        scope = self.place.scope
        assert isinstance(scope, FunctionNode)
        known = bound(scope.body, self.top) | declared
        known |= {arg.arg for arg in ast.walk(scope.args) if isinstance(arg, ast.arg)}
        for node in ast.walk(scope):
            if isinstance(node, ast.Nonlocal):
                known.update(node.names)
        return self.shared - known

    def _read_by_data(self) -> set[str]:
        return mentioned([self.data]) if self.outer is not None else set()

    # ---- the parts -------------------------------------------------------------------------------

    def _train_part(self) -> PartIR:
        loop, source = self.pieces.loop, self.place.source
        comment = source.text[
            source.span(self.pieces.backward).end : source.line_end(
                source.span(self.pieces.backward).end
            )
        ].strip()
        closing = f"return {self.place.text(self.pieces.loss)}"
        target = _bare(self.place.text(self.target))
        opening = () if target == "_" else (f"{target} = {self.free('batch', 'batch_', 'given')}",)
        return self._part(
            TRAIN,
            ((self._body_line(loop), self.pieces.backward.lineno - 1),),
            opening=opening,
            closing=(f"{closing}  {comment}" if comment else closing,),
            names=bound([self.target]),
        )

    def _after_step_part(self) -> PartIR:
        pieces = self.pieces
        jumps = own_jumps([*pieces.between, *pieces.after])
        words = {ast.Break: f"return {self.training}.stop()", ast.Continue: "return"}
        return self._part(
            AFTER_STEP,
            (
                ((pieces.backward.end_lineno or 0) + 1, pieces.step.lineno - 1),
                ((pieces.step.end_lineno or 0) + 1, pieces.loop.end_lineno or 0),
            ),
            opening=tuple(self.opening.get(AFTER_STEP, ())),
            replaced=tuple((self.place.source.span(node), words[type(node)]) for node in jumps),
            names=self.given.get(AFTER_STEP, set()),
        )

    def _before_part(self) -> PartIR:
        if self.outer is None:
            return PartIR(lines=(), empty=True)
        lines = ((self._body_line(self.outer), self.pieces.loop.lineno - 1),)
        opening = tuple(self.opening.get(BEFORE, ()))
        return self._part(BEFORE, lines, opening=opening, names=self.given.get(BEFORE, set()))

    def _after_part(self) -> PartIR:
        if self.outer is None:
            return PartIR(lines=(), empty=True)
        lines = (((self.pieces.loop.end_lineno or 0) + 1, self.outer.end_lineno or 0),)
        opening = tuple(self.opening.get(AFTER, ()))
        return self._part(AFTER, lines, opening=opening, names=self.given.get(AFTER, set()))

    def _part(
        self,
        name: str,
        lines: tuple[tuple[int, int], ...],
        *,
        names: Iterable[str],
        opening: tuple[str, ...] = (),
        closing: tuple[str, ...] = (),
        replaced: tuple[tuple[Span, str], ...] = (),
    ) -> PartIR:
        sets = bound(self.statements[name]) | set(names)
        source = self.place.source
        return PartIR(
            lines=lines,
            removed=tuple(source.span(node) for node in self.removed),
            replaced=replaced,
            opening=opening,
            closing=closing,
            shared=tuple(sorted(sets & self.shared)),
            empty=not (self.statements[name] or opening or closing),
        )

    def _body_line(self, loop: ast.For) -> int:
        """Return the line after the head of a loop; comments may follow there."""
        source = self.place.source
        colon = source.text.index(":", source.span(loop.iter).end)
        return source.line_of(colon) + 1

    def _unit(self, indent: str) -> str:
        first = self.pieces.loop.body[0]
        return self.place.source.indent_at(self.place.source.span(first).start)[len(indent) :]


def _bare(target: str) -> str:
    """Return the targets that a batch is unpacked into, as written in an assignment."""
    node = ast.parse(f"{target} = 0").body[0]
    assert isinstance(node, ast.Assign)
    plain = isinstance(node.targets[0], ast.Tuple) and node.targets[0].elts
    return target[1:-1] if plain and target.startswith("(") and target.endswith(")") else target


def _operand(node: ast.expr) -> str:
    text = ast.unparse(node)
    return text if isinstance(node, ast.Name | ast.Constant | ast.Attribute) else f"({text})"
