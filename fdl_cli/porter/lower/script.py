"""One file as a whole: its models, the methods that their forwards reach, the values that count."""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import final

from fdl_cli.porter.ir.expressions import Kind
from fdl_cli.porter.ir.findings import Reason
from fdl_cli.porter.ir.symbols import (
    AttributeFact,
    BaseFact,
    BaseKind,
    ClassFacts,
    MethodIR,
    ModelIR,
    RelativeIR,
    ScriptIR,
)
from fdl_cli.porter.knowledge import torch_names as torch
from fdl_cli.porter.knowledge.tensor_methods import PARAMETER_ATTRIBUTES
from fdl_cli.porter.lower.class_hierarchy import ALONE, ClassHierarchy, Relative, method_nodes
from fdl_cli.porter.lower.classes import class_facts, class_nodes, stored_on_self
from fdl_cli.porter.lower.effects.attribute_writes import reads_of
from fdl_cli.porter.lower.effects.opaque_helpers import (
    fills_argument,
    is_whole_step,
    may_return_none,
)
from fdl_cli.porter.lower.environment import ClassView
from fdl_cli.porter.lower.file_facts import (
    flodl_names,
    forward_through_class,
    import_place,
    imports_torch,
    starts,
    used_names,
)
from fdl_cli.porter.lower.functions import understand_functions
from fdl_cli.porter.lower.given import OwnCall, given_kinds, written_calls
from fdl_cli.porter.lower.methods import MethodReader
from fdl_cli.porter.lower.module_classes import is_model, module_classes
from fdl_cli.porter.lower.names import FunctionNode, Names, collect
from fdl_cli.porter.lower.values import sequential_values
from fdl_cli.porter.parse.reader import SourceFile


def analyse(
    source: SourceFile, cautious: frozenset[str] = frozenset(), hierarchy: ClassHierarchy = ALONE
) -> ScriptIR:
    """Understand a file.

    The parameters of `cautious` classes are not taken for tensors.
    """
    names = collect(source.tree, hierarchy.brought)
    return _Script(source, names, cautious, hierarchy).read()


