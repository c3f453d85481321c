"""Definitions of a file: classes, their attributes and methods, functions and values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, final

from fdl_cli.porter.ir.expressions import Kind
from fdl_cli.porter.ir.findings import Reason
from fdl_cli.porter.ir.source import Span
from fdl_cli.porter.ir.statements import Block

AttributeKind = Literal[
    "module", "modules", "parameter", "parameters", "tensors", "value", "unknown"
]
BaseKind = Literal["module", "flow", "local", "layer", "other"]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class AttributeFact:
    """An attribute set on `self`, and its constructor (a dotted name, or nothing)."""

    name: str
    kind: AttributeKind
    constructor: str
    text: str
    line: int


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class BaseFact:
    """One base class: its dotted or local name, its place, and its kind."""

    name: str
    kind: BaseKind
    span: Span


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class MethodIR:
    """One understood method: parameters (without `self`) and body.

    `name_span` covers the method's name, `start` is the first column of `def` or of its first
    decorator; `annotations` are the places that say `torch.Tensor`; `refusals` say why it cannot
    be described, if so; `own_calls` are the methods of the same object which it calls. `opaque` are
    the operations inside functions that are passed to others, and their places.
    `set_elsewhere` are the attributes of other objects that steps set, and where. `is_whole_step`: it
    has been refused, and can be one step of the methods that call it. `around` are the decorators
    of a forward that are called at every call, not while it is described.
    """

    name: str
    self_name: str
    params: tuple[str, ...]
    body: Block
    span: Span
    name_span: Span
    annotations: tuple[Span, ...]
    decorators: tuple[str, ...]
    refusals: tuple[Reason, ...]
    own_calls: tuple[str, ...]
    opaque: tuple[tuple[int, int], ...] = ()
    set_elsewhere: tuple[tuple[str, int], ...] = ()
    is_whole_step: bool = False
    around: tuple[Span, ...] = ()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ClassFacts:
    """One class statement, as far as it can be known without running it.

    `module_inits` are the places that say `nn.Module` in `nn.Module.__init__(self)`;
    `overloads` are the names of definitions of `forward` which a later one replaces.
    """

    name: str
    span: Span
    bases: tuple[BaseFact, ...]
    attributes: tuple[AttributeFact, ...]
    methods: tuple[str, ...]
    members: tuple[str, ...]
    module_inits: tuple[Span, ...]
    metaclass: str
    top_level: bool
    overloads: tuple[Span, ...] = ()
    decorators: tuple[str, ...] = ()

    def attribute(self, name: str) -> AttributeFact | None:
        """Find an attribute by name."""
        for fact in self.attributes:
            if fact.name == name:
                return fact
        return None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ModelIR:
    """A class of which `forward` and the methods it reaches were read.

    `methods` holds `forward` first; it is empty for a class without one.
    """

    facts: ClassFacts
    methods: tuple[MethodIR, ...]
    refusals: tuple[Reason, ...]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ValueFact:
    """A module-level `nn.Sequential(...)` of some stages, bound to a name."""

    name: str
    span: Span
    stages: int


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RelativeIR:
    """A class of another file which a class of this file extends.

    `name` is how bases of this file name it; `reached` are its methods that forwards here reach;
    `kept` is set when it will not be a graph, for the reasons of its own file. A class that is no module
    (a mixin of plain methods) becomes none either. `plain`: its file is not ported with this one, so it stays
    as it is, and the classes below it bring FlowModule themselves.
    """

    name: str
    is_module: bool
    has_forward: bool
    reached: frozenset[str]
    kept: bool
    plain: bool = False


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptIR:
    """Everything understood about one file; `on_flodl` are the classes that are ported already.

    `extended` are classes of this file which become graphs for the sake of heirs in other files;
    `results` says what the methods of each class that were read return. `starts`: the file does
    something when it is run, besides defining names.
    """

    models: tuple[ModelIR, ...]
    relatives: tuple[RelativeIR, ...] = ()
    extended: frozenset[str] = frozenset()
    results: Mapping[str, Mapping[str, Kind]] = field(default_factory=dict)
    starts: bool = False
    on_flodl: tuple[str, ...]
    values: tuple[ValueFact, ...]
    flodl_names: tuple[tuple[str, str], ...]
    used_names: frozenset[str]
    imports_torch: bool
    import_at: int
