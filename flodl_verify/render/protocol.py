"""Protocol between `fdl graph` and its child process: a JSON file each for request and answer.

`fdl graph` imports this module, so it needs no torch.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, final

Heat = Literal["none", "time", "backward", "memory"]
Direction = Literal["down", "right"]
Weights = Literal["none", "small", "all"]
Printed = Literal["text", "summary", "values", "sizes", "rows", "facts", "diff", "changes"]
Format = Literal["svg", "html", "dot", "mermaid"] | Printed


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One model to draw.

    Attributes:
        file: the Python file, absolute.
        name: a class, or a value, of the file; empty to list its models.
        example: `MODEL: ARGUMENTS` in Python, empty for none.
        formats: the formats to draw; `sizes` is the summary of the values, `rows` the whole one as JSON.
        heat: the measure that the colours show.
        depth: the levels of nested graphs that are open.
        fold: whether repeated blocks are drawn once; `None` leaves it to the size.
        direction: the way from inputs to outputs.
        weights: the tensors whose values a page holds.
        before: the facts of the model to compare with, as the format `facts` gives them; empty for none.
    """

    file: Path
    name: str
    example: str
    formats: tuple[Format, ...]
    heat: Heat
    depth: int
    fold: bool | None
    direction: Direction
    weights: Weights = "small"
    before: str = ""


@final
@dataclass(frozen=True, slots=True)
class ModelRow:
    """A model of a file: its name there, what it is, and the line of its class, 0 for none."""

    name: str
    kind: str
    line: int


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """The pictures, by format, or the models of the file, or why there is neither.

    `line` is a line of the user's file.
    """

    title: str = ""
    example: str = ""
    nodes: int = 0
    parameters: int = 0
    pictures: tuple[tuple[Format, str], ...] = ()
    models: tuple[ModelRow, ...] = ()
    error_id: str = ""
    message: str = ""
    hint: str = ""
    line: int = 0


@final
class RenderError(Exception):
    """The model cannot be drawn, for a reason that the user can do something about."""

    def __init__(self, error_id: str, message: str, hint: str, line: int = 0) -> None:
        super().__init__(message)
        self.error_id = error_id
        self.message = message
        self.hint = hint
        self.line = line


def read_request(path: Path) -> Request:
    """Read the request file."""
    fields = json.loads(path.read_text(encoding="utf-8"))
    return Request(
        file=Path(fields["file"]),
        name=fields["name"],
        example=fields["example"],
        formats=tuple(fields["formats"]),
        heat=fields["heat"],
        depth=fields["depth"],
        fold=fields["fold"],
        direction=fields["direction"],
        weights=fields["weights"],
        before=fields["before"],
    )


def write_request(path: Path, request: Request) -> None:
    """Write the request file."""
    path.write_text(json.dumps({**asdict(request), "file": str(request.file)}), encoding="utf-8")


def read_response(path: Path) -> Response:
    """Read the response file."""
    fields = json.loads(path.read_text(encoding="utf-8"))
    pictures = tuple((form, text) for form, text in fields.pop("pictures"))
    models = tuple(ModelRow(**row) for row in fields.pop("models"))
    return Response(**fields, pictures=pictures, models=models)


def write_response(path: Path, response: Response) -> None:
    """Write the response file."""
    path.write_text(json.dumps(asdict(response)), encoding="utf-8")
