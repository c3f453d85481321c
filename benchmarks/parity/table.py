"""Results of many files -> the table of `spec/porting.md` 2 with our row, and ranked reasons."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from benchmarks.parity.case import CHECKS
from benchmarks.parity.shape import median

if TYPE_CHECKING:
    from collections.abc import Callable

    Results = list[dict[str, Any]]
    Cases = list[dict[str, Any]]

TIERS = (1, 2, 3, 4, 5)


def right(checks: dict[str, str]) -> Any:
    """Say whether no check failed."""
    return all(value in {"ok", "na"} for value in checks.values())


def usable(case: Any) -> Any:
    """Say whether the original runs and repeats itself."""
    return case["status"] in {"run", "ended", "port-no-import"}


def identical(case: Any) -> Any:
    """Say whether what the tool wrote computes the same, kept parts included."""
    return case["status"] == "run" and right(case["checks"])


def ported(case: Any) -> Any:
    """Say whether the class of a case is a flow, and the same in all checks."""
    return identical(case) and case.get("flow", False)


def wholly(case: Any) -> Any:
    """Say whether every user module inside is a flow, too."""
    return ported(case) and not case.get("kept_inside")


def baseline(label: str) -> Any:
    """Return the judgement of a baseline."""

    def judged(case: Any) -> Any:
        item = case.get(label)
        return item is not None and item["status"] == "run" and right(item["checks"])

    return judged


def share(part: float, whole: float) -> Any:
    """Return a percentage with one digit, or a dash."""
    return "-" if not whole else f"{100 * part / whole:.1f}"


def summary(results: Results) -> Any:
    """Return every number of the table as plain data."""
    cases = [{**case, "file": r["file"]} for r in results for case in r["cases"]]
    good = [case for case in cases if usable(case)]
    files = [r for r in results if any(usable(case) for case in r["cases"])]
    rows = {"ours": ported, "ours, all parts flows": wholly, "ours, identical": identical}
    labels = [label for label in ("fx", "export") if any(label in case for case in good)]
    rows |= {label: baseline(label) for label in labels}
    return {
        "files": len(results),
        "usable_files": len(files),
        "usable_cases": len(good),
        "rows": {name: _row(judged, good, files) for name, judged in rows.items()},
        "unusable": Counter(
            case["status"] if case["status"] != "unusable" else case["why"].split(":")[0]
            for case in cases
            if not usable(case)
        ).most_common(),
        **_tool(results),
        "wrong_but_verified": _wrong(results),
        "verified": _verified(results),
        "kept": _kept(good, results),
        "failures": _failures(good),
    }


def _row(judged: Callable[..., bool], cases: Cases, files: Results) -> Any:
    tiers = {}
    for tier in TIERS:
        mine = [case for case in cases if case.get("tier") == tier]
        tiers[tier] = (sum(map(judged, mine)), len(mine))
    projects = sum(all(judged(c) for c in r["cases"] if usable(c)) for r in files)
    return {
        "cases": (sum(map(judged, cases)), len(cases)),
        "projects": (projects, len(files)),
        "tiers": tiers,
    }


def _tool(results: Results) -> Any:
    ports = [r["port"] for r in results]
    fine = [p for p in ports if "idempotent" in p]
    ratios = [ratio for p in fine for ratio in p["style"]["ratios"]]
    seconds = sum(p.get("seconds", 0) for p in ports)
    total = {
        key: sum(p["style"].get(key, 0) for p in fine)
        for key in ("direct", "calls", "residuals", "also", "handed", "named")
    }
    imports = [r for r in results if not any(c["status"] == "no-import" for c in r["cases"])]
    return {
        "crashed": [(r["file"], r["port"]["error"]) for r in results if r["port"].get("error")],
        "lost": [(r["file"], r["cases_error"]) for r in results if "cases_error" in r],
        "no_import": [
            (r["file"], c["why"])
            for r in results
            for c in r["cases"]
            if c["status"] == "port-no-import"
        ],
        "importable": len(imports),
        "idempotent": (sum(p["idempotent"] for p in fine), len(fine)),
        "comments": (sum(p["comments"] for p in fine), len(fine)),
        "unexplained": sum(len(p["unexplained"]) for p in fine),
        "flow_ratio": median(ratios),
        "style": total,
        "lines_per_s": round(sum(p["lines"] for p in ports) / seconds) if seconds else None,
        "memory_mb": max((p.get("memory_mb", 0) for p in ports), default=0),
        "not_idempotent": [r["file"] for r in results if not r["port"].get("idempotent", True)],
        "lost_comments": [r["file"] for r in results if not r["port"].get("comments", True)],
    }


def _wrong(results: Results) -> Any:
    found = []
    for r in results:
        classes = r.get("verified", {}).get("classes", {})
        for case in r["cases"]:
            verify = classes.get(case["class"], {}).get("verify")
            if verify == "equal" and usable(case) and not identical(case):
                found.append((r["file"], case["class"], _why(case)))
    return found


def _verified(results: Results) -> Any:
    runs = [(r["file"], r["verified"]) for r in results if "verified" in r]
    if not runs:
        return None
    states = Counter(
        item["verify"]
        for _, run in runs
        for item in run.get("classes", {}).values()
        if item["status"] == "graph"
    )
    largest = max(runs, key=lambda pair: pair[1].get("memory_mb", 0))
    return {
        "files": len(runs),
        "classes": dict(states),
        "errors": [(file, run["error"]) for file, run in runs if "error" in run],
        "memory_mb": (largest[1].get("memory_mb", 0), largest[0]),
        "longest_s": round(max(run.get("seconds", 0.0) for _, run in runs)),
    }


def _kept(good: Cases, results: Results) -> Any:
    reasons = {}
    for r in results:
        source = r.get("verified", {}).get("classes") or {
            c["name"]: c for c in r["port"].get("classes", ())
        }
        reasons[r["file"]] = source
    found, examples = Counter(), {}
    for case in good:
        if case.get("flow") or case["status"] != "run":
            continue
        item = reasons[case["file"]].get(case["class"])
        codes = [f"{code} {message}" for code, _, message in item["reasons"]] if item else []
        for text in dict.fromkeys(codes or ["not a class of the report"]):
            found[text[:7] if text.startswith("FDL") else text] += 1
            examples.setdefault(text[:7], []).append((case["file"], case["class"], text))
    return [(code, count, examples.get(code[:7], [])) for code, count in found.most_common()]


def _failures(good: Cases) -> Any:
    found = {}
    for case in good:
        if not identical(case):
            why = _why(case)
            key = why.partition("@")[0][:70]
            found.setdefault(key, []).append((case["file"], case["class"], why))
    return sorted(found.items(), key=lambda pair: -len(pair[1]))


def _why(case: Any) -> Any:
    if case["status"] != "run":
        return case.get("why", case["status"])
    bad = [f"{key} {v}" for key in CHECKS if (v := case["checks"][key]) not in {"ok", "na"}]
    return "; ".join(bad)


def text(data: Any, *, details: bool) -> Any:
    """Return the table for people."""
    lines = [
        f"{data['files']} files, {data['usable_files']} usable; {data['usable_cases']} usable cases",
        "",
        "| all seven checks, bitwise | cases | projects | T1 | T2 | T3 | T4 | T5 |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, row in data["rows"].items():
        cells = [share(*row["cases"]), share(*row["projects"])]
        cells += [share(*row["tiers"][tier]) for tier in TIERS]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    sizes = [str(row) for row in next(iter(data["rows"].values()))["tiers"].values()]
    style = data["style"]
    unnamed = style["handed"] - style["named"]
    lines += [
        "",
        f"cases per tier (ours, of): {' '.join(sizes)}",
        f"wrong, but reported verified: {len(data['wrong_but_verified'])}",
        f"crashes, hangs, memory: {len(data['crashed'])}; no result: {len(data['lost'])}",
        f"imports though its source does: all but {len(data['no_import'])} of {data['importable']}",
        f"idempotent: {share(*data['idempotent'])} %; comments kept: {share(*data['comments'])} %",
        f"kept without a reason: {data['unexplained']}",
        f"statements of flow per statement of forward, median: {data['flow_ratio']}",
        f"submodule calls not by a flow step: {share(style['direct'], style['calls'])} %",
        f"residual sums written as also: {share(style['also'], style['residuals'])} %",
        f"layer to layer, without a name in between: {share(unnamed, style['handed'])} %",
        f"{data['lines_per_s']} lines/s; most memory {data['memory_mb']} MB",
        f"unusable: {data['unusable']}",
    ]
    if data["verified"]:
        lines.append(_verification(data["verified"]))
    if details:
        lines += _details(data)
    return "\n".join(lines)


def _verification(found: Any) -> Any:
    states = ", ".join(f"{count} {state}" for state, count in sorted(found["classes"].items()))
    memory, file = found["memory_mb"]
    return (
        f"verification of {found['files']} files: classes {states}; {len(found['errors'])} files "
        f"without an answer; longest {found['longest_s']} s; most memory {memory} MB ({file})"
    )


def _details(data: Any) -> Any:
    lines = ["", "kept, by reason (cases):"]
    for code, count, examples in data["kept"]:
        lines.append(f"  {count:4} {code}")
        lines += [f"         {file} {name}: {why[:150]}" for file, name, why in examples[:400]]
    lines += ["", "failures (cases):"]
    for key, examples in data["failures"]:
        lines.append(f"  {len(examples):4} {key}")
        lines += [f"         {file} {name}: {why[:400]}" for file, name, why in examples[:400]]
    for key in (
        "crashed",
        "lost",
        "no_import",
        "wrong_but_verified",
        "not_idempotent",
        "lost_comments",
    ):
        if data[key]:
            lines += ["", f"{key}:", *(f"  {item}" for item in data[key])]
    return lines
