"""The page of measured results is made from the committed JSON, and tells where and when."""

import json
import re
import xml.etree.ElementTree as ET

import pytest

from docs._build.result_pages import RESULTS, Bar, chart, conditions, results, write_result_page


@pytest.fixture
def page(tmp_path):
    write_result_page(tmp_path)
    return (tmp_path / "results.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("stem", "name", "value"),
    [
        ("gallery", "name", "ratio"),
        ("profile_coverage", "model", "flow"),
        ("scale", "run", "share"),
    ],
)
def test_result_page_has_each_row_of_each_file(page, tmp_path, stem, name, value):
    rows = json.loads((RESULTS / f"{stem}.json").read_text("utf-8"))["rows"]
    part = next(each for each in page.split("\n## ") if f"results-{stem}.svg" in each)
    shown = re.findall(r"^\| ([^|]+) \| ([\d.]+)", part, re.MULTILINE)
    factor = 1 if value == "ratio" else 100
    assert [each for each, _ in shown] == [row[name] for row in rows]
    assert [float(number) for _, number in shown] == pytest.approx(
        [factor * row[value] for row in rows], abs=0.051
    )
    drawn = ET.fromstring((tmp_path / f"results-{stem}.svg").read_text("utf-8"))
    assert len(drawn.findall("{http://www.w3.org/2000/svg}rect")) == len(rows)


def test_result_page_states_date_versions_machine_and_load_of_each(page):
    told = re.findall(r"^Measured on .*$", page, re.MULTILINE)
    assert len(told) == len(results())
    words = r"Measured on \d{4}-\d\d-\d\d.*, Python 3\.\d+.*, torch \d.*; .+; load .+\."
    assert [line for line in told if not re.fullmatch(words, line)] == []


def test_conditions_that_a_file_lacks_are_named():
    measured = {"date": "2026-11-27", "python": "3.11.7", "versions": {"torch": "2.13.0"}}
    assert conditions(measured).endswith("; machine not noted; load not noted.")
    assert conditions({**measured, "cpus": 2, "load": [0.4, 1.6]}).endswith(
        "; 2 processors; load 0.4 to 1.6."
    )


def test_chart_lengths_follow_the_values_and_lines_the_bars():
    drawn = ET.fromstring(
        chart(
            "a & b",
            (Bar(name="x", value=0.5, text="50"), Bar(name="<y>", value=1.0, text="", bar=0.25)),
        )
    )
    space = "{http://www.w3.org/2000/svg}"
    lengths = [float(each.get("width")) for each in drawn.iter(f"{space}rect")]
    assert lengths[1] == pytest.approx(2 * lengths[0])
    (line,) = drawn.iter(f"{space}line")
    start = float(next(drawn.iter(f"{space}rect")).get("x"))
    assert float(line.get("x1")) == pytest.approx(start + lengths[1] / 4)
