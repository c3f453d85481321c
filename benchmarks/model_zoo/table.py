"""Results of many models and the report of the port -> a table by family, and what is not equal."""

from __future__ import annotations

from collections import Counter
from pathlib import PurePosixPath
from typing import Any

Results = dict[str, dict[str, Any]]


def summary(groups: dict[str, str], results: Results, port: dict[str, Any]) -> dict[str, Any]:
    """Return every number as plain data."""
    rows: dict[str, dict[str, Any]] = {}
    for name, found in results.items():
        row = rows.setdefault(groups[name], {"status": Counter(), "classes": {}})
        row["status"][found["status"]] += 1
        row["classes"].update(found.get("classes", {}))
    ran = [r for r in results.values() if r["status"] in {"equal", "different"}]
    classes = [c for file in port["files"] for c in file["classes"]]
    return {
        "rows": dict(sorted(rows.items())),
        "port": {
            "seconds": port["seconds"],
            "verified": port["verified"],
            "files": len(port["files"]),
            "errors": [f["file"] for f in port["files"] if f["error"]],
            "classes": Counter(c["status"] for c in classes),
            "verify": Counter(c["verify"] for c in classes),
            "codes": Counter(
                code for c in classes if c["status"] == "kept" for code in c["codes"]
            ),
            "by_file": {_dotted(f["file"]): _kinds(f["classes"]) for f in port["files"]},
        },
        "models": len(ran),
        "equal": sum(r["status"] == "equal" for r in ran),
        "learn": sum(r["learns"] for r in ran),
        "seconds": [sum(r["seconds"][side] or 0 for r in ran) for side in (0, 1)],
        "kept_in_use": _kept_in_use(ran),
        "different": {n: r["differs"] for n, r in results.items() if r["status"] == "different"},
        "not_run": {n: r["why"] for n, r in results.items() if "why" in r},
    }


def _dotted(file: str) -> str:
    return ".".join(PurePosixPath(file).with_suffix("").parts)


def _kinds(classes: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "ported": sum(c["status"] != "kept" for c in classes),
        "kept": sorted({code for c in classes if c["status"] == "kept" for code in c["codes"]}),
        "all": len(classes),
    }


def _kept_in_use(ran: list[dict[str, Any]]) -> list[str]:
    return sorted({n for r in ran for n, flow in r.get("classes", {}).items() if not flow})


def text(data: dict[str, Any], *, by_family: bool) -> str:
    """Return the report for people."""
    port = data["port"]
    in_use: dict[str, bool] = {}
    for row in data["rows"].values():
        in_use |= row["classes"]
    flows = sum(in_use.values())
    lines = [
        f"port: {port['files']} files in {port['seconds']} s, classes {dict(port['classes'])}, "
        f"kept by {dict(port['codes'])}"
        + (f", errors {port['errors']}" if port["errors"] else ""),
    ]
    if port["verified"]:
        lines.append(f"the tool's own verification: {dict(port['verify'])}")
    lines += [
        f"models: {data['equal']} of {data['models']} equal in everything",
        f"curves: {data['learn']} with finite losses that move",
        f"classes in these models: {flows} of {len(in_use)} are flows",
        f"computing, and no flow: {', '.join(data['kept_in_use']) or 'none'}",
        f"seconds at work, original and port: {data['seconds'][0]:.0f}, {data['seconds'][1]:.0f}",
    ]
    if by_family:
        lines += ["", *_rows(data)]
    for title, found in (("not equal", data["different"]), ("not run", data["not_run"])):
        if found:
            lines += ["", f"{title}:", *(f"  {name}: {why}" for name, why in found.items())]
    return "\n".join(lines)


def _rows(data: dict[str, Any]) -> list[str]:
    lines = [
        "| family | models | equal | not run | classes ported | kept | flows in use |",
        "|---|---|---|---|---|---|---|",
    ]
    for group, row in data["rows"].items():
        status, used = row["status"], row["classes"]
        own = _own(data["port"]["by_file"], group)
        cells = [
            status["equal"] + status["different"],
            status["equal"],
            status["skipped"] + status["no-case"],
            f"{own['ported']}/{own['all']}" if own else "-",
            ", ".join(own["kept"]) if own and own["kept"] else "-",
            f"{100 * sum(used.values()) / len(used):.0f} %" if used else "-",
        ]
        lines.append(f"| {group} | {' | '.join(map(str, cells))} |")
    return lines


def _own(by_file: dict[str, Any], group: str) -> dict[str, Any] | None:
    return next((v for k, v in by_file.items() if k == group or k.endswith(f".{group}")), None)
