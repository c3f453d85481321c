"""Classes are abstract, mixins or final; values are frozen; no attribute is read by a string."""

import ast

# Roots of the exception trees: concrete so that they can be caught, extended once each.
EXCEPTION_ROOTS = {"FdlError", "FlodlError", "GraphError"}  # NotRecordedError is a GraphError
# torch.nn.Module is the one foreign base that people extend; layers of torch are modules too.
OPEN_BASES = {"Module", "FlowModule", "Graph"}
LAYERS = ("nn.", "torch.nn.")
VALUE_ROOMS = (
    "fdl_cli.errors", "fdl_cli.result", "fdl_cli.context", "fdl_cli.commands", "fdl_cli.porter.ir",
    "fdl_cli.system", "fdl_cli.torch_setup", "fdl_cli.diagnose", "fdl_cli.manifest",
    "fdl_cli.containers", "flodl.ir",
)  # fmt: skip


def last_name(node):
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Subscript(value=value) | ast.Call(func=value):
            return last_name(value)
    return ""


def classes(sources):
    for source in sources:
        for node in source.nodes:
            if isinstance(node, ast.ClassDef):
                yield source, node


def has_abstract_member(node):
    return any(
        last_name(decorator).startswith("abstract")
        for item in node.body
        if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)
        for decorator in item.decorator_list
    )


def test_abstract_classes_have_abstract_members(sources):
    wrong = [
        f"{source.at(node)} {node.name}"
        for source, node in classes(sources)
        if node.name.lstrip("_").startswith("Abstract") and not has_abstract_member(node)
    ]
    assert wrong == []


def is_final_or_abstract(node):
    decorators = {last_name(item) for item in node.decorator_list}
    bases = {last_name(item) for item in node.bases}
    return (
        "final" in decorators
        or node.name.lstrip("_").startswith("Abstract")
        or node.name.endswith("Mixin")
        or bool(bases & ({"Protocol", "TypedDict"} | OPEN_BASES))
        or any(ast.unparse(item).startswith(LAYERS) for item in node.bases)
        or node.name in EXCEPTION_ROOTS | OPEN_BASES
    )


def test_every_class_is_abstract_or_final(sources):
    wrong = [f"{s.at(n)} {n.name}" for s, n in classes(sources) if not is_final_or_abstract(n)]
    assert wrong == []


def dataclass_settings(node):
    for item in node.decorator_list:
        if last_name(item) == "dataclass":
            keywords = item.keywords if isinstance(item, ast.Call) else []
            return {word.arg for word in keywords if getattr(word.value, "value", None) is True}
    return None


def test_values_that_cross_rooms_are_frozen(sources):
    wrong = []
    for source, node in classes(sources):
        settings = dataclass_settings(node)
        in_room = any(source.name == r or source.name.startswith(f"{r}.") for r in VALUE_ROOMS)
        if settings is None or not in_room or node.name.startswith("_"):
            continue
        fields = sum(isinstance(item, ast.AnnAssign) for item in node.body)
        # A few fields read well by position, and in `match`; more need their names.
        needed = {"frozen", "slots"} | ({"kw_only"} if fields > 3 else set())
        if not needed <= settings:
            wrong.append(f"{source.at(node)} {node.name}")
    assert wrong == []


def test_fields_of_frozen_values_are_not_lists(sources):
    wrong = [
        f"{source.at(item)} {node.name}"
        for source, node in classes(sources)
        if "frozen" in (dataclass_settings(node) or ())
        for item in node.body
        if isinstance(item, ast.AnnAssign) and last_name(item.annotation) in ("list", "set")
    ]
    assert wrong == []


def test_nothing_is_looked_up_by_a_string(sources):
    wrong = []
    for source in sources:
        for node in source.nodes:
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            # `__name__` and its like are Python's own; there is no type to declare them on.
            literal = (
                len(node.args) > 1
                and isinstance(node.args[1], ast.Constant)
                and not str(node.args[1].value).startswith("__")
            )
            if node.func.id == "hasattr" or (node.func.id in ("getattr", "setattr") and literal):
                wrong.append(f"{source.at(node)} {node.func.id}")
    assert wrong == []
