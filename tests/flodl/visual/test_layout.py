"""Geometry of pictures: nothing overlaps, no link crosses a box, equal blocks are found."""

import itertools
import math
import re
import xml.etree.ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from flodl.ir.graph import GraphSpec, Items, Literally, Named, NodeSpec, Pairs, Ref, Submodule
from flodl.visual.assemble import View, assemble
from flodl.visual.folding import Run, Step, find_runs
from flodl.visual.layout import corner_radius, lay_out
from flodl.visual.ordering import ordered
from flodl.visual.part import Part
from flodl.visual.ranking import rank
from flodl.visual.scene import Box, Link, Scene
from flodl.visual.svg import path_data, render, shared_starts

NUMBER = re.compile(r"([MVHC])([-\d. ]+)")
DIRECTIONS = st.sampled_from(["down", "right"])


@st.composite
def scenes(draw, most=24, depth=1):
    count = draw(st.integers(1, most))
    boxes, links = [], []
    for number in range(count):
        role = draw(st.sampled_from(["layer", "operator", "activation", "input"]))
        inner = draw(scenes(5, 0)) if depth and draw(st.integers(0, 7)) == 0 else None
        title = "+" if role == "operator" else draw(st.sampled_from(["Linear", "relu", "M" * 30]))
        lines = draw(st.sampled_from([(), ("encoder.layers.0.attention", "1.2M params")]))
        boxes.append(
            Box(role=role, title=title, lines=lines, inner=inner, is_open=inner is not None)
        )
        if number:
            sources = draw(st.sets(st.integers(0, number - 1), max_size=3))
            links += [Link(source=source, target=number) for source in sorted(sources)]
    return Scene(title="scene", boxes=tuple(boxes), links=tuple(links))


MODULES = ("linear", "careful.expert", "m" * 30)
STAGES = st.recursive(
    st.sampled_from([Named("torch.tanh"), Named("function_2"), *map(Submodule, MODULES)]),
    lambda each: st.lists(each, max_size=3).map(lambda chain: Items("list", tuple(chain))),
    max_leaves=4,
)


@st.composite
def constructs(draw, word, values):
    """The arguments of a step around other stages."""
    x, tagged = (Ref(draw(values)) for _ in range(2))
    refs = draw(st.sampled_from([Pairs((), ()), Pairs((Literally("hint"),), (tagged,))]))
    stage, other = draw(STAGES), draw(STAGES)
    number = Literally(draw(st.integers(1, 9)))
    flag = Literally(draw(st.booleans()))
    if word in ("gate_", "switch_"):
        experts = Items("list", tuple(draw(st.lists(STAGES, min_size=1, max_size=6))))
        return x, draw(st.sampled_from([x, tagged, other])), experts, refs
    return {
        "loop_for_": (x, stage, number, refs),
        "loop_halting_": (x, stage, other, number, Literally(draw(KINDS)), flag, refs),
        "map_each_": (x, stage, flag),
        "map_slices_": (x, stage, number, flag),
        "map_along_": (x, stage, number, number),
        "scan_along_": (x, stage, tagged, number, number, draw(st.sampled_from([NONE, other]))),
        "scan_last_": (x, stage, tagged, number),
    }[word]


KINDS, NONE = st.sampled_from(["while", "until"]), Literally(None)
WORDS = (
    "gate_", "switch_", "loop_for_", "loop_halting_", "map_each_", "map_slices_", "map_along_",
    "scan_along_", "scan_last_",
)  # fmt: skip


@st.composite
def parts(draw, most=6, depth=1):
    """A graph with gates, switches, loops, maps and scans; its modules may be such graphs."""
    nodes = [NodeSpec(index=0, kind="input", target="x", name="x")]
    for index in range(1, draw(st.integers(1, most)) + 1):
        values = st.integers(0, index - 1)
        kind = draw(st.sampled_from(["module", "loop", *["function"] * 4]))
        if kind == "function":
            target = draw(st.sampled_from(WORDS))
            args = draw(constructs(target, values))
        else:
            target = draw(st.sampled_from(MODULES))
            args = (Ref(draw(values)), Literally(3)) if kind == "loop" else (Ref(draw(values)),)
        name = f"step_{index}"
        nodes.append(NodeSpec(index=index, kind=kind, target=target, args=args, name=name))
    label = draw(st.sampled_from(["", "refine"]))
    spec = GraphSpec(nodes=tuple(nodes), output=Ref(len(nodes) - 1), label=label)
    paths = draw(st.sets(st.sampled_from(MODULES), max_size=2)) if depth else ()
    inner = {path: draw(parts(3, depth - 1)) for path in sorted(paths)}
    kinds = dict.fromkeys(MODULES, "Linear")
    return Part(spec=spec, title="graph", kinds=kinds, inner=inner)


