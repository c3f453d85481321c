"""The glossary: unique, sorted, short entries, and words that the project uses elsewhere."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
GLOSSARY = ROOT / "docs" / "reference" / "glossary.md"
MOST_WORDS = 25
_ROW = re.compile(r"^\| \*\*(.+?)\*\*(?:, (.+?))? \| (.+) \|$")
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def entries():
    """Return (word, qualifier, definition) of each row below the head of the table."""
    lines = GLOSSARY.read_text(encoding="utf-8").splitlines()
    rows = [line for line in lines if line.startswith("|")][2:]
    found = [_ROW.fullmatch(row) for row in rows]
    assert [row for row, match in zip(rows, found, strict=True) if match is None] == []
    return [(match[1], match[2] or "", match[3]) for match in found if match]


def docstrings():
    for package in ("fdl_cli", "flodl", "flodl_verify"):
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, _DOCUMENTED):
                    yield ast.get_docstring(node) or ""


def other_texts():
    documents = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    texts = [path.read_text(encoding="utf-8") for path in documents if path != GLOSSARY]
    return " ".join(" ".join([*texts, *docstrings()]).lower().split())


def is_used(word, texts):
    # A plural is a use, and so are the bare words `kept` and `partial` of the reports.
    stem = word.lower().removesuffix(" class")
    return re.search(rf"(?<![\w-]){re.escape(stem)}(s|es)?(?![\w-])", texts) is not None


def test_glossary_entries_are_unique_and_sorted():
    keys = [(word.lower(), qualifier) for word, qualifier, _ in entries()]
    assert len(keys) > 40
    assert keys == sorted(set(keys))


def test_glossary_definitions_are_short_sentences():
    definitions = {word: text for word, _, text in entries()}
    assert [w for w, text in definitions.items() if len(text.split()) > MOST_WORDS] == []
    assert [w for w, text in definitions.items() if not re.match(r"[A-Z].*\.$", text)] == []


def test_glossary_words_occur_in_another_document_or_docstring():
    texts = other_texts()
    assert not is_used("plan cashe", texts)
    assert [word for word, _, _ in entries() if not is_used(word, texts)] == []
