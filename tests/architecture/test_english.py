"""The wording of docstrings, comments and documents keeps to the field's: few private words per 10,000."""

import ast
import io
import re
import tokenize

import pytest

# The rate per 10,000 words that a phrase may have; well-kept code bases of the field have a tenth of most.
MOST = {
    r"(?:^|[.:;|]\s+)[Ww]hat (?!if|about|is the)": 4.0,
    r"\bSay whether\b": 0.0,
    r"\bask(?:s|ed)\b": 3.0,
    r"\bstands?\b(?! for|ard|alone|-in)": 1.5,
    r"\bof (?:its|their|his|one's) own\b": 1.5,
    r"\b(?:nobody|somebody|no one)\b": 1.5,
    r"\bgo(?:es)? on\b": 1.0,
    r"\banew\b": 0.3,
    r"\bhand(?:ed|s)\b": 1.0,
    r"\b(?:is|was|be|are) said\b": 0.3,
}
LEAST = {r"\btrac(?:e|es|ed|er|ers|ing)\b": 8.0, r"\bguards?\b": 5.0}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def rate(pattern, texts):
    words = sum(len(text.split()) for text in texts)
    return 1e4 * sum(len(re.findall(pattern, text, re.MULTILINE)) for text in texts) / words


def prose_of(source):
    """Yield the docstrings of a module, without their examples, and its comments."""
    for node in source.nodes:
        if isinstance(node, DOCUMENTED) and (text := ast.get_docstring(node)):
            yield re.sub(r"(?s)>>>.*?(\n\n|$)", "", text)
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        if token.type == tokenize.COMMENT:
            yield token.string.lstrip("# ")


@pytest.fixture(scope="module")
def prose(sources):
    return [text for source in sources for text in prose_of(source)]


@pytest.fixture(scope="module")
def prose_of_the_runtime(sources):
    runtime = [source for source in sources if source.name.partition(".")[0] == "flodl"]
    return [text for source in runtime for text in prose_of(source)]


@pytest.fixture(scope="module")
def documents(root):
    pages = [*sorted((root / "docs").rglob("*.md")), root / "README.md", root / "CHANGELOG.md"]
    return [re.sub(r"(?s)```.*?```", "", page.read_text(encoding="utf-8")) for page in pages]


@pytest.mark.parametrize("pattern", MOST)
def test_private_phrase_in_docstrings_and_comments_is_rare(prose, pattern):
    assert rate(pattern, prose) <= MOST[pattern]


@pytest.mark.parametrize("pattern", MOST)
def test_private_phrase_in_documents_is_rare(documents, pattern):
    assert rate(pattern, documents) <= MOST[pattern]


@pytest.mark.parametrize("pattern", LEAST)
def test_word_of_the_field_in_the_runtime_is_common(prose_of_the_runtime, pattern):
    assert rate(pattern, prose_of_the_runtime) >= LEAST[pattern]


def test_modules_open_with_noun_phrases(sources):
    opening = re.compile(r"(What|Where|When|Who|How|Which)\b")
    wrong = [
        source.path for source in sources if opening.match(ast.get_docstring(source.tree) or "")
    ]
    assert wrong == []
