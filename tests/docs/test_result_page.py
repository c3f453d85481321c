"""The page of measured results is made from the committed JSON, and tells where and when."""

import json
import re
import xml.etree.ElementTree as ET

import pytest

from benchmarks.shared.conditions import together, told
from docs._build.result_pages import RESULTS, Bar, chart, results, write_result_page


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
    where = r"(counts, without times|.+; load [\d. to]+)"
    words = rf"Measured on \d{{4}}-\d\d-\d\d.*, Python 3\.\d+.*, torch \d.*; {where}\."
    assert [line for line in told if not re.fullmatch(words, line)] == []
    assert "not noted" not in page


@pytest.mark.parametrize("stem", ["world", "hf", "proofs", "library", "campaigns"])
def test_result_page_has_a_table_of_each_result_without_a_chart(page, stem):
    (result,) = (each for each in results() if each.stem == stem)
    part = next(each for each in page.split("## ") if each.startswith(result.title))
    rows = [line for line in part.splitlines() if line.startswith("| ")]
    assert len(rows) == len(result.rows) + 2
    assert rows[2].startswith(f"| {result.rows[0][0]} | ")
    assert result.command in part


def test_conditions_that_a_file_lacks_are_named():
    measured = {"date": "2026-11-27", "python": "3.11.7", "versions": {"torch": "2.13.0"}}
    assert told(measured).endswith("; machine not noted; load not noted.")
    assert told({**measured, "machine": "2 x a processor", "load": [0.4, 1.6, 0.5]}).endswith(
        "; 2 x a processor; load 0.4 to 1.6."
    )
    assert told(measured, is_timed=False).endswith("; counts, without times.")


def test_conditions_of_several_files_have_all_dates_and_loads_but_one_machine():
    measured = {
        "date": "2026-11-27",
        "machine": "a",
        "python": "3",
        "versions": {},
        "load": [0.4, 1],
    }
    other = {**measured, "date": "2026-11-29", "load": [0.2, 0.9], "commit": "abc"}
    whole = together([measured, other])
    assert (whole["date"], whole["load"]) == ("2026-11-27 to 2026-11-29", [0.2, 1])
    assert "commit" not in whole
    with pytest.raises(ValueError, match="differ in machine"):
        together([measured, {**other, "machine": "b"}])


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