@final
class _Script:
    """The classes of one file, and the state that they share while their methods are read."""

    def __init__(
        self, source: SourceFile, names: Names, cautious: frozenset[str], hierarchy: ClassHierarchy
    ) -> None:
        self.source = source
        self.cautious = cautious
        self.names = names
        self.hierarchy = hierarchy
        self.nodes = list(class_nodes(source.tree))
        nodes = [node for node, _ in self.nodes]
        self.module_classes = module_classes(names, nodes, hierarchy)
        self.reader = MethodReader(source, names, self.module_classes)
        self.facts: dict[str, ClassFacts] = {}
        self.syntax: dict[str, dict[str, FunctionNode]] = {}
        self.results: dict[str, dict[str, Kind]] = {}
        self.calls: dict[str, list[OwnCall]] = {}
        self.ported: list[str] = []
        self.stored: dict[FunctionNode, set[str]] = {}
        self.on_self: dict[FunctionNode, set[str]] = {}
        self.relatives = {item.facts.name: item for item in hierarchy.relatives}
        for item in hierarchy.relatives:
            self.facts[item.facts.name] = item.facts
            self.syntax[item.facts.name] = dict(item.methods)
            self.results[item.facts.name] = dict(item.results)

    def read(self) -> ScriptIR:
        """Return the IR of the file."""
        models: list[tuple[ClassFacts, ast.ClassDef]] = []
        for node, top in self.nodes:
            facts = self._with_relatives(
                class_facts(self.source, self.names, self.module_classes, node, top)
            )
            facts = replace(facts, methods=tuple(self._methods(node)))
            if top:
                self.facts[node.name] = facts
                self.syntax[node.name] = self._methods(node)
            if self._is_ported(facts):
                self.ported.append(facts.name)
            elif is_model(facts, self.module_classes, self.facts):
                models.append((facts, node))
        if models:
            understand_functions(self.reader, self.names.functions, self.hierarchy.drawing)
        self.cautious |= self._given_containers()
        reached = self._reached_methods()
        self.reader.may_be_none = frozenset(
            name
            for name, methods in self.syntax.items()
            if "forward" in methods and may_return_none(methods["forward"])
        )
        for name, item in self.relatives.items():
            self._read_relative(name, item, reached[name])
        # Twice: the second pass knows the arguments and results that the first has read.
        for facts, node in models:
            self._read(facts, node, self._wanted(facts, node, reached))
        tree = self.source.tree
        return ScriptIR(
            models=tuple(self._model(facts, node, reached) for facts, node in models),
            relatives=tuple(self._relatives(reached)),
            results=self.results,
            on_flodl=tuple(self.ported),
            values=sequential_values(self.source, self.names),
            flodl_names=flodl_names(self.names),
            used_names=used_names(tree),
            starts=starts(tree),
            imports_torch=imports_torch(self.names),
            import_at=import_place(self.source),
        )

    def _with_relatives(self, facts: ClassFacts) -> ClassFacts:
        """Return the facts with bases that are known from other files or packages as known ones."""
        bases = tuple(
            replace(base, kind=self._known_kind(base)) if base.kind == "other" else base
            for base in facts.bases
        )
        return facts if bases == facts.bases else replace(facts, bases=bases)

    def _known_kind(self, base: BaseFact) -> BaseKind:
        if base.name in self.relatives:
            return "local"
        return "layer" if torch.is_foreign_module(base.name) else "other"

    def _relatives(self, reached: Mapping[str, frozenset[str]]) -> Iterator[RelativeIR]:
        for name, item in self.relatives.items():
            above = self._lineage(item.facts)
            yield RelativeIR(
                name=name,
                is_module=item.on_flodl or any(_makes_module(owner) for owner in above),
                has_forward=any("forward" in owner.methods for owner in above),
                reached=reached[name],
                kept=False,
            )

    def _methods(self, node: ast.ClassDef) -> dict[str, FunctionNode]:
        return method_nodes(node, module=node.name in self.module_classes)

    def _is_ported(self, facts: ClassFacts) -> bool:
        """Return True if a class is on the runtime already, by itself or through one above it."""
        if any(base.kind == "flow" for base in facts.bases):
            return True
        done = {*self.ported, *(name for name, item in self.relatives.items() if item.on_flodl)}
        below = any(base.kind == "local" and base.name in done for base in facts.bases)
        return below and "forward" not in facts.methods

    def _given_containers(self) -> frozenset[str]:
        """Find the classes of this file that are called with a tuple or list somewhere in it."""
        found: set[str] = set()
        for node, _ in self.nodes:
            facts = self.facts.get(node.name)
            for inner in ast.walk(node):
                match inner:
                    case ast.Call(
                        func=ast.Attribute(value=ast.Name(), attr=name),
                        args=[ast.Tuple() | ast.List(), *_],
                    ):
                        fact = facts.attribute(name) if facts is not None else None
                        if fact is not None and fact.constructor in self.module_classes:
                            found.add(fact.constructor)
                    case _:
                        pass
        return frozenset(found)

    def _view(self, facts: ClassFacts) -> ClassView:
        attributes: dict[str, AttributeFact] = {}
        methods: set[str] = set()
        results: dict[str, Kind] = {}
        for owner in self._lineage(facts):
            for fact in owner.attributes:
                attributes.setdefault(fact.name, fact)
            methods.update(owner.methods)
            for name, kind in self.results.get(owner.name, {}).items():
                results.setdefault(name, kind)
        lineage = self._lineage(facts)
        layers = [any(base.kind == "layer" for base in owner.bases) for owner in lineage]
        if any(layers):
            for name in PARAMETER_ATTRIBUTES:
                fact = AttributeFact(name=name, kind="parameter", constructor="", text="", line=0)
                attributes.setdefault(name, fact)
        return ClassView(
            attributes=attributes,
            methods=frozenset(methods),
            results=results,
            inherits_forward=any(layers[1:])
            or any("forward" in owner.methods for owner in lineage[1:]),
            extends_layer=any(layers),
            extends_foreign=any(
                torch.is_foreign_module(base.name) for owner in lineage for base in owner.bases
            ),
            stored=frozenset(
                name
                for owner in lineage
                for method, node in self.syntax.get(owner.name, {}).items()
                if method != "__init__"
                for name in self._stored_by(node)
            ),
            properties=frozenset(
                name
                for owner in lineage
                for name, node in self.syntax.get(owner.name, {}).items()
                if any(_makes_property(each) for each in node.decorator_list)
            ),
            fillers=frozenset(
                name
                for owner in lineage
                for name, node in self.syntax.get(owner.name, {}).items()
                if fills_argument(node, 0)
            ),
            wrapped_above=self._is_wrapped(lineage[1:]),
        )

    def _is_wrapped(self, above: list[ClassFacts]) -> bool:
        """Return True if the forward that some classes give has decorators that run at every call."""
        owner = next((each for each in above if "forward" in each.methods), None)
        node = self.syntax.get(owner.name, {}).get("forward") if owner is not None else None
        return node is not None and self.reader.is_wrapped(node)

    def _stored_by(self, node: FunctionNode) -> set[str]:
        # Asked again for every class below: a family may have hundreds.
        if node not in self.stored:
            self.stored[node] = stored_on_self(node)
        return self.stored[node]

    def _called_by(self, node: FunctionNode) -> set[str]:
        if node not in self.on_self:
            self.on_self[node] = _called_on_self(node)
        return self.on_self[node]

    def _lineage(self, facts: ClassFacts) -> list[ClassFacts]:
        """Return the class and its bases of this file, nearest first."""
        found: list[ClassFacts] = []
        queue = [facts]
        while queue:
            current = queue.pop(0)
            if current in found:
                continue
            found.append(current)
            queue += [self.facts[base.name] for base in current.bases if base.name in self.facts]
        return found

    def _reached_methods(self) -> Mapping[str, frozenset[str]]:
        """Return, per class, the methods that a forward of its family reaches."""
        elsewhere = self.hierarchy.reached
        reached = {name: {"forward", *elsewhere.get(name, ())} for name in self.facts}
        known = {
            name: {
                "forward",
                *(method for owner in self._lineage(facts) for method in owner.methods),
            }
            for name, facts in self.facts.items()
        }
        changed = True
        while changed:
            changed = False
            for name, facts in self.facts.items():
                lineage = self._lineage(facts)
                found = set(reached[name])
                for owner in lineage:
                    found |= reached[owner.name]
                    for method in found & set(owner.methods):
                        found = found | self._called_by(self.syntax[owner.name][method])
                for owner in lineage:
                    # An override in a subclass is reached through the base, and the reverse; what
                    # only the subclass has is not reached in another subclass of that base.
                    theirs = found & known[owner.name]
                    if not theirs <= reached[owner.name]:
                        reached[owner.name] |= theirs
                        changed = True
        return {name: frozenset(found) for name, found in reached.items()}

    def _read_relative(self, name: str, item: Relative, reached: frozenset[str]) -> None:
        """Note the arguments that methods of another file's class pass to those of the classes below it."""
        methods = (node for method, node in item.methods.items() if method in reached)
        self.calls[name] = [call for node in methods for call in written_calls(node)]

    def _wanted(
        self, facts: ClassFacts, node: ast.ClassDef, reached: Mapping[str, frozenset[str]]
    ) -> list[str]:
        """Return the methods of a class that its forward reaches, forward first."""
        found = [
            name for name in self._methods(node) if name in reached.get(facts.name, {"forward"})
        ]
        return sorted(found, key=lambda name: name != "forward")

    def _read(
        self, facts: ClassFacts, node: ast.ClassDef, wanted: list[str]
    ) -> tuple[MethodIR, ...]:
        """Read methods of a class, with the arguments and results of the calls that were read before."""
        nodes = self._methods(node)
        view = replace(self._view(facts), given=self._given(facts, nodes))
        self.reader.given = []
        careful = facts.name in self.cautious
        read = [self.reader.read(nodes[name], view, cautious=careful) for name in wanted]
        self.calls[facts.name] = self.reader.given
        if facts.top_level:
            self.results[facts.name] = dict(zip(wanted, (kind for _, kind in read), strict=True))
        return tuple(
            replace(method, name=name) for name, (method, _) in zip(wanted, read, strict=True)
        )

    def _above(self, facts: ClassFacts) -> frozenset[str]:
        return frozenset(owner.name for owner in self._lineage(facts))

    def _given(
        self, facts: ClassFacts, nodes: Mapping[str, FunctionNode]
    ) -> Mapping[str, Mapping[str, Kind]]:
        """Return the kinds of arguments that a family of classes passes to the methods of one of them."""
        own = self._above(facts)
        calls: list[OwnCall] = []
        for name, others in self.calls.items():
            known = self.facts.get(name)
            below = known is not None and facts.name in self._above(known)
            calls += (each for each in others if each.owner in own)
            if name in own or below:
                calls += (
                    each
                    for each in others
                    if not each.owner
                    and (below and name != facts.name if each.above else each.name != "forward")
                )
        # The caller of the others is in a file below this one.
        elsewhere = self.hierarchy.reached.get(facts.name, frozenset()) - {"forward"}
        return given_kinds(calls, nodes, elsewhere - {each.name for each in calls})

    def _model(
        self, facts: ClassFacts, node: ast.ClassDef, reached: Mapping[str, frozenset[str]]
    ) -> ModelIR:
        nodes = self._methods(node)
        wanted = self._wanted(facts, node, reached)
        methods = self._read(facts, node, wanted)
        methods = tuple(
            replace(
                each,
                is_whole_step=is_whole_step(
                    each,
                    nodes[each.name],
                    _others(nodes, each.name),
                    [nodes[name] for name in wanted if name != each.name],
                ),
            )
            for each in methods
        )
        return ModelIR(
            facts=facts,
            methods=methods,
            refusals=(
                *_refusals(facts, node, methods, self.source.tree),
                *_read_again(methods, [nodes[name] for name in wanted]),
            ),
        )


