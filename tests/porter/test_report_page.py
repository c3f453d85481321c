"""The report page: colours and prose of its texts, and its contents, filter and folds in a real browser."""

import html
import json
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdl_cli.porter.ir.findings import ClassOutcome, FileOutcome, Reason, VerifyFinding
from fdl_cli.porter.report.highlight import coloured_lines
from fdl_cli.porter.report.page import page
from fdl_cli.porter.report.prose import prose
from fdl_cli.porter.report.side_by_side import side_by_side
from flodl_verify.protocol import CheckEvidence, ClassEvidence
from tests.flodl.monitor.chromium import BROWSER, Chromium

SOURCE = '"""A model."""\n' + "".join(f"VALUE_{n} = {n}  # {'long ' * 30}\n" for n in range(60))


def plain(line):
    return html.unescape(re.sub(r"</?i[^>]*>", "", line))


# ---- without a browser ---------------------------------------------------------------------------


PIECES = [*"ab1 \t\n\r\x0c\u2028\\'\"#@<&>fr.=:", '"""', "def "]


@given(st.lists(st.sampled_from(PIECES)).map("".join))
def test_coloured_lines_any_text_has_the_lines_of_the_text(text):
    assert [plain(line) for line in coloured_lines(text)] == text.splitlines()


def test_coloured_lines_python_colours_words_strings_comments_and_names():
    first, second, third, fourth = coloured_lines(
        '@wrap\ndef run(self):\n    return f"a#b" + 1e-3  # no "string"\n\'\'\'open'
    )
    assert first == '<i class="decorator">@wrap</i>'
    assert '<i class="keyword">def</i> <i class="name">run</i>(<i class="self">self</i>)' in second
    assert '<i class="string">f"a#b"</i> + <i class="number">1e-3</i>' in third
    assert third.endswith('<i class="comment"># no "string"</i>')
    assert plain(fourth) == "'''open"


def test_coloured_lines_string_over_lines_is_coloured_on_each():
    lines = coloured_lines('x = """one\ntwo"""\ny')
    assert lines[1] == '<i class="string">two"""</i>'
    assert lines[2] == "y"


def test_prose_backticks_become_code_and_nothing_else_does():
    assert prose("use `a < b`, not `") == "use <code>a &lt; b</code>, not `"


def test_side_by_side_fold_in_the_first_row_leaves_the_widths_to_the_columns():
    table = "\n".join(side_by_side("a\n" * 30 + "b\n", "a\n" * 30 + "c\n"))
    assert table.index("<colgroup>") < table.index('class="fold"')
    assert table.index('class="fold"') < table.index("<pre>")


def test_side_by_side_all_rows_of_both_texts_are_there():
    old = [f"line{n}" for n in range(50)]
    new = [*old[:20], "new", *old[21:]]
    table = "\n".join(side_by_side("\n".join(old), "\n".join(new)))
    cells = re.findall(r"<td>(\d*)</td><td[^>]*>(?:<pre>(.*?)</pre>)?", table)
    assert [text for number, text in cells if number][::2] == old
    assert [text for number, text in cells if number][1::2] == new


def test_page_message_with_backticks_has_no_raw_ones():
    text = page(files())
    assert "<code>torch.where</code>" in text
    assert "`" not in re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)


# ---- in a browser --------------------------------------------------------------------------------


def one_class(name, status="equal", reason=None, kept=False):
    found = (Reason(line=3, code="FDL305", message="use `torch.where` here"),) if kept else ()
    return ClassOutcome(
        name=name, line=4, status="kept" if kept else "graph", ops_total=2, ops_in_graph=0 if kept else 2,
        reasons=found, verify=VerifyFinding(status=status, detail="Net(4)", reason=reason),
    )  # fmt: skip


def one_file(*classes, **changes):
    evidence = tuple(
        ClassEvidence(name=item.name, status="equal", detail="", example="", error_code=None, line=None,
                      checks=(CheckEvidence(name="gradients", status="equal", detail="a " * 200),),
                      drawing='<svg xmlns="http://www.w3.org/2000/svg" width="900" height="90"></svg>')
        for item in classes
    )  # fmt: skip
    made = FileOutcome(
        status="ported", text=SOURCE.replace("VALUE_30", "OTHER"), source=SOURCE, classes=classes,
        on_flodl=(), training=(), warnings=(), error=None, plan="", ir="", evidence=evidence,
    )  # fmt: skip
    return replace(made, **changes)


