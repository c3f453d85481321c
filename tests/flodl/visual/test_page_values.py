"""The page of a graph shows all values of a tensor of any dtype, and saves them as NumPy would."""

import json
import time

import pytest
import torch
from torch import nn

from flodl.inspect.pictures import html
from tests.flodl.monitor.chromium import BROWSER, Chromium

np = pytest.importorskip("numpy")

pytestmark = [
    pytest.mark.torch,
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="there is no chromium on the PATH"),
]

SPECIAL = (
    0.0,
    -0.0,
    1.0,
    -2.5,
    0.1,
    1 / 3,
    65504.0,
    6e-8,
    float("inf"),
    float("-inf"),
    float("nan"),
)
EXACT = (
    torch.float16, torch.float32, torch.float64, torch.complex64, torch.complex128, torch.bool,
    torch.uint8, torch.int8, torch.int16, torch.uint16, torch.int32, torch.uint32, torch.int64, torch.uint64,
)  # fmt: skip
WIDENED = {
    torch.bfloat16: torch.float32,
    torch.float8_e4m3fn: torch.float32,
    torch.float8_e5m2: torch.float32,
    torch.float8_e4m3fnuz: torch.float32,
    torch.float8_e5m2fnuz: torch.float32,
    torch.float8_e8m0fnu: torch.float32,
    torch.complex32: torch.complex64,
}


class Kept(nn.Module):
    """A model whose buffers have the tensors to show."""

    def __init__(self, **tensors):
        super().__init__()
        for name, tensor in tensors.items():
            self.register_buffer(name, tensor)

    def forward(self, x):
        return x + 1


def sample(dtype):
    """Return a tensor with the extremes of a dtype, in rows of two."""
    if dtype is torch.bool:
        return torch.tensor([[True, False], [False, True]])
    if dtype.is_complex:
        real = sample(torch.float16 if dtype is torch.complex32 else dtype.to_real())
        return torch.view_as_complex(real.reshape(-1, 2)).reshape(-1, 1)
    if dtype.itemsize == 1 and dtype.is_floating_point:
        return torch.arange(256, dtype=torch.uint8).view(dtype).reshape(128, 2)
    if dtype.is_floating_point:
        return torch.tensor((*SPECIAL, torch.finfo(dtype).max), dtype=dtype).reshape(-1, 2)
    limits = torch.iinfo(dtype)
    return torch.tensor([[limits.min, limits.max], [1, 2]], dtype=dtype)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Chromium(tmp_path_factory.mktemp("profile")) as made:
        yield made


@pytest.fixture
def page(browser, tmp_path):
    """A browser that saves into `tmp_path`, and nothing to complain about afterwards."""
    browser.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    browser.resize(1280, 900)
    browser.theme("light")
    browser.requests.clear()
    browser.problems.clear()
    yield browser
    assert browser.problems == []
    strange = [
        each for each in browser.requests if not each.startswith(("file:", "blob:", "about:"))
    ]
    assert strange == []


def load(page, tmp_path, model, weights="small"):
    html(model, tmp_path / "net.html", weights=weights)
    page.load((tmp_path / "net.html").as_uri())
    click(page, "#fd-model")


def click(page, selector):
    page.evaluate(f"document.querySelector({json.dumps(selector)}).click()")


def until(page, source):
    limit = time.monotonic() + 20
    while not (found := page.evaluate(source)):
        assert time.monotonic() < limit, source
        time.sleep(0.02)
    return found


def shown(page, name):
    """Open the values of a tensor and return the cells in view, by row."""
    click(page, f"[aria-label='Values of {name}']")
    until(page, "document.querySelector('.fd-grid tbody tr') !== null")
    return cells(page)


def cells(page):
    return page.evaluate("""[...document.querySelectorAll(".fd-grid tbody tr")].map((row) =>
        [...row.children].map((e) => e.textContent))""")


def place(page):
    return page.evaluate("document.querySelector('.fd-go [role=status]').textContent")


