"""Text of a training loop as functions and a `Trainer.builder`; its lines keep their text."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import final

from fdl_cli.porter.emit.apply import Patch
from fdl_cli.porter.ir.source import Span
from fdl_cli.porter.ir.training import BuiltIR, PartIR
from fdl_cli.porter.parse.reader import STRING_OR_COMMENT, SourceFile


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionNames:
    """The names of the functions of one loop."""

    train: str
    after_step: str
    before_epoch: str
    after_epoch: str


@final
class FreeNames:
    """Hands out names that a file does not use yet."""

    def __init__(self, used: Iterable[str]) -> None:
        self._used = set(used)

    def take(self, wanted: str) -> str:
        """Return the name, with a number if it is taken."""
        name, number = wanted, 2
        while name in self._used:
            name, number = f"{wanted}_{number}", number + 1
        self._used.add(name)
        return name

    def functions(self) -> FunctionNames:
        """Return names for the functions of one more loop."""
        return FunctionNames(
            train=self.take("train_step"),
            after_step=self.take("after_step"),
            before_epoch=self.take("before_epoch"),
            after_epoch=self.take("after_epoch"),
        )


def built_patch(
    source: SourceFile, built: BuiltIR, model: str, names: FunctionNames, trainer: str
) -> Patch:
    """Return the patch that exchanges the lines of a loop."""
    lines = list(_Writer(source, built, model, names, trainer).lines())
    start = source.offset(built.first, 0)
    end = source.line_end(source.offset(built.last, 0))
    return Patch(start, end, source.newline.join(lines), source.text[start:end])


@final
class _Writer:
    """Writes one loop."""

    def __init__(
        self, source: SourceFile, built: BuiltIR, model: str, names: FunctionNames, trainer: str
    ) -> None:
        self._source = source
        self._built = built
        self._model = model
        self._names = names
        self._trainer = trainer
        self._indent = source.indent_at(source.offset(built.first, 0))
        self._inside_text = _lines_in_strings(source)

    def lines(self) -> Iterator[str]:
        """Yield the functions, then the builder."""
        it, names = self._built, self._names
        if it.unbound:
            yield f"{self._indent}{' = '.join(it.unbound)} = None"
        yield from self._gap(blank=not it.unbound)
        yield from self._function(names.train, (it.parameter, it.batch), it.train)
        yield from self._function(names.after_step, (it.training, it.loss), it.after_step)
        yield from self._function(
            names.before_epoch, (it.epoch_parameter, it.training), it.before_epoch
        )
        yield from self._function(names.after_epoch, (it.training, it.metrics), it.after_epoch)
        for part in (it.before_epoch, it.after_step, it.after_epoch):
            if part.empty:
                yield from (line for line in self._body(part, self._indent) if line.strip())
        yield from self._builder()

    def _gap(self, *, blank: bool) -> Iterator[str]:
        """Yield the blank lines before a definition; some may be there already (`blank`)."""
        wanted = 1 if self._indent else 2
        if not blank:
            yield from [""] * wanted
            return
        start = self._source.offset(self._built.first, 0)
        above = [line.strip() for line in self._source.text[:start].splitlines()[-2:]]
        if above and above[-1].endswith(":"):
            return
        there = next((n for n, line in enumerate(reversed(above)) if line), len(above))
        yield from [""] * max(wanted - there, 0)

    def _builder(self) -> Iterator[str]:
        it, names = self._built, self._names
        deeper = self._indent + it.unit
        yield f"{self._indent}("
        made = f"{self._trainer}.builder({self._model}, {it.optimizer}, {names.train})"
        yield f"{deeper}{made}"
        for call in it.calls:
            yield f"{deeper}{call}"
        for event, name, part in (
            ("epoch_start", names.before_epoch, it.before_epoch),
            ("step", names.after_step, it.after_step),
            ("epoch", names.after_epoch, it.after_epoch),
        ):
            if not part.empty:
                yield f'{deeper}.on("{event}", {name})'
        yield f"{deeper}.run()"
        yield f"{deeper}.join()"
        yield f"{self._indent})"

    def _function(self, name: str, parameters: tuple[str, ...], part: PartIR) -> Iterator[str]:
        if part.empty:
            return
        inside = self._indent + self._built.unit
        yield f"{self._indent}def {name}({', '.join(parameters)}):"
        yield from (f"{inside}{line}" for line in self._declarations(part.shared))
        yield from (f"{inside}{line}" for line in part.opening)
        yield from _trimmed(list(self._body(part, inside)))
        yield from (f"{inside}{line}" for line in part.closing)
        # Blank lines separate a definition of a module from its successor.
        yield from [""] * (1 if self._indent else 2)

    def _declarations(self, shared: tuple[str, ...]) -> Iterator[str]:
        module = [name for name in shared if name in self._built.globals_]
        around = [name for name in shared if name not in self._built.globals_]
        if module:
            yield f"global {', '.join(module)}"
        if around:
            yield f"nonlocal {', '.join(around)}"

    def _body(self, part: PartIR, indent: str) -> Iterator[str]:
        """Yield the lines of a part at another indentation, without the removed text."""
        source = self._source
        numbers = [n for first, last in part.lines for n in range(first, last + 1)]
        old = self._old_indent(part, numbers)
        for number in numbers:
            start = source.offset(number, 0)
            text = source.text[start : source.line_end(start)]
            removed = next((s for s in part.removed if self._covers(s, number)), None)
            if removed is not None:
                rest = source.text[removed.end : source.line_end(removed.end)].strip()
                if rest and number == source.line_of(removed.end):
                    yield f"{indent}{rest}"
                continue
            text = _exchanged(text, start, part.replaced)
            if number in self._inside_text:
                yield text
            elif not text.strip():
                yield ""
            elif text.startswith(old):
                yield indent + text.removeprefix(old)
            else:
                yield indent + text.lstrip() if text.lstrip().startswith("#") else text

    def _old_indent(self, part: PartIR, numbers: Sequence[int]) -> str:
        """Return the indentation of the first line that is not a comment, else of any."""
        found = ""
        for number in numbers:
            start = self._source.offset(number, 0)
            text = self._source.text[start : self._source.line_end(start)].strip()
            if text:
                found = self._source.indent_at(start)
            if text and not text.startswith("#"):
                break
        del part
        return found

    def _covers(self, span: Span, number: int) -> bool:
        return span.line <= number <= self._source.line_of(span.end)


def _lines_in_strings(source: SourceFile) -> frozenset[int]:
    """Return the lines that begin inside a string, whose white space is part of it."""
    found: set[int] = set()
    for match in STRING_OR_COMMENT.finditer(source.text):
        first, last = source.line_of(match.start()), source.line_of(match.end())
        found.update(range(first + 1, last + 1))
    return frozenset(found)


def _exchanged(text: str, start: int, replaced: Sequence[tuple[Span, str]]) -> str:
    for span, word in sorted(replaced, key=lambda item: item[0], reverse=True):
        low, high = span.start - start, span.end - start
        if low >= 0 and high <= len(text):
            text = text[:low] + word + text[high:]
    return text


def _trimmed(lines: list[str]) -> list[str]:
    """Return lines without blank ones at both ends."""
    while lines and not lines[0].strip():
        del lines[0]
    while lines and not lines[-1].strip():
        del lines[-1]
    return lines
