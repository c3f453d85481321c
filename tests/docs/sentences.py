"""Checks of the sentences in documents by the rules of `vale`: their length, and words to write otherwise.

`vale README.md CHANGELOG.md docs` reads the same rules, by `.vale.ini`; here they hold without that program.
"""

import re

import yaml

from tests.docs.reading import ROOT, documents, name_of, read

RULES = ROOT / "docs" / "_build" / "vale" / "flodl"
LONGEST, ADVISED = (
    yaml.safe_load(read(RULES / f"{name}.yml"))["max"] for name in ("Longest", "Advised")
)
BETTER = yaml.safe_load(read(RULES / "Words.yml"))["swap"]
BLOCKS = re.compile(r"(?s)```.*?```|<!--.*?-->")
# A paragraph ends at an empty line, a new point of a list, a row of a table, or a heading.
ENDS = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )|\n(?=\|)|\n(?=#)")
FULL_STOP = re.compile(r"(?<=[.!?])\s+(?=\S)")


def sentences(text):
    """Yield the sentences of a document; a link counts with its words, and a code span as one.

    Example:
        >>> list(sentences("# Title\\n\\nSee [the page](a.md). Run `fdl port x`.\\n\\n| a | b |\\n"))
        ['See the page.', 'Run code.']
    """
    for paragraph in ENDS.split(BLOCKS.sub("\n\n", text)):
        if paragraph.lstrip().startswith(("|", "#", "![", "<")):
            continue
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", paragraph)
        words = " ".join(re.sub(r"`[^`]*`", "code", words).split())
        yield from filter(None, FULL_STOP.split(words))


def long_sentences(root):
    """Find sentences of more than 40 words; lists of names, and clauses after a colon, count as well."""
    return [
        f"{name_of(root, path)}: {len(sentence.split())} words: {sentence[:80]}"
        for path in documents(root)
        for sentence in sentences(read(path))
        if len(sentence.split()) > LONGEST
    ]


def discouraged_words(root):
    """Find words for which the rules have better ones."""
    return [
        f"{name_of(root, path)}: write '{better}' instead of '{word}': {sentence[:80]}"
        for path in documents(root)
        for sentence in sentences(read(path))
        for word, better in BETTER.items()
        if re.search(rf"\b{word}\b", sentence, re.IGNORECASE)
    ]


def share_of_longer_sentences(root):
    """Return the share of sentences that have more words than advised."""
    lengths = [len(each.split()) for path in documents(root) for each in sentences(read(path))]
    return sum(each > ADVISED for each in lengths) / len(lengths)
