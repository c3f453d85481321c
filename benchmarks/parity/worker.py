"""One file of the corpus from its bytes to results: port it, import both, judge every case.

Everything runs in processes of its own, forked from one that has torch loaded, with limits on time
and memory; whatever happens in one is a result of the others' parent.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import json
import os
import pickle
import random
import resource
import select
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.parity import shape
from benchmarks.parity.corpus import place, ported_place
from fdl_cli.porter.port_file import port_file

if TYPE_CHECKING:
    from types import ModuleType

PORT_LIMIT_S, IMPORT_LIMIT_S, CASE_LIMIT_S, VERIFY_LIMIT_S = 60, 60, 90, 300
MEMORY_MB = 8192


class EndedError(Exception):
    """A forked process did not bring its result; says how it ended."""


def forked(function: Any, *arguments: Any, limit_s: float, memory_mb: int = MEMORY_MB) -> Any:
    """Call a function in a forked process and return its result.

    Raises:
        EndedError: it took too long, too much memory, or died.
    """
    reader, writer = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        _in_child(function, arguments, reader, writer)
    os.close(writer)
    try:
        data = _collect(child, reader, limit_s, memory_mb)
    finally:
        os.close(reader)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return pickle.loads(data)


def _in_child(function: Any, arguments: Any, reader: int, writer: int) -> None:
    code = 1
    try:
        os.setsid()
        os.close(reader)
        sink = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(sink, number)
        warnings.simplefilter("ignore")
        data = pickle.dumps(function(*arguments))
        with os.fdopen(writer, "wb") as stream:
            stream.write(data)
        code = 0
    except BaseException as error:
        with contextlib.suppress(BaseException), os.fdopen(writer, "wb") as stream:
            stream.write(pickle.dumps(EndedError(f"{type(error).__name__}: {error}"[:300])))
    finally:
        os._exit(code)


def _collect(child: int, reader: int, limit_s: float, memory_mb: int) -> Any:
    deadline, chunks = time.monotonic() + 8 * limit_s, []
    base = None
    while True:
        ready, _, _ = select.select([reader], [], [], 0.2)
        if ready:
            chunk = os.read(reader, 1 << 20)
            if not chunk:
                break
            chunks.append(chunk)
            continue
        # Seconds at work: on a busy machine the clock says nothing. Sleep is limited, too.
        if _busy_s(child) > limit_s or time.monotonic() > deadline:
            raise EndedError(f"time: more than {limit_s} s")
        used = _resident_mb(child)
        base = used if base is None else base
        if used - base > memory_mb:
            raise EndedError(f"memory: more than {memory_mb} MB")
    data = b"".join(chunks)
    if not data:
        raise EndedError("died")
    result = pickle.loads(data)
    if isinstance(result, EndedError):
        raise result
    return data


def _resident_mb(pid: int) -> Any:
    try:
        text = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except OSError:
        return 0
    return next((int(x.split()[1]) // 1024 for x in text.splitlines() if x[:5] == "VmRSS"), 0)


def _busy_s(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run_file(
    work: Path, name: str, *, verified: bool, baselines: bool, most: int | None = None
) -> Any:
    """Do everything for one file and return its results as plain data."""
    source, target = place(work, name), ported_place(work, name)
    target.parent.mkdir(parents=True, exist_ok=True)
    result = {"file": name, "port": {}, "cases": []}
    try:
        result["port"] = forked(port, source, target, limit_s=PORT_LIMIT_S, memory_mb=2048)
    except EndedError as ended:
        result["port"] = {"error": str(ended), "lines": source.read_bytes().count(b"\n")}
        target.write_bytes(source.read_bytes())
    if result["port"]["error"] is None:
        classes = result["port"]["classes"]
        result["port"] |= forked(inspect, source, target, classes, limit_s=600)
    if verified:
        result["verified"] = forked(port_verified, source, target, limit_s=2 * VERIFY_LIMIT_S)
    try:
        result["cases"] = forked(
            judge_cases, source, target, baselines, most, limit_s=7200, memory_mb=1 << 20
        )
    except EndedError as ended:
        result["cases_error"] = str(ended)
    return result


def port(source: Path, target: Path) -> Any:
    """Port a file without verification, and measure text and time."""
    data = source.read_bytes()
    start_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    started = time.process_time()
    outcome, made = port_file(data, source, None)
    seconds = time.process_time() - started
    target.write_bytes(made)
    classes = [
        {
            "name": item.name,
            "status": item.status,
            "ops": [item.ops_in_graph, item.ops_total],
            "reasons": [[r.code, r.line, r.message] for r in item.reasons],
        }
        for item in outcome.classes
    ]
    return {
        "status": outcome.status,
        "error": None if outcome.error is None else outcome.error.message,
        "classes": classes,
        "seconds": seconds,
        "lines": data.count(b"\n"),
        "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024 - start_mb,
    }


def inspect(source: Path, target: Path, classes: list[dict[str, Any]]) -> Any:
    """Port the port again, and measure the text of a port."""
    data, made = source.read_bytes(), target.read_bytes()
    again, remade = port_file(made, source, None)
    before, after = data.decode("utf-8", "replace"), made.decode("utf-8", "replace")
    return {
        "idempotent": remade == made and again.error is None,
        "comments": shape.comments_of(before) == shape.comments_of(after)
        or _subset(before, after),
        "unexplained": [c["name"] for c in classes if c["status"] == "kept" and not c["reasons"]],
        "style": shape.style(
            before, after, [c["name"] for c in classes if c["status"] == "graph"]
        ),
    }


def _subset(before: str, after: str) -> Any:
    old, new = shape.comments_of(before), shape.comments_of(after)
    return sorted(old) == sorted(item for item in new if item in old)


def port_verified(source: Path, target: Path) -> Any:
    """Run `fdl port` as a user does, with verification; the port in place is its result.

    Its memory is that of its largest process: the tool's own, or one that runs user code.
    """
    argv = [
        sys.executable, "-m", "fdl_cli", "port", str(source), "-o", str(target), "--force", "--json",
        "--timeout", str(VERIFY_LIMIT_S - 60),
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    started = time.monotonic()
    root = Path(__file__).parents[2]
    try:
        done = subprocess.run(
            argv,
            capture_output=True,
            env=environment,
            timeout=VERIFY_LIMIT_S,
            cwd=root,
            check=False,
        )
        data = json.loads(done.stdout)["data"]["files"][0]
    except (subprocess.TimeoutExpired, ValueError, KeyError, IndexError, TypeError) as error:
        return {"error": f"{type(error).__name__}: {error}"[:300]}
    classes = {
        item["name"]: {
            "status": item["status"],
            "verify": item["verify"]["status"],
            "detail": item["verify"]["detail"],
            "reasons": [[r["code"], r["line"], r["message"]] for r in item["reasons"]],
        }
        for item in data["classes"]
    }
    return {
        "exit": done.returncode,
        "classes": classes,
        "seconds": time.monotonic() - started,
        "memory_mb": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024,
    }


def judge_cases(source: Path, target: Path, baselines: bool, most: int | None = None) -> Any:
    """Import original and port, then judge every case in a process of its own."""
    from benchmarks.parity import captures
    from benchmarks.parity import case as protocol

    os.chdir(source.parent)
    try:
        original = forked_import_check(source, "original")
    except EndedError as ended:
        return [{"class": "", "status": "no-import", "why": str(ended)}]
    classes = shape.classes_of(ast.parse(source.read_bytes()))
    try:
        ported = forked_import_check(target, "ported")
    except EndedError as ended:
        return [{"class": "", "status": "port-no-import", "why": str(ended)}]
    found = []
    cases = list(enumerate(getattr(original, "TESTCASES", ())))
    if most is not None and most < len(cases):
        cases = sorted(random.Random(source.name).sample(cases, most), key=lambda pair: pair[0])
    for index, entry in cases:
        name = entry[0].__name__
        if entry[0].__module__ != original.__name__:
            # The end of a file imports names of torch over its own classes.
            continue
        tier = shape.tier_of(classes, name)
        item = {"class": name, "index": index, "tier": tier}
        item |= _limited(_ours, protocol, original, ported, index)
        if item["status"] == "ended":
            alone = _limited(_original, protocol, original, index)
            item["status"] = "unusable" if alone["status"] == "ended" else "ended"
        if baselines and item["status"] in {"run", "ended"}:
            for label, judge in (("fx", captures.judge_fx), ("export", captures.judge_export)):
                item[label] = _limited(_baseline, protocol, original, judge, index)
        found.append(item)
    return found


def forked_import_check(path: Path, name: str) -> Any:
    """Import a file: first in a process that may die or hang, then here."""
    forked(load, path, name, True, limit_s=IMPORT_LIMIT_S)
    return load(path, name)


def load(path: Path, name: str, only_try: bool = False) -> Any:
    """Import a file under a name; its folder stands first on the path meanwhile."""
    sys.path.insert(0, str(path.parent))
    helpers = path.with_name("_paritybench_helpers.py")
    if helpers.is_file() and "_paritybench_helpers" not in sys.modules:
        load_as(helpers, "_paritybench_helpers")
    try:
        module = load_as(path, name)
    finally:
        sys.path.remove(str(path.parent))
    return None if only_try else module


def load_as(path: Path, name: str) -> Any:
    """Execute a file as a module."""
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spec.loader.exec_module(module)
    return module


def _limited(function: Any, *arguments: Any) -> Any:
    try:
        return forked(function, *arguments, limit_s=CASE_LIMIT_S)
    except EndedError as ended:
        return {"status": "ended", "why": str(ended)}


def _ours(protocol: ModuleType, original: ModuleType, ported: ModuleType, index: int) -> Any:
    try:
        case = protocol.Case(original, index)
    except protocol.UnusableError as unusable:
        return {"status": "unusable", "why": str(unusable)}
    checks, kinds = protocol.judge_ours(case, ported)
    return {"status": "run", "checks": checks, **kinds}


def _original(protocol: ModuleType, original: ModuleType, index: int) -> Any:
    protocol.Case(original, index)
    return {"status": "run"}


def _baseline(protocol: ModuleType, original: ModuleType, judge: Any, index: int) -> Any:
    return {"status": "run", "checks": judge(protocol.Case(original, index))}
