"""Stand-ins for data sets of the Hugging Face hub: columns of noise with the known names."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, Final, final

import torch

from flodl_verify.stubs.datasets import Image
from flodl_verify.stubs.texts import sentences

NUM_ROWS = 128
_TEXT: Final = "text"
# The columns of known data sets: `text`, `image`, or a number of classes.
_KNOWN: Final[dict[str, dict[str, str | int]]] = {
    "imdb": {"text": _TEXT, "label": 2},
    "ag_news": {"text": _TEXT, "label": 4},
    "rotten_tomatoes": {"text": _TEXT, "label": 2},
    "yelp_polarity": {"text": _TEXT, "label": 2},
    "yelp_review_full": {"text": _TEXT, "label": 5},
    "emotion": {"text": _TEXT, "label": 6},
    "wikitext": {"text": _TEXT},
    "tiny_shakespeare": {"text": _TEXT},
    "mnist": {"image": "1x28", "label": 10},
    "fashion_mnist": {"image": "1x28", "label": 10},
    "cifar10": {"img": "3x32", "label": 10},
    "glue/cola": {"sentence": _TEXT, "label": 2, "idx": NUM_ROWS},
    "glue/sst2": {"sentence": _TEXT, "label": 2, "idx": NUM_ROWS},
    "glue/mrpc": {"sentence1": _TEXT, "sentence2": _TEXT, "label": 2, "idx": NUM_ROWS},
    "glue/rte": {"sentence1": _TEXT, "sentence2": _TEXT, "label": 2, "idx": NUM_ROWS},
    "glue/qqp": {"question1": _TEXT, "question2": _TEXT, "label": 2, "idx": NUM_ROWS},
    "glue/qnli": {"question": _TEXT, "sentence": _TEXT, "label": 2, "idx": NUM_ROWS},
    "glue/mnli": {"premise": _TEXT, "hypothesis": _TEXT, "label": 3, "idx": NUM_ROWS},
}
_SPLITS: Final = ("train", "validation", "test")
Columns = dict[str, list[Any]]


@final
class ClassLabel:
    """The names of labels."""

    def __init__(self, num_classes: int) -> None:
        self.num_classes = num_classes
        self.names = [str(number) for number in range(num_classes)]


@final
class HubDataset:
    """Columns of equal length; rows are tables, as those of `datasets.Dataset`."""

    def __init__(self, columns: Columns, classes: Mapping[str, int]) -> None:
        self._columns = columns
        self._classes = dict(classes)
        self._tensors: tuple[str, ...] = ()

    @property
    def column_names(self) -> list[str]:
        """The names of the columns."""
        return list(self._columns)

    @property
    def features(self) -> dict[str, Any]:
        """The known facts about the columns."""
        known = self._classes
        return {name: ClassLabel(known[name]) if name in known else None for name in self._columns}

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return len(next(iter(self._columns.values()), []))

    def __len__(self) -> int:
        return self.num_rows

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return self._shown(key, self._columns[key])
        if isinstance(key, int):
            if not -len(self) <= key < len(self):
                raise IndexError(key)
            return {name: self._value(name, self._columns[name][key]) for name in self._visible()}
        picked = self.select(range(len(self))[key] if isinstance(key, slice) else key)
        return {name: picked[name] for name in self._visible()}

    def __iter__(self) -> Iterator[Any]:
        return (self[n] for n in range(len(self)))

    def select(self, indices: Any) -> HubDataset:
        """Return some rows."""
        places = [int(n) for n in indices]
        return self._with(
            {name: [held[n] for n in places] for name, held in self._columns.items()}
        )

    def shuffle(self, seed: int | None = None, **_: Any) -> HubDataset:
        """Return the rows in another order."""
        places = list(range(len(self)))
        random.Random(0 if seed is None else seed).shuffle(places)
        return self.select(places)

    def filter(self, keep: Callable[[Any], Any], **_: Any) -> HubDataset:
        """Return the rows that a function accepts."""
        return self.select([n for n in range(len(self)) if keep(self[n])])

    def map(
        self,
        make: Callable[..., Any],
        batched: bool = False,
        remove_columns: Any = (),
        batch_size: int = 1000,
        **_: Any,
    ) -> HubDataset:
        """Return the rows with what a function makes of them."""
        made: Columns = {}
        if batched:
            for start in range(0, len(self), batch_size):
                for name, values in dict(make(self[start : start + batch_size])).items():
                    made.setdefault(name, []).extend(values)
        else:
            for row in self:
                for name, value in dict(make(row)).items():
                    made.setdefault(name, []).append(value)
        gone = _listed(remove_columns)
        kept = {name: held for name, held in self._columns.items() if name not in gone}
        return self._with({**kept, **made})

    def train_test_split(self, test_size: float = 0.25, **_: Any) -> DatasetDict:
        """Return two parts."""
        count = int(test_size) if test_size >= 1 else int(len(self) * test_size)
        border = len(self) - count
        parts = {"train": range(border), "test": range(border, len(self))}
        return DatasetDict({name: self.select(places) for name, places in parts.items()})

    def remove_columns(self, names: Any) -> HubDataset:
        """Return the rows without some columns."""
        gone = _listed(names)
        return self._with({name: x for name, x in self._columns.items() if name not in gone})

    def rename_column(self, old: str, new: str) -> HubDataset:
        """Return the rows with another name for a column."""
        return self._with({new if name == old else name: x for name, x in self._columns.items()})

    def set_format(self, type: str | None = None, columns: Any = None, **_: Any) -> None:  # noqa: A002
        """Let rows hold tensors."""
        chosen = self._columns if columns is None else columns
        self._tensors = tuple(chosen) if type in {"torch", "pt"} else ()

    def with_format(self, type: str | None = None, columns: Any = None, **_: Any) -> HubDataset:  # noqa: A002
        """Return the rows with tensors in them."""
        made = self._with(self._columns)
        made.set_format(type, columns)
        return made

    def _visible(self) -> Sequence[str]:
        return self._tensors or tuple(self._columns)

    def _value(self, name: str, value: Any) -> Any:
        numbers = isinstance(value, int | float) or (
            isinstance(value, list) and all(isinstance(each, int | float) for each in value)
        )
        return torch.tensor(value) if name in self._tensors and numbers else value

    def _shown(self, name: str, values: list[Any]) -> Any:
        found = [self._value(name, value) for value in values]
        same = (
            all(isinstance(each, torch.Tensor) for each in found)
            and len({x.shape for x in found}) == 1
        )
        return torch.stack(found) if found and same else found

    def _with(self, columns: Columns) -> HubDataset:
        made = HubDataset(columns, self._classes)
        made._tensors = tuple(name for name in self._tensors if name in columns)
        return made


@final
class DatasetDict(dict[str, HubDataset]):
    """The parts of a data set by name; its methods apply to each part."""

    def __getattr__(self, name: str) -> Any:
        if name not in {
            "map",
            "filter",
            "shuffle",
            "remove_columns",
            "rename_column",
            "with_format",
        }:
            raise AttributeError(name)

        def each(*args: Any, **kwargs: Any) -> DatasetDict:
            return DatasetDict(
                {key: vars(HubDataset)[name](x, *args, **kwargs) for key, x in self.items()}
            )

        return each

    def set_format(self, *args: Any, **kwargs: Any) -> None:
        """Let the rows of all parts hold tensors."""
        for part in self.values():
            part.set_format(*args, **kwargs)

    @property
    def column_names(self) -> dict[str, list[str]]:
        """The names of the columns by part."""
        return {name: part.column_names for name, part in self.items()}


def load_dataset(
    path: str, name: str | None = None, *_: Any, split: str | None = None, **__: Any
) -> Any:
    """Return the stand-in for a data set of the hub.

    Raises:
        FileNotFoundError: its columns are not known here.
    """
    short = path.rpartition("/")[2]
    columns = _KNOWN.get(f"{short}/{name}") or _KNOWN.get(short)
    if columns is None:
        raise FileNotFoundError(f"there is no stand-in for the data set `{path}` of the hub")
    if split is not None and "+" not in split:
        return _made(columns).select(_places(split))
    return DatasetDict({part: _made(columns) for part in _SPLITS})


def _places(split: str) -> range:
    """Return the rows of `train[:10%]` or `train[5:20]`."""
    _, _, inside = split.partition("[")
    low, _, high = inside.rstrip("]").partition(":")
    return range(NUM_ROWS)[slice(_place(low), _place(high))]


def _place(text: str) -> int | None:
    if not text:
        return None
    return int(text[:-1]) * NUM_ROWS // 100 if text.endswith("%") else int(text)


def _made(columns: Mapping[str, str | int]) -> HubDataset:
    made: Columns = {}
    for offset, (name, kind) in enumerate(columns.items()):
        if kind == _TEXT:
            texts = sentences(NUM_ROWS)
            made[name] = texts[offset:] + texts[:offset]
        elif isinstance(kind, int):
            made[name] = [n if name == "idx" else n * 7919 % kind for n in range(NUM_ROWS)]
        else:
            made[name] = [_image(kind, n) for n in range(NUM_ROWS)]
    classes = {
        name: kind for name, kind in columns.items() if isinstance(kind, int) and name != "idx"
    }
    return HubDataset(made, classes)


def _image(kind: str, number: int) -> Any:
    channels, _, size = kind.partition("x")
    generator = torch.Generator().manual_seed(number)
    shape = (int(size), int(size), int(channels))
    return Image(torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8))


def _listed(names: Any) -> list[str]:
    return [names] if isinstance(names, str) else list(names or ())


def make_hub_module(name: str) -> ModuleType:
    """Return the stand-in for `datasets`; it lacks unknown names."""
    module = ModuleType(name)
    module.__path__ = []
    if name == "datasets":
        known = {"load_dataset": load_dataset, "Dataset": HubDataset, "DatasetDict": DatasetDict}
        vars(module).update(known)
    return module
