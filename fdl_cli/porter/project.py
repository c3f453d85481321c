"""Several files as one project: classes that extend classes of other files become graphs too."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import final

from fdl_cli.porter.gc_pause import no_collection
from fdl_cli.porter.ir.expressions import Kind
from fdl_cli.porter.ir.findings import FileError, Reason
from fdl_cli.porter.ir.symbols import BaseFact, ScriptIR
from fdl_cli.porter.ir.training import LOWER, TrainingLevel
from fdl_cli.porter.knowledge.torch_names import FOREIGN_BASES, MIXINS, is_foreign_module
from fdl_cli.porter.lower.class_hierarchy import (
    Relative,
    Survey,
    SurveyedClass,
    is_placeholder,
    survey,
)
from fdl_cli.porter.lower.effects.random_calls import calls
from fdl_cli.porter.lower.names import Names
from fdl_cli.porter.lower.script import analyse
from fdl_cli.porter.module_map import ModuleMap, imports_first
from fdl_cli.porter.parse.reader import UnreadableError, read
from fdl_cli.porter.pipeline import Draft, draft, move_training
from fdl_cli.porter.project_file import Class, PortedFile
from fdl_cli.porter.relative_imports import (
    imported_from_outside,
    package_of,
    with_absolute_imports,
)
from fdl_cli.porter.star_imports import brought_by_stars
from fdl_cli.porter.trainer.team_script import is_team_script

# Longer chains of `from .x import Y` than this are a circle.
_MAX_HOPS = 16
# Each round keeps at least one class more; real projects need two.
_MAX_ROUNDS = 20
_TOO_DEEP = FileError(
    id="source-too-deep",
    message="an expression is nested too deeply to be read",
    hint="split the longest expression of the file into several statements",
    line=None,
)


@final
class Project:
    """The files that are ported together.

    With `linked` off every file is independent: its port will not see the ports of the others. Imports from
    files that are not ported are read from disk; a class below one of theirs extends it as it is.
    `training` says how far training loops move, `moved` are files whose ports go to other folders.
    `installed` are folders of packages: a class that has a forward and extends a module of one is ported.
    """

    @no_collection()
    def __init__(
        self,
        files: Mapping[Path, bytes],
        *,
        linked: bool = True,
        training: TrainingLevel = "keep",
        moved: Collection[Path] = (),
        installed: Sequence[Path] = (),
    ) -> None:
        self.training = training
        self._linked = linked
        self._files = files
        self._moved = frozenset(moved)
        self._errors: dict[Path, FileError] = {}
        self._members: dict[Path, PortedFile] = {}
        for path, data in files.items():
            self._read(path, data)
        self._ported = frozenset(self._members)
        self._near: dict[Path, PortedFile | None] = {}
        self._texts: dict[Path, bytes] = {}
        self._complete: set[Path] = set()
        self._installed = tuple(installed)
        classes = (
            item for each in self._members.values() for item in each.survey.classes.values()
        )
        self._has_forward = any("forward" in each.methods for each in classes)
        self._map = ModuleMap(self._members, self._installed)
        self._settled = False
        self._modules: dict[Class, bool] = {}
        for path, member in self._members.items():
            self._complete_names(path, member)
        if linked:
            self._link_all()
        else:
            self._link_alone()

    def error(self, path: Path) -> FileError | None:
        """Return why a file cannot be ported at all; such a file has no draft."""
        if path not in self._errors:
            self.draft(path)
        return self._errors.get(path)

    def draft(self, path: Path) -> Draft:
        """Return the present port of one file."""
        if not self._settled:
            self._settle()
        made = self._members[path].draft
        assert made is not None
        return made

    def drafts(self) -> Iterator[tuple[Path, Draft]]:
        """Yield the ports of all Python files that are no notebooks."""
        for path in self._members:
            if path.suffix == ".py" and path in self._ported:
                yield path, self.draft(path)

    def demote(self, path: Path, reasons: Mapping[str, Reason]) -> None:
        """Keep some classes of a file, for the reasons given."""
        self._members[path].demoted.update(reasons)
        self._forget(path)

    def caution(self, path: Path, names: frozenset[str]) -> None:
        """Do not take the parameters of some classes for tensors."""
        member = self._members[path]
        member.cautious |= names
        member.script = None
        self._forget(path)

    def move_training(self, path: Path, *, fused: frozenset[str] = frozenset()) -> None:
        """Move the training loops of a file, if that is wanted; its classes are proved before."""
        member = self._members[path]
        if (member.level, member.fused) != (self.training, fused):
            member.level, member.fused = self.training, fused
            self._forget(path)

    def lower_training(self, path: Path) -> None:
        """Move the training loops of a file less far."""
        member = self._members[path]
        # A session of `Trainer.setup` has one process: a script for several stays.
        member.level = "keep" if is_team_script(member.source) else LOWER[member.level]
        self._forget(path)

    def trains(self, path: Path) -> bool:
        """Return True if a file, or one of the project that it imports, has a backward pass."""
        seen: set[Path] = set()
        pending = [path]
        while pending:
            current = pending.pop()
            if current in seen:
                continue
            seen.add(current)
            if ".backward(" in self._members[current].source.text:
                return True
            pending += self._imported(current)
        return False

    def imports_first(self, paths: Sequence[Path]) -> tuple[Path, ...]:
        """Return files in an order in which each file follows those that it imports."""
        return imports_first(paths, self._imported)

    def _imported(self, path: Path) -> set[Path]:
        member = self._members.get(path)
        found = set() if member is None else self._map.imported(path, member.survey.names)
        return found & set(self._members)

    def is_cautious(self, path: Path, name: str) -> bool:
        """Return True if a class was marked for `caution`."""
        return name in self._members[path].cautious

    def _forget(self, path: Path) -> None:
        self._members[path].draft = None
        self._settled = False

    def _read(self, path: Path, data: bytes) -> None:
        try:
            source = read(data)
            self._members[path] = PortedFile(source, survey(source))
            self._script(self._members[path])
        except UnreadableError as problem:
            self._errors[path] = problem.error
        except RecursionError:
            self._errors[path] = _TOO_DEEP
            self._members.pop(path, None)

    def _script(self, member: PortedFile) -> ScriptIR:
        if member.script is None:
            member.script = analyse(member.source, member.cautious, member.hierarchy)
        return member.script

    def _known(self, path: Path) -> PortedFile | None:
        """Return a file that is ported, or read one that is only imported, if it can be read.

        Of the latter only their own text is known: their imports are not read along.
        """
        if path in self._members:
            return self._members[path]
        if path not in self._near:
            self._near[path] = _read_near(path)
        return self._near[path]

    def _understood(self, path: Path) -> PortedFile | None:
        """Return a file as `_known` does, with the names of its imports: its classes are looked at."""
        member = self._known(path)
        if member is not None:
            self._complete_names(path, member)
        return member

    def _names(self, path: Path) -> Names | None:
        member = self._known(path)
        return None if member is None else member.survey.names

    def _complete_names(self, path: Path, member: PortedFile) -> None:
        """Give a file the names that relative imports, and stars of other files, bring from outside."""
        if path in self._complete:
            return
        self._complete.add(path)
        outside = imported_from_outside(path, member.survey.names, self._map, self._ported)
        brought = {**outside, **brought_by_stars(path, self._names, self._map)}
        if brought:
            member.survey = survey(member.source, brought)
            member.hierarchy = replace(member.hierarchy, brought=brought)
            member.script = None

    # -- who extends whom -----------------------------------------------------------------------

    def _link_all(self) -> None:
        """Link the files with each other; files with the bases of their classes join them, unported."""
        done: set[Path] = set()
        while pending := [path for path in self._members if path not in done]:
            for path in pending:
                self._link(path)
            done.update(pending)
        self._reach()
        # Once more: the results of a method are known when it was read as one that is reached.
        for path, member in tuple(self._members.items()):
            if member.relatives:
                self._link(path)
        for home, name in self._every_base():
            if home in self._members:
                self._members[home].extended |= {name}

    def _link_alone(self) -> None:
        """Give each file its facts in a port of all files; none of the others is changed for it."""
        if not any(self._has_base_elsewhere(path) for path in self._members):
            for path in self._members:
                self._link(path)
            return
        whole = Project(self._files, installed=self._installed)
        for path, member in self._members.items():
            linked = whole._members[path]
            member.relatives = linked.relatives
            member.hierarchy = replace(linked.hierarchy, reached={})
            member.kept = whole.kept_bases(path)
            member.script = None

    def _has_base_elsewhere(self, path: Path) -> bool:
        return any(
            base.kind == "other" and self._above(path, base.name) is not None
            for item in self._members[path].survey.classes.values()
            for base in item.facts.bases
        )

    def kept_bases(self, path: Path) -> frozenset[str]:
        """Return the bases of a file's classes in other files that are kept, whatever is ported."""
        self.draft(path)
        return self._members[path].kept

    def _link(self, path: Path) -> None:
        """Find the classes of other files that those of one file extend."""
        member = self._members[path]
        found: dict[str, Relative] = {}
        for item in member.survey.classes.values():
            for base in item.facts.bases:
                if base.kind == "other":
                    self._add_relative(member, path, base.name, base.name, found)
        names = frozenset(self._module_names(path, member))
        drawing = dict(self._drawing(path, member))
        if found or names or drawing:
            member.hierarchy = replace(
                member.hierarchy,
                relatives=tuple(found.values()),
                module_names=names,
                drawing=drawing,
            )
            member.script = None

    def _add_relative(
        self, member: PortedFile, place: Path, written: str, name: str, found: dict[str, Relative]
    ) -> None:
        """Add the class that a file at `place` writes as `written`, and the classes above it."""
        target = self._above(place, written)
        if target is None or name in found:
            return
        home, own = target
        surveyed, results, on_flodl = self._facts_of(home, own)
        names = {base.name: f"{home}:{base.name}" for base in surveyed.facts.bases}
        bases = tuple(self._renamed(home, base, names) for base in surveyed.facts.bases)
        facts, methods = surveyed.facts, surveyed.methods
        if self._is_installed(home) and is_placeholder(methods.get("forward")):
            methods = {each: node for each, node in methods.items() if each != "forward"}
            facts = replace(facts, methods=tuple(methods))
        found[name] = Relative(
            facts=replace(facts, name=name, bases=bases),
            methods=methods,
            results=results,
            on_flodl=on_flodl,
        )
        member.relatives[name] = target
        for base in surveyed.facts.bases:
            if base.kind in {"local", "other"}:
                self._add_relative(member, home, base.name, names[base.name], found)

    def _facts_of(self, home: Path, own: str) -> tuple[SurveyedClass, Mapping[str, Kind], bool]:
        """Return a class, what its methods return, and whether it is on the runtime already."""
        near = self._near.get(home)
        if near is not None:
            self._complete_names(home, near)
            if self._is_installed(home):
                # It works as it is: to understand its file would take longer than all the rest.
                surveyed = near.survey.classes[own]
                return surveyed, {}, any(base.kind == "flow" for base in surveyed.facts.bases)
            # Its methods are read as those of a file that is ported: they decide about the class.
            self._members.setdefault(home, near)
        script = self._script(self._members[home])
        surveyed = self._members[home].survey.classes[own]
        return surveyed, script.results.get(own, {}), own in script.on_flodl

    def _renamed(self, home: Path, base: BaseFact, names: Mapping[str, str]) -> BaseFact:
        known = base.kind == "local" or (
            base.kind == "other" and self._above(home, base.name) is not None
        )
        return replace(base, kind="local", name=names[base.name]) if known else base

    def _above(self, path: Path, name: str) -> Class | None:
        """Return the class of another file that a base of a file is.

        Of bases that are known by name, no file is read unless it is ported: their behaviour is known.
        """
        if name in FOREIGN_BASES or name in MIXINS:
            found = self._map.find(path, name)
            if found is None or found[0] not in self._ported:
                return None
        return self._seen(path, name)

    def _seen(self, path: Path, name: str) -> Class | None:
        """Return the class that a base is, in a file of the project or in an installed package."""
        return self._resolve(path, name) or self._in_package(path, name)

    def _in_package(self, path: Path, name: str) -> Class | None:
        """Return the module class of an installed package that a base of a ported file is."""
        if path not in self._ported or not self._installed or not self._has_forward:
            return None
        member = self._members[path]
        for dotted in self._full_names(member.survey, name):
            found = None if dotted.startswith(".") else self._map.find_installed(dotted)
            if found is None or len(found[1]) != 1:
                continue
            target = self._resolve(found[0], found[1][0])
            if target is not None and self._is_module(target):
                return target
        return None

    def _resolve(self, path: Path, name: str, seen: set[Class] | None = None) -> Class | None:
        """Return the class which a file means by one of its names or by a full name.

        Imports may run in circles: `seen` are the names that were looked up on the way.
        """
        seen = set() if seen is None else seen
        if self._is_installed(path) and not self._may_tell(path, name):
            return None
        member = self._known(path)
        if member is None:
            return None
        known = member.survey
        if name in known.classes:
            return path, name
        if (path, name) in seen:
            return None
        seen.add((path, name))
        for dotted in self._full_names(known, name, on_demand=self._is_installed(path)):
            found = self._map.find(path, dotted)
            if found is None:
                continue
            home, rest = found
            if len(rest) == 1:
                target = self._resolve(home, rest[0], seen)
                if target is not None:
                    return target
        return None

    def _may_tell(self, path: Path, name: str) -> bool:
        """Return False for a file of a package that neither has a name nor a star that may bring it.

        Packages bring hundreds of files together by stars; to read each of them would take minutes.
        """
        if path not in self._texts:
            try:
                self._texts[path] = path.read_bytes()
            except OSError:
                self._texts[path] = b""
        data = self._texts[path]
        return name.rpartition(".")[2].encode() in data or b"import *" in data

    def _full_names(self, known: Survey, name: str, *, on_demand: bool = False) -> Iterator[str]:
        """Yield what a name may be in full; `on_demand`: by stars for type checkers too."""
        if "." in name:
            yield name
        elif name in known.names.aliases:
            yield known.names.aliases[name]
        elif not name.startswith("_") and not known.names.is_own(name):
            unread = known.names.typed_stars if on_demand else frozenset()
            for star in sorted(known.names.stars | unread):
                yield f"{star}{name}" if star.endswith(".") else f"{star}.{name}"

    def _drawing(self, path: Path, member: PortedFile) -> Iterator[tuple[str, Kind]]:
        """Yield the functions of other files that draw random numbers, as this file may call them."""
        names = member.survey.names
        for called in dict.fromkeys(calls(names, member.source.tree)):
            if "." in called.lstrip("."):
                yield from self._drawn(path, called, called)
            elif called not in names.functions:
                for star in names.stars:
                    yield from self._drawn(path, f"{star}.{called}", called)

    def _drawn(
        self, path: Path, dotted: str, shown: str, hops: int = 0
    ) -> Iterator[tuple[str, Kind]]:
        """Yield the draws of another file's function, if it draws; packages may re-export it."""
        found = self._map.find(path, dotted)
        if found is None or len(found[1]) != 1 or hops > _MAX_HOPS:
            return
        home, (name,) = found
        member = self._known(home)
        if member is None:
            return
        if member.survey.names.is_own(name):
            self._complete_names(home, member)
        survey = member.survey
        if name in survey.drawing:
            yield shown, survey.drawing[name]
        elif name in survey.names.aliases:
            yield from self._drawn(home, survey.names.aliases[name], shown, hops + 1)

    def _module_names(self, path: Path, member: PortedFile) -> Iterator[str]:
        """Yield the imported names of a file that are torch modules of the project."""
        aliases = set(member.survey.names.aliases)
        for star in member.survey.names.stars:
            found = self._map.find(path, star)
            home = None if found is None or found[1] else self._known(found[0])
            if home is not None:
                aliases |= set(home.survey.classes)
        for alias in aliases:
            target = self._resolve(path, alias)
            if target is not None and target[0] != path and self._is_module(target):
                yield alias
                dotted = member.survey.names.aliases.get(alias)
                if dotted is not None:
                    yield dotted
        for item in member.survey.classes.values():
            for base in item.facts.bases:
                target = self._seen(path, base.name) if base.kind == "other" else None
                if target is not None and self._is_module(target):
                    yield base.name

    def _every_base(self) -> Iterator[Class]:
        for member in self._members.values():
            for model in self._script(member).models:
                for base in model.facts.bases:
                    if base.name in member.relatives:
                        yield member.relatives[base.name]

    def _is_module(self, target: Class) -> bool:
        if target not in self._modules:
            self._modules[target] = False  # a circle is no module
            path, name = target
            member = self._understood(path)
            self._modules[target] = member is not None and any(
                base.kind in {"module", "flow", "layer"}
                or self._has_module(path, base)
                or is_foreign_module(base.name)
                for base in member.survey.classes[name].facts.bases
            )
        return self._modules[target]

    def _has_module(self, path: Path, base: BaseFact) -> bool:
        above = self._seen(path, base.name)
        return above is not None and self._is_module(above)

    def _reach(self) -> None:
        """Tell every file which of its methods are reached from forwards in other files."""
        reached: dict[Path, dict[str, frozenset[str]]] = {}
        for member in self._members.values():
            if not member.relatives:
                continue
            for relative in self._script(member).relatives:
                home, own = member.relatives[relative.name]
                if home not in self._members:
                    continue
                known = reached.setdefault(home, {})
                known[own] = known.get(own, frozenset()) | relative.reached
        for path, found in reached.items():
            member = self._members[path]
            member.hierarchy = replace(member.hierarchy, reached=found)
            member.script = None

    # -- what becomes of them -------------------------------------------------------------------

    @no_collection()
    def _settle(self) -> None:
        """Draft every file until the assumptions about the others are right.

        At first every class of another file is taken for a graph; each round finds more that
        are not, so this comes to an end.
        """
        self._settled = True
        for _ in range(_MAX_ROUNDS):
            for path, member in self._members.items():
                if member.draft is None:
                    member.draft = self._draft(path, member)
            if not self._correct():
                return

    def _draft(self, path: Path, member: PortedFile) -> Draft:
        try:
            made = draft(member.source, self._assumed(member), member.demoted)
            made = move_training(made, member.level, fused=member.fused)
        except RecursionError:
            self._errors[path] = _TOO_DEEP
            nothing = replace(self._script(member), models=(), values=())
            return draft(member.source, nothing, {})
        if path not in self._moved:
            return made
        return with_absolute_imports(made, package_of(path), partial(self._moves, path))

    def _moves(self, path: Path, module: str) -> bool:
        """Return True if the port of a module that a file imports moves along with its own."""
        found = self._map.find(path, module)
        return found is not None and not self._stays(found[0])

    def _assumed(self, member: PortedFile) -> ScriptIR:
        script = self._script(member)
        flows = {item.facts.name for item in member.hierarchy.relatives if item.on_flodl}
        relatives = tuple(
            replace(
                item,
                kept=item.name in member.kept,
                plain=item.name not in flows and self._stays(member.relatives[item.name][0]),
            )
            for item in script.relatives
        )
        return replace(script, relatives=relatives, extended=member.extended)

    def _is_installed(self, home: Path) -> bool:
        """Return True if a file that is not ported lies in an installed package, which works as it is."""
        if home in self._ported:
            return False
        return any(each in home.parents for each in self._installed)

    def _stays(self, home: Path) -> bool:
        """Return True if the ports import a file as it is."""
        return not self._linked or home not in self._ported

    def _correct(self) -> bool:
        """Compare the assumptions with the drafts; say whether some were wrong."""
        if not self._linked:
            return False
        all_kept = {
            (path, item.name)
            for path, member in self._members.items()
            for item in (member.draft.plan.classes if member.draft is not None else ())
            if item.status == "kept" and not self._is_installed(path)
        }
        heirs = self._graph_heirs(all_kept)
        wrong = False
        for path, member in self._members.items():
            kept = frozenset(n for n, target in member.relatives.items() if target in all_kept)
            extended = frozenset(name for home, name in heirs if home == path)
            if kept != member.kept or extended != member.extended:
                member.kept, member.extended, member.draft = kept, extended, None
                wrong = True
        return wrong

    def _graph_heirs(self, kept: set[Class]) -> set[Class]:
        """Return the classes that a class of another file extends and which needs them as graphs."""
        found = set()
        for path, member in self._members.items():
            for model in self._script(member).models:
                above = [member.relatives.get(base.name) for base in model.facts.bases]
                direct = {target for target in above if target is not None}
                if direct and (path, model.facts.name) not in kept:
                    found |= direct
        return found


def _read_near(path: Path) -> PortedFile | None:
    """Read a file that is only imported; one that cannot be read tells nothing."""
    try:
        source = read(path.read_bytes())
        return PortedFile(source, survey(source))
    except (OSError, UnreadableError, RecursionError):
        return None
