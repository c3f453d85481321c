"""Layout of a statement: on one line if it fits, else one step per line, with its comments."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

from fdl_cli.porter.emit.render import Renderer, precedence
from fdl_cli.porter.emit.wrapping import Frame, wrapped
from fdl_cli.porter.ir.expressions import STEP_WORDS, Expr, place, walk
from fdl_cli.porter.ir.source import Comment


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One line of a chain: a step's name and arguments, or plain text that ends the chain.

    `low` and `high` are the places of the source that it stands for.
    """

    name: str
    arguments: tuple[str, ...]
    tail: str
    low: int
    high: int

    @property
    def text(self) -> str:
        """Return the step on one line."""
        call = f".{self.name}({', '.join(self.arguments)})" if self.name else ""
        return call + self.tail


def lay_out(
    renderer: Renderer, frame: Frame, prefix: str, expr: Expr, comments: tuple[Comment, ...]
) -> list[str]:
    """Return the lines of `prefix expr`, comments at the steps which they belong to."""
    flat = renderer.flat(expr)
    single = prefix + flat
    fits = len(frame.indent) + len(single) <= frame.width and "\n" not in flat
    if fits and not comments:
        return [frame.indent + single]
    base, steps = chain_of(renderer, expr)
    if len(steps) >= 2:
        return _chain(frame, prefix, base, steps, comments)
    above = [frame.indent + comment.text for comment in comments]
    if not fits and expr.op == "apply" and "\n" not in flat:
        name, arguments = renderer.application(expr)
        return [*above, *_spread(frame, f"{prefix}{name}", arguments, "")]
    if fits or not steps:
        return [*above, *_verbatim(frame, prefix, flat)]
    return [*above, *_call(frame, f"{prefix}{base}", steps[0])]


def _verbatim(frame: Frame, prefix: str, flat: str) -> list[str]:
    from fdl_cli.porter.emit.render import breaks_outside

    if breaks_outside(flat):
        return [f"{frame.indent}{prefix}({flat})"]
    return wrapped(frame, prefix, flat)


def chain_of(renderer: Renderer, expr: Expr, *, ends: bool = True) -> tuple[str, list[Step]]:
    """Take an expression apart into its head and its steps."""
    if expr.op in STEP_WORDS:
        base, steps = chain_of(renderer, expr.parts[0], ends=False)
        if not steps:
            base = renderer.head(expr.parts[0])
        low, high = _extent(expr, expr.parts[1:])
        made = renderer.step(expr)
        if steps and expr.op == "tag":
            # The name is on the line of the value that it names.
            return base, [*steps[:-1], replace(steps[-1], tail=steps[-1].tail + _text(made))]
        return base, _joined([*steps, *_steps(made, low, high)])
    value = _receiver(expr)
    # An operator can only end a chain: before a further step it needs its parentheses.
    if value is None or (expr.op == "binary" and not ends):
        return renderer.flat(expr), []
    base, steps = chain_of(renderer, value, ends=False)
    if not steps:
        return renderer.flat(expr), []
    low, high = _extent(expr, ())
    if expr.op == "binary":
        right = renderer.operand(expr.parts[1], precedence(expr) + 1)
        return base, [
            *steps,
            Step(name="", arguments=(), tail=f"{expr.name} {right}", low=low, high=high),
        ]
    tail = _after(renderer, expr, value)
    if expr.op == "call":
        return base, [*steps, Step(name="", arguments=(), tail=tail, low=low, high=high)]
    last = steps[-1]
    return base, [*steps[:-1], replace(last, tail=last.tail + tail)]


def _text(made: list[tuple[str, list[str]]]) -> str:
    return "".join(f".{name}({', '.join(arguments)})" for name, arguments in made)


def _joined(steps: list[Step]) -> list[Step]:
    """Put the arguments that a step gets by `using` on its line."""
    if len(steps) < 2 or steps[-2].name != "using" or steps[-2].tail:
        return steps
    given, step = steps[-2:]
    name = f"{given.text.removeprefix('.')}.{step.name}"
    return [*steps[:-2], replace(step, name=name, low=min(given.low, step.low))]