def saved(page, tmp_path, name):
    """Save a tensor by its button and return the bytes of the file."""
    click(page, f"[aria-label='Save {name} as .npy']")
    file = tmp_path / f"{name}.npy"
    limit = time.monotonic() + 20
    while not file.is_file():
        assert time.monotonic() < limit, name
        time.sleep(0.02)
    return file.read_bytes()


def numpy_file(tmp_path, array):
    np.save(tmp_path / "expected", array)
    return (tmp_path / "expected.npy").read_bytes()


@pytest.mark.parametrize("dtype", [*EXACT, *WIDENED], ids=str)
def test_page_values_of_each_dtype_are_shown_and_saved_exactly(page, tmp_path, dtype):
    tensor = sample(dtype)
    load(page, tmp_path, Kept(tensor=tensor))
    rows = shown(page, "tensor")
    wide = tensor.to(WIDENED.get(dtype, dtype))
    read = {torch.bool: lambda text: text == "True"}.get(
        dtype, complex if dtype.is_complex else float
    )
    if not (dtype.is_floating_point or dtype.is_complex or dtype is torch.bool):
        read = int
    kind = np.dtype(str(wide.dtype).removeprefix("torch."))
    page.evaluate("document.querySelector('.fd-grid').style.height = '4000px'")
    until(page, f"document.querySelectorAll('.fd-grid tbody tr').length === {len(tensor)}")
    rows = cells(page)
    found = np.array([[read(text) for text in row[1:]] for row in rows], dtype=kind)
    expected = np.array(wide.tolist(), dtype=kind)
    assert found.tobytes() == expected.tobytes() or np.array_equal(found, expected, equal_nan=True)
    assert rows[1][0] == "[1]"
    assert saved(page, tmp_path, "tensor") == numpy_file(tmp_path, np.asarray(wide))
    note = page.evaluate("document.getElementById('fd-panel').innerText")
    assert ("which holds each value" in note) == (dtype in WIDENED)


@pytest.mark.parametrize(
    "shape", [(), (1,), (7,), (0,), (2, 0, 3), (2, 3, 4, 5), (123456,), (1,) * 15], ids=str
)
def test_page_values_of_each_shape_are_saved_as_numpy_saves_them(page, tmp_path, shape):
    tensor = torch.randn(shape)
    load(page, tmp_path, Kept(tensor=tensor))
    assert saved(page, tmp_path, "tensor") == numpy_file(
        tmp_path, np.array(tensor.tolist(), "f4").reshape(shape)
    )
    click(page, "[aria-label='Values of tensor']")
    until(page, "document.querySelector('.fd-grid tbody tr, #fd-panel p') !== null")
    if not tensor.numel():
        assert "has no values" in page.evaluate("document.querySelector('#fd-panel p').innerText")
        return
    first = ", ".join("0" for _ in shape[:-1] or shape)
    assert cells(page)[0][:2] == [f"[{first}]", cells(page)[0][1]]
    assert np.float32(cells(page)[0][1]) == np.float32(tensor.reshape(-1)[0].item())


def test_page_values_scroll_by_bar_keys_and_index(page, tmp_path):
    tensor = torch.arange(3 * 500 * 400).reshape(3, 500, 400)
    load(page, tmp_path, Kept(tensor=tensor), "all")
    rows = shown(page, "tensor")
    assert rows[0][:3] == ["[0, 0]", "0", "1"]
    assert len(rows) < 20
    assert place(page).startswith(f"rows 1 to {len(rows)} of 1,500, columns 1 to ")
    page.evaluate("""(() => { const box = document.querySelector(".fd-grid");
        box.scrollTop = box.scrollHeight; box.scrollLeft = box.scrollWidth; })()""")
    until(
        page,
        "document.querySelector('.fd-grid tbody tr:last-child').textContent.startsWith('[2, 499]')",
    )
    assert cells(page)[-1][-1] == "599999"
    page.evaluate("""(() => { const field = document.querySelector(".fd-go input");
        field.value = "1, 250, 7";
        field.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" })); })()""")
    assert cells(page)[0][:2] == ["[1, 250]", str(int(tensor[1, 250, 7]))]
    page.evaluate("document.querySelector('.fd-grid').focus()")
    for key, expected in (
        ("ArrowDown", (1, 251, 7)),
        ("ArrowRight", (1, 251, 8)),
        ("Home", (0, 0, 0)),
    ):
        page.key(key)
        assert cells(page)[0][1] == str(int(tensor[expected]))
    page.evaluate("""(() => { const field = document.querySelector(".fd-go input");
        field.value = "3, 0, 0";
        field.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" })); })()""")
    refused = page.evaluate("document.querySelector('.fd-go [role=alert]').textContent")
    assert refused == "no such index: the shape is 3\u00d7500\u00d7400"