@st.composite
def pictures(draw, depths=(0, 1, 2, 3), folds=(None, True, False)):
    """The scene of a graph with some of its levels open."""
    view = View(depth=draw(st.sampled_from(depths)), fold=draw(st.sampled_from(folds)))
    return assemble(draw(parts()), view)


def overlap(one, two):
    return (
        one.x < two.x + two.width and two.x < one.x + one.width
        and one.y < two.y + two.height and two.y < one.y + one.height
    )  # fmt: skip


def points(path, steps=12):
    """Return points along a path of `M`, `V`, `H` and `C` commands."""
    x = y = 0.0
    for command, text in NUMBER.findall(path):
        numbers = [float(each) for each in text.split()]
        if command == "M":
            x, y = numbers
        elif command == "V":
            for step in range(1, steps + 1):
                yield x, y + (numbers[0] - y) * step / steps
            y = numbers[0]
        elif command == "H":
            for step in range(1, steps + 1):
                yield x + (numbers[0] - x) * step / steps, y
            x = numbers[0]
        else:
            ends = [(x, y), *zip(numbers[::2], numbers[1::2], strict=True)]
            for step in range(1, steps + 1):
                t = step / steps
                weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3)
                yield tuple(
                    sum(w * end[axis] for w, end in zip(weights, ends, strict=True))
                    for axis in (0, 1)
                )
            x, y = ends[-1]


def check(drawing):
    for one, two in itertools.combinations(drawing.boxes, 2):
        assert not overlap(one, two), (one, two)
    for placed in drawing.boxes:
        assert placed.x >= -0.2
        assert placed.x + placed.width <= drawing.width + 0.2
        assert placed.y >= -0.2
        assert placed.y + placed.height <= drawing.height + 0.2
        if placed.inner is not None:
            if placed.box.is_open:
                assert placed.inner.width <= placed.width
                assert placed.inner.height < placed.height
            check(placed.inner)
    for number, link in enumerate(drawing.scene.links):
        others = [
            box for i, box in enumerate(drawing.boxes) if i not in (link.source, link.target)
        ]
        for x, y in points(path_data(drawing, number)):
            for box in others:
                inside = (
                    box.x + 0.3 < x < box.x + box.width - 0.3
                    and box.y + 0.3 < y < box.y + box.height - 0.3
                )
                assert not inside, (link, box.box.title)


@given(scenes() | pictures(), DIRECTIONS)
def test_boxes_do_not_overlap_and_links_avoid_them(scene, direction):
    check(lay_out(scene, direction))


@given(scenes() | pictures(), DIRECTIONS)
def test_every_link_ends_on_its_target_and_points_in_the_direction(scene, direction):
    drawing = lay_out(scene, direction)
    for number, link in enumerate(scene.links):
        source, target = drawing.boxes[link.source], drawing.boxes[link.target]
        (before, length), (begin, _) = drawing.along(source), drawing.along(target)
        assert before + length < begin
        *_, end = points(path_data(drawing, number))
        across, along = reversed(end) if direction == "right" else end
        edge, span = drawing.across(target)
        assert edge <= across <= edge + span
        is_open = target.inner is not None and target.box.is_open
        radius = corner_radius(target.box, target.height, is_open=is_open)
        left, right = edge + radius, edge + span - radius
        if left <= across <= right:
            assert abs(along - begin) < 0.2
        else:
            # Between the middle of the corner and its outline there is one radius.
            middle = left if across < left else right
            assert abs(math.hypot(across - middle, along - begin - radius) - radius) < 0.2


@given(scenes(depth=0) | pictures(depths=[0], folds=[False]))
def test_drawing_to_the_right_has_the_layers_of_one_that_goes_down(scene):
    down, right = lay_out(scene), lay_out(scene, "right")
    assert right.rows == down.rows
    assert right.ways == down.ways
    assert [(box.width, box.height) for box in right.boxes] == [
        (box.width, box.height) for box in down.boxes
    ]


@given(scenes(most=12) | pictures(), DIRECTIONS)
def test_the_picture_is_xml_with_a_title_on_every_box(scene, direction):
    tree = ET.fromstring(render(lay_out(scene, direction)))
    name = "{http://www.w3.org/2000/svg}"
    groups = [each for each in tree.iter(f"{name}g") if each.get("class", "").startswith("fd-")]

    def count(each):
        shown = (box.inner for box in each.boxes if box.inner and box.is_open)
        return len(each.boxes) + sum(count(inner) for inner in shown)

    assert len(groups) == count(scene)
    assert all(group.find(f"{name}title") is not None for group in groups)


def test_a_chain_is_one_straight_line():
    boxes = tuple(Box(role="layer", title=title) for title in ("a", "wide" * 6, "b", "c"))
    links = tuple(Link(source=i, target=i + 1) for i in range(3))
    drawing = lay_out(Scene(title="chain", boxes=boxes, links=links))
    assert len(set(drawing.centres)) == 1


