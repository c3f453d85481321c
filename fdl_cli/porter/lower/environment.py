"""Facts about values while a method is read: kinds of names, attributes and results."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import final

from fdl_cli.porter.ir.expressions import Expr, Kind
from fdl_cli.porter.ir.findings import Reason
from fdl_cli.porter.ir.symbols import AttributeFact, AttributeKind
from fdl_cli.porter.lower.names import FunctionNode, Names
from fdl_cli.porter.parse.reader import SourceFile

FLOWING: frozenset[Kind] = frozenset({"flow", "result", "flows", "parameter", "parameters"})
MAY_FLOW: frozenset[Kind] = FLOWING | {"maybe", "size"}

ATTRIBUTE_KINDS: Mapping[AttributeKind, Kind] = {
    "module": "module",
    "modules": "modules",
    "parameter": "parameter",
    "parameters": "parameters",
    "tensors": "result",
    "value": "python",
    "unknown": "python",
}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionFact:
    """The effect of a script's function on graph values.

    `transparent`: its operations can be recorded one by one, so calls stay as they are written.
    `none_test`: it only says whether its argument is (not) None; the value is what True means.
    `draws`: it draws random numbers, so a call is a step even when nothing flows into it. `fills`: it
    may change a container that it is given.
    """

    transparent: bool
    result: Kind
    none_test: bool | None
    draws: bool = False
    fills: bool = False


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ClassView:
    """A class as its methods see it: own and inherited attributes and methods of the file.

    `inherits_forward`: a class of the file above this one has a forward; `extends_layer`: a class
    of torch that is more than `nn.Module` is among its bases, or one of a package of models
    (`extends_foreign`). `stored` are the attributes that
    methods other than the constructor set or fill: they are read live. `given` is what the calls
    of a method of the class hand to its parameters. `properties` are methods that are read as
    attributes, `fillers` those that may change a container that they are given. `wrapped_above`: the
    forward above is decorated.
    """

    attributes: Mapping[str, AttributeFact]
    methods: frozenset[str]
    results: Mapping[str, Kind]
    inherits_forward: bool
    extends_layer: bool
    extends_foreign: bool = False
    stored: frozenset[str] = frozenset()
    given: Mapping[str, Mapping[str, Kind]] = field(default_factory=dict)
    properties: frozenset[str] = frozenset()
    fillers: frozenset[str] = frozenset()
    wrapped_above: bool = False


@final
@dataclass
class Environment:
    """The state of one abstract interpretation; `kinds` are those of the local names.

    `may_be_none` are the classes of the file whose forward gives nothing in some calls; `shared` are
    the variables that functions inside of the method set, at whatever time; `optional` are the parameters
    that are traced values where they are not None.
    """

    source: SourceFile
    names: Names
    view: ClassView
    functions: Mapping[str, FunctionFact]
    module_classes: frozenset[str]
    may_be_none: frozenset[str]
    self_name: str
    kinds: dict[str, Kind] = field(default_factory=dict)
    refusals: list[Reason] = field(default_factory=list)
    own_calls: list[str] = field(default_factory=list)
    returns: list[Kind] = field(default_factory=list)
    parameters: list[str] = field(default_factory=list)
    optional: set[str] = field(default_factory=set)
    cautious: bool = False
    mapping: Kind | None = None
    in_context: bool = False
    method: FunctionNode | None = None
    opaque: dict[int, int] = field(default_factory=dict)
    local_functions: dict[str, Kind] = field(default_factory=dict)
    shared: set[str] = field(default_factory=set)
    handed: dict[str, Kind] = field(default_factory=dict)
    set_elsewhere: dict[str, int] = field(default_factory=dict)
    given: list[tuple[str, str, bool, tuple[tuple[str, Kind], ...]]] = field(default_factory=list)

    def bind(self, name: str, kind: Kind) -> None:
        """Note the kind of a variable; one that is anything but a traced value may be a weight."""
        self.kinds[name] = "maybe" if name in self.shared else kind
        if self.kinds[name] not in {"flow", "none"}:
            self.optional.discard(name)

    def refuse(self, line: int, code: str, message: str) -> None:
        """Note why the method cannot be described; each place once."""
        reason = Reason(line=line, code=code, message=message)
        if reason not in self.refusals:
            self.refusals.append(reason)

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Forget afterwards the names bound inside a lambda or comprehension."""
        saved = dict(self.kinds)
        try:
            yield
        finally:
            self.kinds = saved

    @contextmanager
    def scope_entry(self) -> Iterator[None]:
        """Read a context manager: modes and warnings may be changed by it."""
        saved, self.in_context = self.in_context, True
        try:
            yield
        finally:
            self.in_context = saved

    @property
    def torch_name(self) -> str:
        """Return the name by which the file knows torch, empty if it does not."""
        found = (alias for alias, full in self.names.aliases.items() if full == "torch")
        return next(found, "")

    def is_self(self, expr: Expr) -> bool:
        """Return True if the expression is the object itself."""
        return expr.op == "name" and expr.name == self.self_name and bool(self.self_name)


def join(first: Kind | None, second: Kind | None) -> Kind:
    """Return the kind of a value that comes from one of two places."""
    if first == second and first is not None:
        return first
    pair = {first, second}
    if None in pair:
        # Bound on one way only: the other way would be an error if it were read.
        return first or second or "maybe"
    if pair <= {"python", "size"}:
        return "size"
    if pair <= {"python", "none"}:
        return "python"
    if pair == {"size", "none"}:
        return "maybe"
    if pair == {"module", "none"}:
        return "module"
    if pair <= {"flow", "result", "none", "python", "size"}:
        return "result"
    if pair == {"flow", "parameter"}:
        return "parameter"
    if pair == {"flows", "parameters"}:
        return "parameters"
    return "maybe"