def test_page_values_of_more_rows_than_a_browser_can_scroll_are_all_reached(page, tmp_path):
    rows = 1_000_001
    load(page, tmp_path, Kept(tensor=torch.arange(rows, dtype=torch.int32)), "all")
    shown(page, "tensor")
    page.evaluate("document.querySelector('.fd-grid').focus()")
    page.key("End")
    assert cells(page)[-1] == [f"[{rows - 1}]", str(rows - 1)]
    page.key("ArrowUp")
    assert cells(page)[-1] == [f"[{rows - 2}]", str(rows - 2)]
    for wanted in (1, 345_678):
        page.evaluate(f"""(() => {{ const field = document.querySelector(".fd-go input");
            field.value = "{wanted}";
            field.dispatchEvent(new KeyboardEvent("keydown", {{ key: "Enter" }})); }})()""")
        assert cells(page)[0] == [f"[{wanted}]", str(wanted)]
    page.evaluate("""document.querySelector(".fd-grid").dispatchEvent(
        new WheelEvent("wheel", { deltaY: 20, cancelable: true }))""")
    assert cells(page)[0] == ["[345679]", "345679"]


def test_page_values_of_a_nested_layer_are_saved_under_its_full_name(page, tmp_path):
    model = nn.Sequential(nn.Sequential(nn.Linear(3, 2), nn.ReLU()), nn.Linear(2, 2))
    load(page, tmp_path, model)
    click(page, "#fd-open")
    page.evaluate("""document.querySelector(".fd-step .fd-layer").dispatchEvent(
        new MouseEvent("click", { bubbles: true }))""")
    click(page, "[aria-label='Save weight as .npy']")
    file = tmp_path / "0.0.weight.npy"
    limit = time.monotonic() + 20
    while not file.is_file():
        assert time.monotonic() < limit
        time.sleep(0.02)
    assert np.array_equal(np.load(file), np.asarray(model[0][0].weight.detach()))


def test_page_says_which_option_shows_values_that_are_left_out(page, tmp_path):
    load(
        page,
        tmp_path,
        Kept(large=torch.ones(600, 600), small=torch.ones(2), cut=torch.ones(2, device="meta")),
    )
    text = page.evaluate("document.getElementById('fd-panel').innerText")
    assert "1.4 MiB of values are left out: --weights all" in text
    assert "on the device meta, so it has no values" in text
    labels = page.evaluate(
        "[...document.querySelectorAll('#fd-panel dd button')].map((e) => e.ariaLabel)"
    )
    assert "Values of small" in labels
    assert not {"Values of large", "Values of cut"} & set(labels)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_page_values_fit_any_width_and_can_be_read(page, tmp_path, width, theme):
    page.resize(width, 800, mobile=width < 500)
    page.theme(theme)
    load(page, tmp_path, Kept(tensor=torch.randn(64, 50)))
    shown(page, "tensor")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    edges = page.evaluate("""[...document.querySelectorAll("#fd-panel button, .fd-grid, .fd-grid td, input")]
        .map((e) => e.getBoundingClientRect().right)""")
    assert max(edges) <= width
    clipped = page.evaluate("""[...document.querySelectorAll(".fd-grid td, .fd-grid th")].filter((e) =>
        e.scrollWidth > e.clientWidth).map((e) => e.textContent)""")
    assert clipped == []