def test_a_residual_keeps_its_main_path_straight():
    boxes = tuple(Box(role="layer", title=title) for title in "xabcy")
    links = (*tuple(Link(source=i, target=i + 1) for i in range(4)), Link(source=0, target=4))
    drawing = lay_out(Scene(title="residual", boxes=boxes, links=links))
    assert len({drawing.centres[box] for box in range(5)}) == 1
    waypoints = drawing.centres[5:]
    assert len(waypoints) == 3
    assert len(set(waypoints)) == 1


def test_crossings_that_can_be_avoided_are_avoided():
    # a -> d, b -> c: in source order the two links would cross.
    ranked = rank(4, [(0, 3), (1, 2)])
    upper, lower = ordered(ranked.rows, ranked.steps)
    assert [*upper].index(0) - [*upper].index(1) == [*lower].index(3) - [*lower].index(2)


def test_one_value_read_often_shares_its_waypoints():
    links = [(i, i + 1) for i in range(20)] + [(0, i) for i in range(2, 21)]
    ranked = rank(21, links)
    assert sum(map(len, ranked.rows)) - 21 == 19


def test_shared_waypoints_are_drawn_once():
    count = 12
    links = [(i, i + 1) for i in range(count - 1)] + [(0, i) for i in range(2, count)]
    scene = Scene(
        title="shared",
        boxes=tuple(Box(role="layer", title=str(i)) for i in range(count)),
        links=tuple(Link(source=one, target=two) for one, two in links),
    )
    drawing = lay_out(scene)
    starts = shared_starts(drawing)
    seen = set()
    for number, (way, start) in enumerate(zip(drawing.ways, starts, strict=True)):
        steps = set(itertools.pairwise(way[start:]))
        assert not steps & seen
        seen |= steps
        x, _ = NUMBER.match(path_data(drawing, number, start))[2].split()
        assert float(x) == drawing.centres[way[start]]
    assert seen == {pair for way in drawing.ways for pair in itertools.pairwise(way)}


def test_far_links_are_cut_before_waypoints_explode():
    count = 400
    links = [(i, i + 1) for i in range(count - 1)] + [(i, count - 1) for i in range(count - 2)]
    ranked = rank(count, links)
    assert sum(map(len, ranked.rows)) < 25 * count
    assert len(ranked.ways) == len(links)
    scene = Scene(
        title="cut",
        boxes=tuple(Box(role="layer", title=f"step{i}") for i in range(count)),
        links=tuple(Link(source=one, target=two) for one, two in links),
    )
    text = render(lay_out(scene))
    cut = sum(len(way) == 2 for way in ranked.ways[count - 1 :])
    assert f"from {cut} earlier steps<" in text
    assert text.count('class="fd-e"') == len(links) - cut + 1


def step(name, *reads):
    return Step(looks=name, reads=reads)


def test_a_repeated_block_is_found_with_its_residual():
    steps = [Step(looks="input", reads=(), may_fold=False)]
    for _ in range(4):
        at = len(steps)
        steps += [step("conv", at - 1), step("relu", at), step("add", at + 1, at - 1)]
    assert find_runs(steps) == (Run(start=1, period=3, copies=4),)


def test_blocks_that_read_one_common_value_repeat():
    steps = [step("input"), step("memory", 0)]
    for _ in range(3):
        steps += [step("cross", len(steps) - 1, 1)]
    assert find_runs(steps) == (Run(start=2, period=1, copies=3),)


def test_equal_steps_with_other_wiring_do_not_repeat():
    steps = [step("input"), step("f", 0), step("f", 0), step("f", 1), step("f", 1), step("g", 2)]
    assert find_runs(steps) == ()


def test_blocks_side_by_side_are_told_from_a_chain():
    steps = [step("input"), *(step("head", 0) for _ in range(5))]
    assert find_runs(steps) == (Run(start=1, period=1, copies=5, chained=False),)
    for _ in range(3):
        steps += [step("up", 0), step("down", len(steps))]
    assert find_runs(steps)[1] == Run(start=6, period=2, copies=3, chained=False)


def test_two_copies_are_no_repetition():
    assert find_runs([step("i"), step("a", 0), step("b", 1), step("a", 2), step("b", 3)]) == ()


@given(st.integers(3, 9), st.integers(1, 5), st.integers(0, 4))
def test_runs_of_any_size_are_found_exactly(copies, period, before):
    steps = [step(f"start{i}", *([i - 1] if i else [])) for i in range(before + 1)]
    for _ in range(copies):
        for part in range(period):
            steps.append(step(part, len(steps) - 1))
    steps.append(step("end", len(steps) - 1))
    assert find_runs(steps) == (Run(start=before + 1, period=period, copies=copies),)
