"""Values that a project gives to the arguments of a class: in settings, files and calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from flodl_verify.sources.called_arguments import called_arguments
from flodl_verify.sources.declared_settings import known_settings
from flodl_verify.sources.written_settings import written_arguments


@final
@dataclass(frozen=True, slots=True)
class ProjectValues:
    """Where the values of one file's classes are looked for.

    Attributes:
        file: the file; `None` where no project is known.
        folders: those of its project.
    """

    file: Path | None = None
    folders: tuple[Path, ...] = ()

    def settings(self, names: frozenset[str]) -> Sequence[dict[str, object]]:
        """Return settings of command lines and files that know names, the likeliest first."""
        return () if self.file is None else known_settings(self.file, self.folders, names)

    def arguments(
        self, required: frozenset[str], known: frozenset[str]
    ) -> Sequence[dict[str, object]]:
        """Return arguments in files, which have all required ones."""
        if self.file is None:
            return ()
        return written_arguments(self.file, self.folders, required, known)

    def called(self, name: str, parameters: Sequence[str]) -> Sequence[dict[str, object]]:
        """Return what is known of the arguments of calls of a class."""
        return (
            ()
            if self.file is None
            else called_arguments(self.file, self.folders, name, parameters)
        )
