"""The HTML page in a real browser: boxes open in place, and still nothing overlaps."""

import json
import re
import shutil
import subprocess

import pytest
import torch
from torch import nn

from flodl import Flow, FlowModule
from flodl.inspect.drawing import part_of
from flodl.visual.assemble import View
from flodl.visual.page import html_text

pytestmark = [pytest.mark.torch, pytest.mark.browser, pytest.mark.slow]

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--virtual-time-budget=3000",
)  # fmt: skip

# Reports the shapes of every scene in page coordinates, before and after, and what a search dims.
PROBE = """<pre id="report"></pre><script>
const boxes = () => [...document.querySelectorAll("#fd-root, #fd-root g")].map((scene) =>
  [...scene.children].filter((e) => e.tagName === "g" && /^fd-/.test(e.getAttribute("class") || ""))
    .map((e) => { const r = e.querySelector(":scope > rect:last-of-type").getBoundingClientRect();
      return [r.left, r.top, r.right, r.bottom]; })).filter((scene) => scene.length);
const report = { closed: boxes() };
document.getElementById("fd-open").click();
report.open = boxes();
const field = document.getElementById("fd-find");
field.value = "deepest";
field.dispatchEvent(new Event("input"));
report.dim = document.querySelectorAll(".fd-dim").length;
report.lit = [...document.querySelectorAll("#fd-root g[class^=fd-]:not(.fd-dim)")].length;
field.value = "";
field.dispatchEvent(new Event("input"));
document.getElementById("fd-close").click();
report.again = boxes();
document.querySelector(".fd-fold").dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" }));
report.one = boxes().length;
document.getElementById("report").textContent = JSON.stringify(report);
</script></body>"""


class Inner(FlowModule):
    def __init__(self):
        super().__init__()
        self.deepest = nn.Linear(4, 4)

    def flow(self, x: Flow) -> Flow:
        return x + x.through(self.deepest).through(torch.relu)


class Middle(FlowModule):
    def __init__(self):
        super().__init__()
        self.left, self.right = Inner(), Inner()

    def flow(self, x: Flow) -> Flow:
        return x.through(self.left) * x.through(self.right)


class Outer(FlowModule):
    def __init__(self):
        super().__init__()
        self.a, self.b = Middle(), Middle()

    def flow(self, x: Flow) -> Flow:
        return x.through(self.a) + x.through(self.b) + x


def overlaps(scene):
    # Half a pixel: the browser measures strokes and rounds.
    return [
        (one, two)
        for i, one in enumerate(scene)
        for two in scene[:i]
        if one[0] + 0.5 < two[2] and two[0] + 0.5 < one[2]
        and one[1] + 0.5 < two[3] and two[1] + 0.5 < one[3]
    ]  # fmt: skip


@pytest.mark.skipif(BROWSER is None, reason="there is no chromium on the PATH")
@pytest.mark.parametrize("direction", ["down", "right"])
def test_boxes_open_close_and_are_found(tmp_path, direction):
    page = tmp_path / "page.html"
    view = View(direction=direction)
    page.write_text(html_text(part_of(Outer()), view).replace("</body>", PROBE))
    done = subprocess.run(
        [BROWSER, *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", page.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    report = json.loads(re.search(r'id="report">(\{.*?\})</pre>', done.stdout)[1])
    assert len(report["closed"]) == 1
    assert len(report["open"]) == 1 + 2 + 4
    for scene in (*report["closed"], *report["open"]):
        assert overlaps(scene) == []
    (outer, *_) = report["open"]
    # Inputs, two nested graphs, two sums and the output: six or seven layers follow each other.
    wide, high = (max(b[i + 2] for b in outer) - min(b[i] for b in outer) for i in (0, 1))
    assert (wide > high) == (direction == "right")
    for scene in report["open"][1:]:
        assert any(
            all(b[0] <= x[0] and x[2] <= b[2] and b[1] <= x[1] and x[3] <= b[3] for x in scene)
            for b in outer
        ), "what is inside a box stays inside"
    assert [*map(len, report["again"])] == [*map(len, report["closed"])]
    assert report["one"] == 2
    assert report["dim"] > report["lit"] > 0
