"""Eligibility of classes for a description, and the reasons against it."""

from collections.abc import Mapping
from typing import final

from fdl_cli.porter.ir.findings import Reason
from fdl_cli.porter.ir.symbols import BaseFact, ClassFacts, ModelIR, ScriptIR
from fdl_cli.porter.knowledge.torch_names import (
    FOREIGN_BASES,
    FORWARDLESS,
    MIXINS,
    NOT_EXTENDED,
    is_foreign_module,
)


def find_obstacles(
    script: ScriptIR, demoted: Mapping[str, Reason]
) -> dict[str, tuple[Reason, ...]]:
    """Return, per class, every reason why it is kept; a class without reasons is described."""
    models = {model.facts.name: model for model in script.models}
    family = _Family(script, models)
    found = {model.facts.name: _own_obstacles(model, demoted) for model in script.models}
    for relative in script.relatives:
        if relative.kept:
            message = f"`{relative.name}` was kept in its own file"
            found[relative.name] = (Reason(line=1, code="FDL204", message=message),)
    changed = True
    while changed:
        changed = False
        for name, model in models.items():
            if found[name]:
                continue
            reasons = _base_obstacles(model.facts, family, found)
            if reasons:
                found[name] = reasons
                changed = True
    return found


def _own_obstacles(model: ModelIR, demoted: Mapping[str, Reason]) -> tuple[Reason, ...]:
    facts = model.facts
    line = facts.span.line
    if facts.name in demoted:
        return (demoted[facts.name],)
    if not facts.top_level:
        message = f"`{facts.name}` is defined inside a function or class"
        return (Reason(line=line, code="FDL206", message=message),)
    reasons = list(model.refusals)
    for base in facts.bases:
        foreign = base.kind == "layer" and is_foreign_module(base.name)
        has_forward = base.name not in FOREIGN_BASES
        if base.kind == "layer" and not foreign and not _can_extend(base):
            message = f"`{facts.name}` extends `{base.name}`"
            reasons.append(Reason(line=line, code="FDL202", message=message))
        elif (foreign and has_forward and "forward" not in facts.methods) or (
            base.kind == "other" and not _is_harmless(base)
        ):
            message = f"the base class `{base.name}` is not in this file"
            reasons.append(Reason(line=line, code="FDL203", message=message))
    if facts.metaclass not in {"", "ABCMeta", "abc.ABCMeta"}:
        message = f"`{facts.name}` has the metaclass `{facts.metaclass}`"
        reasons.append(Reason(line=line, code="FDL203", message=message))
    for decorator in facts.decorators:
        if decorator.startswith("torch.jit."):
            message = f"the decorator `@{decorator}` compiles the class as it is written"
            reasons.append(Reason(line=line, code="FDL315", message=message))
    reasons += _taken_names(facts)
    return tuple(dict.fromkeys(reasons))


def _can_extend(base: BaseFact) -> bool:
    """Return True if a described class may extend a layer or container of torch."""
    package, _, name = base.name.rpartition(".")
    own = package == "torch.nn" or package.startswith("torch.nn.modules")
    return own and not name.startswith(NOT_EXTENDED)


def _is_harmless(base: BaseFact) -> bool:
    return base.name in {"abc.ABC", "object", "typing.Generic"} or base.name in MIXINS


def _taken_names(facts: ClassFacts) -> list[Reason]:
    assigned = facts.attribute("forward")
    if assigned is not None and "forward" not in facts.members:
        message = "`forward` is an attribute of the object"
        return [Reason(line=assigned.line, code="FDL207", message=message)]
    if "flow" in facts.members:
        message = "`flow` is a name of the class, and that of the description"
        return [Reason(line=facts.span.line, code="FDL210", message=message)]
    return []


def _base_obstacles(
    facts: ClassFacts, family: "_Family", found: Mapping[str, tuple[Reason, ...]]
) -> tuple[Reason, ...]:
    line = facts.span.line
    for base in facts.bases:
        if base.kind == "local" and found.get(base.name):
            message = f"its base class `{base.name}` was kept"
            return (Reason(line=line, code="FDL204", message=message),)
    if not any(
        base.kind in {"module", "flow", "layer"} or family.is_module(base) for base in facts.bases
    ):
        names = " and ".join(f"`{base.name}`" for base in facts.bases)
        message = f"{names} extends a class that is not in this file"
        return (Reason(line=line, code="FDL203", message=message),)
    owner = family.plain_forward(facts)
    if owner:
        message = f"the forward of `{facts.name}` is that of `{owner}`, which is in another file"
        return (Reason(line=line, code="FDL203", message=message),)
    if family.has_forward(facts) or facts.name in family.extended:
        return ()
    # A base without forward becomes a graph together with the classes that extend it.
    if any(not found[name] for name in family.heirs(facts)):
        return ()
    message = f"`{facts.name}` has no forward of its own"
    return (Reason(line=line, code="FDL201", message=message),)


@final
class _Family:
    """The classes of a file and those above them in other files."""

    def __init__(self, script: ScriptIR, models: Mapping[str, ModelIR]) -> None:
        self._models = models
        self._forwards = {item.name for item in script.relatives if item.has_forward}
        self._modules = {item.name for item in script.relatives if item.is_module}
        self._plain = {item.name for item in script.relatives if item.plain}
        self.extended = script.extended

    def has_forward(self, facts: ClassFacts) -> bool:
        """Return True if a class has a forward, by itself or from a class above it."""
        if "forward" in facts.methods:
            return True
        layers = (base.name.rpartition(".")[2] for base in facts.bases if base.kind == "layer")
        if any(name not in FORWARDLESS for name in layers):
            return True
        above = [base.name for base in facts.bases if base.kind == "local"]
        return any(
            name in self._forwards
            or (name in self._models and self.has_forward(self._models[name].facts))
            for name in above
        )

    def plain_forward(self, facts: ClassFacts) -> str:
        """Return the class of a file that is not ported from which a class has its forward, if one does."""
        if "forward" in facts.methods:
            return ""
        for base in facts.bases:
            if base.kind != "local":
                continue
            if base.name in self._plain & self._forwards:
                return base.name.rpartition(":")[2]
            found = base.name in self._models and self.plain_forward(self._models[base.name].facts)
            if found:
                return found
        return ""

    def is_module(self, base: BaseFact) -> bool:
        """Return True if a class above is a module as far as these files show."""
        return base.name in self._models or base.name in self._modules

    def heirs(self, facts: ClassFacts) -> list[str]:
        """Return the names of the classes of this file that extend a class."""
        return [
            name
            for name, model in self._models.items()
            if any(base.name == facts.name for base in model.facts.bases)
        ]