def files():
    return [
        ("a_file_with_a_rather_long_name_that_has_no_spaces_at_all.py", "ported/a.py",
         one_file(one_class("Encoder"), one_class("Decoder", "not-run", "time"))),
        ("second.py", "ported/second.py", one_file(one_class("Head"))),
        ("third.py", None, one_file(one_class("Odd", "not-run", kept=True))),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if BROWSER is None:
        pytest.skip("there is no chromium on the PATH")
    with Chromium(tmp_path_factory.mktemp("profile")) as made:
        yield made


@pytest.fixture
def report(browser, tmp_path):
    """The browser with the report of three files, and nothing to complain about afterwards."""
    (tmp_path / "report.html").write_text(page(files()))
    browser.resize(1280, 900)
    browser.theme("light")
    browser.requests.clear()
    browser.problems.clear()
    browser.open((tmp_path / "report.html").as_uri())
    loaded = "document.readyState === 'complete' && document.getElementById('count')?.innerText"
    for _ in range(100):
        if browser.evaluate(loaded):
            break
        time.sleep(0.05)
    yield browser
    assert browser.problems == []
    assert [each for each in browser.requests if not each.startswith("file:")] == []


def shown(page, selector):
    return page.evaluate(
        f"[...document.querySelectorAll({json.dumps(selector)})]"
        ".filter((e) => e.checkVisibility()).map((e) => e.innerText)"
    )


def choose(page, name, value):
    page.evaluate(f"""{{ const field = document.getElementById({name!r}); field.value = {value!r};
        field.dispatchEvent(new Event(field.tagName === "SELECT" ? "change" : "input")); }}""")


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 800, 1280])
def test_report_at_any_width_has_no_overflow(report, width, theme):
    report.resize(width, 900, mobile=width < 500)
    report.theme(theme)
    report.evaluate("document.getElementById('unfold').click()")
    assert report.evaluate("document.documentElement.scrollWidth <= innerWidth")
    ground = report.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(13, 17, 23)" if theme == "dark" else "rgb(255, 255, 255)")
    numbers, texts = report.evaluate("""["td:nth-child(1)", "td:nth-child(2)"].map((each) =>
        document.querySelector(`table.diff tbody:not(.fold) ${each}`).getBoundingClientRect().width)""")
    assert numbers < 60 < texts


@pytest.mark.browser
@pytest.mark.slow
def test_report_fold_opens_and_closes_on_a_click(report):
    report.evaluate("document.querySelector('.texts').open = true")
    fold = "document.querySelector('.fold button')"
    assert not any("VALUE_5 =" in each for each in shown(report, "table.diff pre"))
    report.evaluate(f"{fold}.click()")
    assert any("VALUE_5 =" in each for each in shown(report, "table.diff pre"))
    assert report.evaluate(f"{fold}.getAttribute('aria-expanded')") == "true"
    report.evaluate(f"{fold}.click()")
    assert not any("VALUE_5 =" in each for each in shown(report, "table.diff pre"))


@pytest.mark.browser
@pytest.mark.slow
def test_report_filter_leaves_classes_and_entries_that_match(report):
    assert shown(report, "#count") == ["4 of 4 classes"]
    choose(report, "find", "coder")
    assert [each.split()[0] for each in shown(report, "article h3")] == ["Encoder", "Decoder"]
    assert len(shown(report, "nav li li")) == 2
    choose(report, "state", "unproved")
    assert [each.split()[0] for each in shown(report, "article h3")] == ["Decoder"]
    choose(report, "find", "")
    choose(report, "state", "kept")
    assert [each.split()[0] for each in shown(report, "section h2")] == ["third.py"]
    choose(report, "state", "")
    choose(report, "find", "second")
    assert [each.split()[0] for each in shown(report, "article h3")] == ["Head"]


@pytest.mark.browser
@pytest.mark.slow
def test_report_contents_lead_to_each_file_and_class(report):
    targets = report.evaluate(
        "[...document.querySelectorAll('nav a')].map((e) => [e.innerText,"
        " document.querySelector(e.getAttribute('href')).innerText.split(/\\s/)[0]])"
    )
    assert [name for name, _ in targets][1:3] == ["Encoder", "Decoder"]
    assert all(name == found for name, found in targets)
    assert len(targets) == 3 + 4


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_report_text_can_be_read_in_both_themes(report, theme):
    report.theme(theme)
    report.evaluate("document.getElementById('unfold').click()")
    contrast = (Path(__file__).parents[1] / "flodl" / "monitor" / "contrast.js").read_text()
    assert report.evaluate(contrast) == []
