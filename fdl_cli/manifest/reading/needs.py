"""Tasks that a task needs: those that must run before it, in an order that fits all of them.

    commands:
      data: {run: python make_data.py}
      check: {run: python check.py, needs: [data]}
      train: {entry: [python, train.py], needs: [data, check]}

`fdl train` runs data, check, train: each once, and nothing after one that fails.
"""

from collections.abc import Iterator

from fdl_cli.manifest.model import Tree
from fdl_cli.manifest.reading.document import Leaf, Node, Problem, Table
from fdl_cli.manifest.resolve import Found, find_task


def needed(tree: Tree, root: str, found: Found) -> tuple[Found, ...]:
    """Return the tasks that must run before a task, each once, after what it needs itself."""
    ordered: dict[tuple[str, ...], Found] = {}

    def add(task: Found) -> None:
        for words in needs_of(task):
            other = find_task(tree, root, words)
            assert other is not None, words  # `find_need_problems` has looked
            if other.names not in ordered:
                add(other)
                ordered[other.names] = other

    add(found)
    return tuple(ordered.values())


def needs_of(found: Found) -> tuple[tuple[str, ...], ...]:
    """Return the words of the tasks that a task names, those of the tasks above it first."""
    names: dict[tuple[str, ...], None] = {}
    for task in (*found.parents, found.task):
        listed = task.get("needs")
        for name in listed if isinstance(listed, list) else ():
            names[tuple(str(name).split())] = None
    return tuple(names)


def find_need_problems(tasks: Table) -> Iterator[Problem]:
    """Yield the names that lead to no task, and the circles."""
    edges: dict[tuple[str, ...], list[tuple[tuple[str, ...], Leaf]]] = {}
    for names, task in _all_tasks(tasks, ()):
        needs = task.entries.get("needs")
        if not isinstance(needs, Leaf) or not isinstance(needs.text, tuple):
            continue
        for text in needs.text:
            words = tuple(text.split())
            if _at(tasks, words) is None:
                message = f"the task `{' '.join(names)}` needs `{text}`, and there is no such task"
                yield Problem(needs.place, message, "correct the name, or add the task")
            else:
                edges.setdefault(names, []).append((words, needs))
    yield from _circles(edges)


def _all_tasks(tasks: Table, above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Table]]:
    for name, task in tasks.entries.items():
        if isinstance(task, Table):
            yield (*above, name), task
            inner = task.entries.get("commands")
            if isinstance(inner, Table):
                yield from _all_tasks(inner, (*above, name))


def _at(tasks: Table, words: tuple[str, ...]) -> Table | None:
    inside: Node | None = tasks
    task: Node | None = None
    for word in words:
        task = inside.entries.get(word) if isinstance(inside, Table) else None
        inside = task.entries.get("commands") if isinstance(task, Table) else None
    return task if isinstance(task, Table) else None


def _circles(
    edges: dict[tuple[str, ...], list[tuple[tuple[str, ...], Leaf]]],
) -> Iterator[Problem]:
    """Yield one problem for each circle, at the place that closes it."""
    done: set[tuple[str, ...]] = set()

    def walk(names: tuple[str, ...], path: list[tuple[str, ...]]) -> Iterator[Problem]:
        # A preset also needs what the tasks above it need.
        levels = [names[: depth + 1] for depth in range(len(names))]
        for words, leaf in [edge for level in levels for edge in edges.get(level, ())]:
            if words in path:
                circle = [*path[path.index(words) :], words]
                shown = " > ".join(" ".join(each) for each in circle)
                message = f"tasks need each other in a circle: {shown}"
                yield Problem(leaf.place, message, "take one of them out of `needs`")
            elif words not in done:
                yield from walk(words, [*path, words])
        done.add(names)

    for names in edges:
        if names not in done:
            yield from walk(names, [names])
