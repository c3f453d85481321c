"""The page of a graph shows what other viewers of models show: tensors, types, documentation, and files."""

import json
import time

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from flodl.inspect.facts.details import detailed
from flodl.inspect.heat import shaped_part
from flodl.visual.page import html_text
from tests.flodl.monitor.chromium import BROWSER, Chromium

pytestmark = [
    pytest.mark.torch,
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="there is no chromium on the PATH"),
]


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(width)

    def forward(self, x):
        return F.relu(x + self.norm(self.conv(x)))


class Net(nn.Module):
    """Tells two kinds of pictures apart."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, stride=2)
        self.block = Block(4)
        self.pool = nn.MaxPool2d(2)
        self.head = nn.Linear(4, 2)

    def forward(self, image):
        x = self.pool(self.block(self.stem(image)))
        return F.softmax(self.head(x.mean((2, 3))), dim=1)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Chromium(tmp_path_factory.mktemp("profile")) as made:
        yield made


@pytest.fixture
def page(browser, tmp_path):
    net = Net()
    part = detailed(net, shaped_part(net, torch.ones(2, 3, 16, 16)))
    (tmp_path / "net.html").write_text(html_text(part))
    browser.resize(1280, 900)
    browser.theme("light")
    browser.requests.clear()
    browser.problems.clear()
    browser.load((tmp_path / "net.html").as_uri())
    yield browser
    assert browser.problems == []
    assert [
        each for each in browser.requests if not each.startswith(("file:", "data:", "about:"))
    ] == []


def click(page, selector):
    page.evaluate(
        f"document.querySelector({json.dumps(selector)})"
        ".dispatchEvent(new MouseEvent('click', { bubbles: true }))"
    )


def details(page):
    rows = page.evaluate("""[...document.querySelectorAll("#fd-panel dt")].map((e) =>
        [e.innerText, e.nextElementSibling.innerText])""")
    return dict(rows)


def texts(page):
    return page.evaluate(
        "[...document.querySelectorAll('#fd-root text')].map((e) => e.textContent)"
    )


def heading(page):
    return page.evaluate("document.querySelector('#fd-panel h2').innerText")


def test_page_details_of_a_layer_have_class_purpose_link_defaults_and_tensors(page):
    click(page, ".fd-layer")
    found = details(page)
    assert found["class"] == "torch.nn.Conv2d"
    assert found["about"].startswith("Applies a 2D convolution")
    assert found["documentation"].endswith("/generated/torch.nn.Conv2d.html")
    assert page.evaluate("document.querySelector('#fd-panel a').href") == found["documentation"]
    assert "groups=1" in found["other settings"]
    assert found["weight"].startswith("4\u00d73\u00d73\u00d73 float32; -0.")
    assert found["bias"].startswith("4 float32; ")
    assert found["output"] == "2\u00d74\u00d77\u00d77 float32"
    assert found["written at"].startswith("test_page_tensors.py:")


def test_page_tensors_button_writes_them_into_the_boxes_and_takes_them_out(page):
    before = texts(page)
    click(page, "#fd-open")
    click(page, "#fd-tensors")
    shown = texts(page)
    assert "weight 4\u00d73\u00d73\u00d73 float32" in shown
    assert "running_mean 4 float32 buffer" in shown
    assert page.evaluate("document.getElementById('fd-tensors').ariaPressed") == "true"
    overlapping = page.evaluate("""(() => {
        const boxes = [...document.querySelectorAll(".fd-step")].filter((e) => !e.querySelector(".fd-step"))
            .map((e) => e.querySelector("rect.fd-s").getBoundingClientRect());
        return boxes.some((a, i) => boxes.some((b, j) => i < j && a.left < b.right - 1 && b.left < a.right - 1
            && a.top < b.bottom - 1 && b.top < a.bottom - 1)); })()""")
    assert not overlapping
    click(page, "#fd-tensors")
    click(page, "#fd-close")
    assert texts(page) == before


def test_page_model_button_tells_inputs_outputs_and_size(page):
    click(page, "#fd-model")
    assert heading(page) == "Net"
    found = details(page)
    assert found["input"] == "image 2\u00d73\u00d716\u00d716 float32"
    assert found["output"] == "2\u00d72 float32"
    assert found["parameters"] == f"{sum(each.numel() for each in Net().parameters()):,}"
    assert found["about"] == "Tells two kinds of pictures apart."


def test_page_link_names_its_value_and_leads_to_the_step_that_makes_it(page):
    names = page.evaluate(
        "[...document.querySelectorAll('.fd-w title')].map((e) => e.textContent)"
    )
    assert "Conv2d self.stem 2\u00d74\u00d77\u00d77 float32" in names
    assert len(names) == page.evaluate("document.querySelectorAll('.fd-e').length")
    page.evaluate("document.querySelectorAll('.fd-w')[1].dispatchEvent(new MouseEvent('click'))")
    assert f"{heading(page)} {details(page).get('path', '')}".strip() in names[1]


def test_page_search_finds_a_tensor_and_enter_opens_what_it_lies_in(page):
    page.evaluate("""(() => {
        const field = document.getElementById("fd-find");
        field.value = "norm.running_var";
        field.dispatchEvent(new Event("input"));
        field.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" })); })()""")
    assert heading(page) == "BatchNorm2d"
    assert details(page)["path"] == "self.norm"
    assert page.evaluate("document.querySelectorAll('.fd-step .fd-on').length") == 1


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_page_saves_the_open_picture_as_svg_and_png(page, theme):
    page.theme(theme)
    page.evaluate("""(() => {
        window.saved = [];
        HTMLAnchorElement.prototype.click = function () { saved[saved.length - 1].name = this.download; };
        URL.createObjectURL = (blob) => { saved.push({ blob }); return ""; }; })()""")
    click(page, "#fd-open")
    click(page, "#fd-model")
    for number in (1, 2):
        click(page, f"#fd-panel dd:last-of-type button:nth-of-type({number})")
    limit = time.monotonic() + 20
    while page.evaluate("saved.length") < 2:
        assert time.monotonic() < limit
        time.sleep(0.05)
    assert page.evaluate("saved.map((each) => each.name)") == ["Net.svg", "Net.png"]
    svg = page.evaluate("saved[0].blob.text()")
    assert "running_mean" not in svg
    assert ">BatchNorm2d<" in svg
    assert "tabindex" not in svg
    assert "fd-w" not in svg.partition("</style>")[2]
    width, height, ground = page.evaluate("""createImageBitmap(saved[1].blob).then((image) => {
        const canvas = document.createElement("canvas");
        [canvas.width, canvas.height] = [image.width, image.height];
        const pen = canvas.getContext("2d");
        pen.drawImage(image, 0, 0);
        return [image.width, image.height, [...pen.getImageData(2, 2, 1, 1).data]]; })""")
    assert f'width="{width // 2}" height="{height // 2}"' in svg
    assert ground == ([15, 19, 23, 255] if theme == "dark" else [255, 255, 255, 255])


@pytest.mark.parametrize("width", [390, 1280])
def test_page_with_tensors_and_details_fits_any_width(page, width):
    page.resize(width, 800, mobile=width < 500)
    click(page, "#fd-open")
    click(page, "#fd-tensors")
    click(page, ".fd-norm")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    edges = page.evaluate("""[...document.querySelectorAll("button, #fd-panel, #fd-panel a")].map((e) =>
        e.getBoundingClientRect().right)""")
    assert max(edges) <= width