def _makes_module(facts: ClassFacts) -> bool:
    return any(
        base.kind in {"module", "flow", "layer"} or torch.is_foreign_module(base.name)
        for base in facts.bases
    )


def _makes_property(decorator: ast.expr) -> bool:
    """Return True for `@property`, `@cached_property` and `@name.setter`."""
    return ast.unparse(decorator).endswith(("property", ".setter", ".getter", ".deleter"))


def _called_on_self(node: FunctionNode) -> set[str]:
    if not node.args.args:
        return set()
    self_name = node.args.args[0].arg
    return {
        inner.attr
        for inner in ast.walk(node)
        if isinstance(inner, ast.Attribute)
        and isinstance(inner.value, ast.Name)
        and inner.value.id == self_name
    }


def _refusals(
    facts: ClassFacts, node: ast.ClassDef, methods: tuple[MethodIR, ...], tree: ast.Module
) -> tuple[Reason, ...]:
    found = [reason for method in methods for reason in method.refusals]
    for method in methods:
        if "forward" in method.own_calls:
            message = f"`{method.name}` calls itself"
            found.append(Reason(line=method.span.line, code="FDL317", message=message))
    for item in node.body:
        if isinstance(item, ast.Assign) and _binds(item, {"forward", "__call__"}):
            message = "`forward` is assigned, not defined"
            found.append(Reason(line=item.lineno, code="FDL207", message=message))
    for method in methods:
        if method.name == "forward" and "staticmethod" in method.decorators:
            line = forward_through_class(tree, facts.name)
            if line is not None:
                message = f"`{facts.name}.forward` is called without an object"
                found.append(Reason(line=line, code="FDL207", message=message))
    if "__call__" in facts.methods:
        found.append(
            Reason(line=facts.span.line, code="FDL207", message="the class has its own `__call__`")
        )
    return tuple(dict.fromkeys(found))


def _others(nodes: Mapping[str, FunctionNode], name: str) -> list[FunctionNode]:
    return [node for each, node in nodes.items() if each not in {name, "__init__"}]


def _read_again(methods: tuple[MethodIR, ...], nodes: list[FunctionNode]) -> Iterator[Reason]:
    """Find attributes of other objects that are set by steps and read while the flow is recorded."""
    for method in methods:
        for name, line in method.set_elsewhere:
            if any(True for _ in reads_of(nodes, name)):
                message = f"the attribute `.{name}` of another object is set, and read"
                yield Reason(line=line, code="FDL309", message=message)


def _binds(node: ast.Assign, names: set[str]) -> bool:
    return any(isinstance(target, ast.Name) and target.id in names for target in node.targets)