def _steps(made: list[tuple[str, list[str]]], low: int, high: int) -> list[Step]:
    return [
        Step(name=name, arguments=tuple(arguments), tail="", low=low, high=high)
        for name, arguments in made
    ]


def _receiver(expr: Expr) -> Expr | None:
    if expr.span is None and expr.op != "binary":
        return None
    match expr.op:
        case "call" if expr.role == "method":
            return expr.parts[0].parts[0]
        case "index" | "attribute":
            return expr.parts[0]
        case "binary":
            return expr.parts[0]
        case _:
            return None


def _after(renderer: Renderer, expr: Expr, value: Expr) -> str:
    """Return the text after the receiver of a method call, subscript or attribute."""
    mark = Expr(op="name", name="_", kind="flow")
    if expr.op == "call":
        callee = replace(expr.parts[0], parts=(mark,))
        marked = replace(expr, parts=(callee, *expr.parts[1:]))
    else:
        marked = replace(expr, parts=(mark, *expr.parts[1:]))
    del value
    text = renderer.flat(marked).lstrip("( \t\r\n")
    return text.removeprefix("_").lstrip(") \t\r\n\\")


def _extent(expr: Expr, parts: tuple[Expr, ...]) -> tuple[int, int]:
    spans = [place(node) for part in parts for node in walk(part)]
    spans.append(place(expr))
    known = [span for span in spans if span is not None]
    # The step's own call includes its receiver: only where it ends says something.
    low = min((span.end for span in known), default=0)
    return low, max((span.end for span in known), default=0)


def _chain(
    frame: Frame, prefix: str, base: str, steps: list[Step], comments: tuple[Comment, ...]
) -> list[str]:
    inner = frame.deeper()
    above, before, behind, below = _placed(steps, comments)
    lines = [frame.indent + comment.text for comment in above]
    lines.append(f"{frame.indent}{prefix}(")
    joined = base.isidentifier()
    if not joined:
        lines += wrapped(inner, "", base)
    for index, step in enumerate(steps):
        lines += [inner.indent + comment.text for comment in before.get(index, [])]
        start = base if index == 0 and joined else ""
        made = _call(inner, start, step)
        if index in behind:
            # A line has one comment: the others go above it.
            *others, last = behind[index]
            lines += [inner.indent + comment.text for comment in others]
            made[-1] += "  " + last.text
        lines += made
    lines += [inner.indent + comment.text for comment in below]
    lines.append(f"{frame.indent})")
    return lines


def _placed(
    steps: list[Step], comments: tuple[Comment, ...]
) -> tuple[list[Comment], dict[int, list[Comment]], dict[int, list[Comment]], list[Comment]]:
    """Give every comment its place: above the chain, before or behind a step, or below all."""
    above: list[Comment] = []
    before: dict[int, list[Comment]] = {}
    behind: dict[int, list[Comment]] = {}
    below: list[Comment] = []
    for comment in comments:
        at = comment.span.start
        following = next((i for i, step in enumerate(steps) if step.high > at), None)
        previous = len(steps) - 1 if following is None else following - 1
        if not comment.alone and previous >= 0:
            behind.setdefault(previous, []).append(comment)
        elif following is None:
            below.append(comment)
        elif following == 0:
            above.append(comment)
        else:
            before.setdefault(following, []).append(comment)
    return above, before, behind, below


def _call(frame: Frame, start: str, step: Step) -> list[str]:
    """Return a step on one line, or with one argument per line when it is too long."""
    single = f"{frame.indent}{start}{step.text}"
    if len(single) <= frame.width or not step.name or "\n" in step.text or not step.arguments:
        return [single]
    return _spread(frame, f"{start}.{step.name}", step.arguments, step.tail)


def _spread(frame: Frame, callee: str, arguments: Sequence[str], tail: str) -> list[str]:
    """Return a call with its arguments on a separate line, or on one each."""
    inner = frame.deeper()
    lines = [f"{frame.indent}{callee}("]
    together = inner.indent + ", ".join(arguments)
    if len(together) <= frame.width:
        lines.append(together)
    else:
        for argument in arguments:
            lines += wrapped(inner, "", argument, ",")
    lines.append(f"{frame.indent}){tail}")
    return lines
