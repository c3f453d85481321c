"""Protocol between shells and `fdl`: words in, one candidate per line out."""

from collections.abc import Sequence
from typing import Final, NamedTuple, final

from fdl_cli.completion.engine import Completion

ASK: Final = "__complete"
# A first line that is no candidate: the shell adds its own file names.
FILES: Final = ":files"


@final
class Question(NamedTuple):
    """The finished words after `fdl`, and the word under the cursor."""

    words: tuple[str, ...]
    current: str


def read_question(shell: str, words: Sequence[str]) -> Question:
    """Read a shell's request: all words after `fdl`, the last one under the cursor.

    bash cuts words at `=` and `:`, so `--color=auto` arrives as three; they are joined again.
    PowerShell before 7.3 drops an empty word, so its script sends two quotes; later versions hand
    them over as they are.
    """
    parts = list(words) or [""]
    if shell == "bash":
        parts = _joined(parts)
    if shell == "powershell" and parts[-1] == '""':
        parts[-1] = ""
    return Question(tuple(parts[:-1]), parts[-1])


def answer_text(shell: str, completion: Completion) -> str:
    """Return the answer: candidates with a tab before their summary, `:files` first if wanted."""
    lines = [FILES] if completion.files else []
    prefix = completion.prefix
    if shell == "bash":
        # bash replaces only the text after the last `=`.
        prefix = ""
    for item in completion.candidates:
        value = f"{prefix}{item.value}"
        summary = " ".join(item.summary.split())
        lines.append(value if shell == "bash" or not summary else f"{value}\t{summary}")
    return "\n".join(lines)


def _joined(parts: list[str]) -> list[str]:
    joined: list[str] = []
    glue = False
    for part in parts:
        if glue and joined:
            joined[-1] += part
            glue = False
        elif part == "=" and joined and joined[-1].startswith("--"):
            joined[-1] += part
            glue = True
        else:
            joined.append(part)
    return joined
