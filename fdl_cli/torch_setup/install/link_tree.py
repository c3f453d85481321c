"""Links to the files of a build in a folder: hard links, programs, and a RECORD of them."""

import csv
import io
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final, final

from fdl_cli.errors import OperationFailedError
from fdl_cli.torch_setup.install.builds import KeptBuild
from fdl_cli.torch_setup.install.wheel_tree import Dist, packages_folder, place_of, scripts_folder

# Parts of a path that do not name an entry.
_ODD: Final = frozenset({"", ".", ".."})


@final
class Linker:
    """Fills a fresh folder, shaped like an environment, with distributions of one build.

    Files are shared with the build by hard links where the disk allows it. A RECORD is written
    again, so that pip and uv can remove the distribution like any other. Paths are plain text
    with `/` here: a build has ten thousand files, and path objects cost three times the links.
    """

    def __init__(self, build: KeptBuild, target: Path, interpreter: Path) -> None:
        self._build = build
        self._target = target
        self._interpreter = interpreter
        self._site = packages_folder(build.python)
        self._made: set[str] = set()
        self._compiled: dict[str, dict[str, str]] = {}

    def link(self, dists: tuple[Dist, ...]) -> None:
        """Put all files of the distributions in place."""
        for dist in dists:
            rows = self._read_record(dist)
            self._require_known(dist, rows)
            outside = [*self._link_files(rows), *self._write_programs(dist)]
            requested = dist.name.lower() == "torch"
            self._write_record(dist, rows, outside, requested=requested)

    def _read_record(self, dist: Dist) -> list[list[str]]:
        record = self._build.tree / self._site / dist.info / "RECORD"
        with record.open(encoding="utf-8", newline="") as file:
            rows = [row for row in csv.reader(file) if row]
        own = {f"{dist.info}/{name}" for name in ("RECORD", "INSTALLER", "REQUESTED")}
        return [row for row in rows if row[0] not in own]

    def _require_known(self, dist: Dist, rows: list[list[str]]) -> None:
        """Refuse a RECORD that names a file outside, or one that the wheel does not have."""
        tree = self._build.tree.as_posix()
        for name, *_ in rows:
            try:
                known = os.path.isfile(f"{tree}/{self._place(name)}")  # noqa: PTH113 - ten thousand files
            except ValueError:
                known = False
            if not known:
                raise OperationFailedError(
                    error_id="wheel-broken",
                    message=f"the RECORD of {dist.name} names `{name}`, which is no file of its wheel",
                    hint="the wheel is damaged or was made by hand; use another one",
                )

    def _link_files(self, rows: list[list[str]]) -> Iterator[str]:
        """Link the files that a RECORD names; yield the new names of those outside of site-packages."""
        programs = scripts_folder().name
        tree, target_root = self._build.tree.as_posix(), self._target.as_posix()
        for row in rows:
            place = self._place(row[0])
            source, target = f"{tree}/{place}", f"{target_root}/{place}"
            self._make_folder(target.rpartition("/")[0])
            if place.startswith(f"{programs}/"):
                self._copy_program(Path(source), Path(target))
            else:
                _link(source, target)
            if row[0].partition("/")[0].endswith(".data"):
                yield self._relative(place)
            if source.endswith(".py"):
                yield from self._link_compiled(source, place)

    def _place(self, name: str) -> str:
        parts = name.split("/")
        if parts[0].endswith(".data") or "\\" in name or not _ODD.isdisjoint(parts):
            return str(place_of(name, self._build.python))
        return f"{self._site}/{name}"

    def _link_compiled(self, source: str, place: str) -> Iterator[str]:
        """Link the compiled form that the proof left: it makes the first import fast."""
        folder, _, name = source.rpartition("/")
        if folder not in self._compiled:
            names = (path.name for path in Path(folder, "__pycache__").glob("*.pyc"))
            self._compiled[folder] = {found.partition(".")[0]: found for found in names}
        cached = self._compiled[folder].get(name.removesuffix(".py"))
        if cached is not None:
            beside = f"{place.rpartition('/')[0]}/__pycache__"
            self._make_folder(f"{self._target}/{beside}")
            _link(f"{folder}/__pycache__/{cached}", f"{self._target}/{beside}/{cached}")
            yield self._relative(f"{beside}/{cached}")

    def _copy_program(self, source: Path, target: Path) -> None:
        content = source.read_bytes()
        if content.startswith(b"#!python"):
            _, _, rest = content.partition(b"\n")
            content = f"#!{self._interpreter}\n".encode() + rest
        target.write_bytes(content)
        target.chmod(0o755)

    def _write_programs(self, dist: Dist) -> Iterator[str]:
        for name, entry in dist.scripts:
            module, _, function = entry.partition("[")[0].strip().partition(":")
            place = scripts_folder() / name
            path = self._target / place
            self._make_folder(str(path.parent))
            path.write_text(
                f"#!{self._interpreter}\nimport sys\n\n"
                f"from {module} import {function.partition('.')[0]}\n\n"
                f'if __name__ == "__main__":\n    sys.exit({function}())\n',
                encoding="utf-8",
            )
            path.chmod(0o755)
            yield self._relative(str(place))

    def _write_record(
        self, dist: Dist, rows: list[list[str]], outside: list[str], *, requested: bool
    ) -> None:
        info = self._target / self._site / dist.info
        self._make_folder(str(info))
        (info / "INSTALLER").write_text("fdl\n", encoding="utf-8")
        names = ["INSTALLER", "RECORD"]
        if requested:
            # By this empty file pip tells requested distributions from dependencies.
            (info / "REQUESTED").touch()
            names.append("REQUESTED")
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerows(row for row in rows if ".data/" not in row[0])
        writer.writerows([name, "", ""] for name in outside)
        writer.writerows([f"{dist.info}/{name}", "", ""] for name in names)
        (info / "RECORD").write_text(text.getvalue(), encoding="utf-8")

    def _make_folder(self, folder: str) -> None:
        if folder not in self._made:
            Path(folder).mkdir(parents=True, exist_ok=True)
            self._made.add(folder)

    def _relative(self, place: str) -> str:
        return os.path.relpath(f"/{place}", f"/{self._site}")


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        # Another disk, or a file system without links.
        shutil.copy2(source, target)
