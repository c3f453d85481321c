"""Parser of one YAML file into nodes with their places; every problem is found.

An error can name `fdl.yml:7:5` only if the line is kept: PyYAML's constructor throws it away,
so its node tree is read instead.
"""

from typing import TYPE_CHECKING, Any, NamedTuple, final

from fdl_cli.manifest.reading.bounds import nodes_problem, text_problem

if TYPE_CHECKING:
    import yaml

Scalar = None | bool | int | float | str


_SPLIT = "write what is meant, or split the file over `path:` tasks"


@final
class Place(NamedTuple):
    """The place of a key or value; lines and columns count from one."""

    file: str
    line: int
    column: int


@final
class Problem(NamedTuple):
    """One problem in a file, and the text to write instead."""

    place: Place
    message: str
    hint: str


@final
class Leaf(NamedTuple):
    """A scalar, or a list of scalars; `text` is the author's text."""

    value: Scalar | tuple[Scalar, ...]
    text: str | tuple[str, ...]
    place: Place


@final
class Table(NamedTuple):
    """A mapping; its place is that of its key, so that an error can point at the name."""

    entries: "dict[str, Leaf | Table]"
    place: Place


Node = Leaf | Table


@final
class Document(NamedTuple):
    """One file as a table, with the problems that its text alone has."""

    table: Table
    problems: tuple[Problem, ...]


def parse(text: bytes, file: str) -> Document:
    """Parse one file; a file that is no YAML mapping gives an empty table and the problem."""
    import yaml

    empty = Table({}, Place(file, 1, 1))
    if too_much := text_problem(text):
        return Document(empty, (Problem(empty.place, too_much, _SPLIT),))
    # The C parser is ten times faster, and not everywhere compiled.
    kind: Any = vars(yaml).get("CSafeLoader", yaml.SafeLoader)
    try:
        loader = kind(text)
        root = loader.get_single_node()
    except yaml.YAMLError as error:
        return Document(empty, (_syntax_problem(error, file),))
    except UnicodeDecodeError as error:
        place = Place(file, text.count(b"\n", 0, error.start) + 1, 1)
        return Document(empty, (Problem(place, "the file is not UTF-8", "save it as UTF-8"),))
    if root is None:
        return Document(empty, ())
    reader = _Reader(file, loader)
    if not isinstance(root, yaml.MappingNode):
        place = reader.place(root)
        problem = Problem(place, "the file is no mapping", "begin with `commands:`")
        return Document(empty, (problem,))
    if found := nodes_problem(root):
        reason, node = found
        hint = "remove the alias" if "itself" in reason else _SPLIT
        return Document(empty, (Problem(reader.place(node), reason, hint),))
    try:
        table = reader.table(root, Place(file, 1, 1))
    except yaml.YAMLError as error:  # a merge key that merges no mapping
        return Document(empty, (_syntax_problem(error, file),))
    return Document(table, tuple(reader.problems))


@final
class _Reader:
    """Walks a node tree and collects problems on the way."""

    def __init__(self, file: str, loader: Any) -> None:
        self.file = file
        self.problems: list[Problem] = []
        self._loader = loader

    def place(self, node: "yaml.Node") -> Place:
        """Return where a node begins."""
        mark = node.start_mark
        return Place(self.file, mark.line + 1, mark.column + 1)

    def table(self, node: "yaml.MappingNode", place: Place) -> Table:
        """Read a mapping; keys are text, and none occurs twice."""
        entries: dict[str, Node] = {}
        self._require_unique(node)
        self._loader.flatten_mapping(node)
        for key, value in node.value:
            name = self._key(key)
            if name is not None:
                entries[name] = self._node(value, self.place(key))
        return Table(entries, place)

    def _require_unique(self, node: "yaml.MappingNode") -> None:
        seen: dict[str, int] = {}
        for key, _ in node.value:
            name = key.value
            if not isinstance(name, str):
                continue  # a list or a mapping as a key, which `_key` refuses
            if name in seen:
                message = f"`{name}` stands twice, first on line {seen[name]}"
                self._add(self.place(key), message, "keep one of them")
            seen.setdefault(name, key.start_mark.line + 1)

    def _key(self, key: "yaml.Node") -> str | None:
        if key.tag == "tag:yaml.org,2002:str":
            return str(key.value)
        place = self.place(key)
        shown = key.value if isinstance(key.value, str) else "[...]"
        self._add(place, f"the key `{shown}` is no text for YAML", f'write it as "{shown}"')
        return None

    def _node(self, node: "yaml.Node", place: Place) -> Node:
        import yaml

        if isinstance(node, yaml.MappingNode):
            return self.table(node, place)
        if isinstance(node, yaml.SequenceNode):
            return self._sequence(node, place)
        return Leaf(self._scalar(node), str(node.value), place)

    def _sequence(self, node: "yaml.SequenceNode", place: Place) -> Leaf:
        import yaml

        items = []
        for item in node.value:
            if isinstance(item, yaml.ScalarNode):
                items.append(Leaf(self._scalar(item), str(item.value), self.place(item)))
            else:
                message = "a list here holds plain values, not lists or mappings"
                self._add(self.place(item), message, "write each item as text")
        scalars = tuple(item.value for item in items if not isinstance(item.value, tuple))
        return Leaf(scalars, tuple(str(item.text) for item in items), place)

    def _scalar(self, node: "yaml.Node") -> Scalar:
        tag = node.tag.removeprefix("tag:yaml.org,2002:")
        if tag in ("null", "bool", "int", "float", "str"):
            try:
                value: Scalar = self._loader.construct_object(node)
            except (ValueError, KeyError, ArithmeticError):
                self._add(
                    self.place(node), f"`{_short(node.value)}` is no {tag}", "write it as text"
                )
                return str(node.value)
            return value
        if tag == "timestamp":
            return str(node.value)
        self._add(self.place(node), f"the tag `{node.tag}` has no meaning here", "remove it")
        return str(node.value)

    def _add(self, place: Place, message: str, hint: str) -> None:
        self.problems.append(Problem(place, message, hint))


def _short(text: str) -> str:
    return text if len(text) < 40 else f"{text[:36]} ..."


def _syntax_problem(error: "yaml.YAMLError", file: str) -> Problem:
    import yaml

    mark = error.problem_mark if isinstance(error, yaml.MarkedYAMLError) else None
    place = Place(file, mark.line + 1, mark.column + 1) if mark else Place(file, 1, 1)
    reason = error.problem if isinstance(error, yaml.MarkedYAMLError) else None
    if reason is None:
        reason = str(error).splitlines()[0]
    if "single document" in str(error):
        reason = "the file holds several documents"
    hint = "look at this line and the one before it: indentation, a missing `:` or quote"
    return Problem(place, f"not valid YAML: {reason}", hint)
