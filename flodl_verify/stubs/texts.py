"""Stand-ins for torchtext: labelled sentences, lines of text, tokenizers and vocabularies."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any, Final, final

from flodl_verify.stubs.tables import plain_text

NUM_TEXTS = 240
# The number of labels, the first of them, and whether the label comes first.
_LABELLED: Final = {
    "AG_NEWS": (4, 1), "SogouNews": (5, 1), "DBpedia": (14, 1), "YelpReviewPolarity": (2, 1),
    "YelpReviewFull": (5, 1), "YahooAnswers": (10, 1), "AmazonReviewPolarity": (2, 1),
    "AmazonReviewFull": (5, 1), "IMDB": (2, 1),
}  # fmt: skip
_LINES: Final = ("WikiText2", "WikiText103", "PennTreebank")
_WORD = re.compile(r"[a-z0-9']+|[.,!?]")


def sentences(count: int = NUM_TEXTS) -> list[str]:
    """Return different sentences, the same in every run."""
    return plain_text(count).splitlines()


def labelled(classes: int, first: int) -> list[tuple[int, str]]:
    """Return sentences with labels."""
    return [(first + n * 7919 % classes, text) for n, text in enumerate(sentences())]


def _data_set(items: Sequence[Any], splits: tuple[str, ...]) -> Callable[..., Any]:
    def load(*args: Any, split: Any = splits, **_: Any) -> Any:
        wanted = next((item for item in args if item in splits or isinstance(item, tuple)), split)
        if isinstance(wanted, str):
            return list(items)
        return tuple(list(items) for _ in wanted)

    return load


def basic_english(text: str) -> list[str]:
    """Split a text into lower-case words and signs."""
    return _WORD.findall(text.lower())


def get_tokenizer(tokenizer: Any, language: str = "en") -> Any:
    """Return a function that splits texts; a function is its own tokenizer."""
    del language
    if callable(tokenizer):
        return tokenizer
    return str.split if tokenizer is None else basic_english


@final
class Vocab:
    """Numbers for words."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = list(words)
        self._numbers = {word: number for number, word in enumerate(self._words)}
        self._default: int | None = None

    def set_default_index(self, index: int | None) -> None:
        """Return the number of unknown words."""
        self._default = index

    def __getitem__(self, word: str) -> int:
        found = self._numbers.get(word, self._default)
        if found is None:
            raise RuntimeError(f"Token {word} not found and default index is not set")
        return found

    def __call__(self, words: Iterable[str]) -> list[int]:
        """Return the numbers of words."""
        return [self[word] for word in words]

    lookup_indices = forward = __call__

    def __len__(self) -> int:
        return len(self._words)

    def __contains__(self, word: str) -> bool:
        return word in self._numbers

    def get_stoi(self) -> dict[str, int]:
        """Return all numbers by word."""
        return dict(self._numbers)

    def get_itos(self) -> list[str]:
        """Return all words."""
        return list(self._words)

    def lookup_token(self, number: int) -> str:
        """Return a word."""
        return self._words[number]

    def lookup_tokens(self, numbers: Iterable[int]) -> list[str]:
        """Return words."""
        return [self._words[number] for number in numbers]


def build_vocab_from_iterator(
    iterator: Iterable[Iterable[str]],
    min_freq: int = 1,
    specials: Sequence[str] | None = None,
    special_first: bool = True,
    max_tokens: int | None = None,
) -> Vocab:
    """Number the words of an iterable, frequent ones first."""
    counts = Counter(word for words in iterator for word in words)
    special = list(specials or ())
    kept = [word for word, n in counts.items() if n >= min_freq and word not in special]
    kept.sort(key=lambda word: (-counts[word], word))
    kept = kept if max_tokens is None else kept[: max_tokens - len(special)]
    return Vocab([*special, *kept] if special_first else [*kept, *special])


def ngrams_iterator(words: Sequence[str], ngrams: int) -> Iterator[str]:
    """Yield words and what several of them in a row make."""
    for length in range(1, ngrams + 1):
        for start in range(len(words) - length + 1):
            yield " ".join(words[start : start + length])


def make_text_module(name: str) -> ModuleType:
    """Return the stand-in for a module of torchtext; it lacks unknown names."""
    module = ModuleType(name)
    module.__path__ = []
    vars(module).update(_MEMBERS.get(name, {}))
    return module


_MEMBERS: Final[dict[str, dict[str, Any]]] = {
    "torchtext": {"__version__": "0.18.0", "disable_torchtext_deprecation_warning": lambda: None},
    "torchtext.datasets": {
        **{
            name: _data_set(labelled(classes, first), ("train", "test"))
            for name, (classes, first) in _LABELLED.items()
        },
        **{
            name: _data_set([f" {text} \n" for text in sentences()], ("train", "valid", "test"))
            for name in _LINES
        },
    },
    "torchtext.data.utils": {"get_tokenizer": get_tokenizer, "ngrams_iterator": ngrams_iterator},
    "torchtext.data": {"get_tokenizer": get_tokenizer},
    "torchtext.data.functional": {"to_map_style_dataset": list},
    "torchtext.vocab": {"build_vocab_from_iterator": build_vocab_from_iterator, "Vocab": Vocab},
}
