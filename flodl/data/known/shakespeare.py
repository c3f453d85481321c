"""Shakespeare, or any other text, as windows of characters for a language model."""

from __future__ import annotations

from pathlib import Path
from typing import Final, final

import torch
from torch import Tensor

from flodl.data.arguments import require_at_least
from flodl.data.known.folders import find_files, read_bytes
from flodl.data.known.windows import windows_in, windows_of
from flodl.errors import DataError

_NAMES: Final = ("input.txt", "tinyshakespeare.txt", "tiny_shakespeare.txt", "shakespeare.txt")
_HINT: Final = "put a text there under that name, such as the `input.txt` of char-rnn"
_TRAIN_SHARE: Final = 0.9


@final
class Shakespeare:
    """A text as windows of characters; a data set for `DataLoader` with parts `input` and `target`.

    The folder holds `input.txt` (`tinyshakespeare.txt`, `shakespeare.txt`). The first nine tenths are for
    training, the rest is for `train=False`; both know the characters of the whole text. The target of a
    character is the next one. Nothing is downloaded.

    Attributes:
        vocabulary: all characters of the text, sorted; a token is a position in it.
        tokens: this part of the text, `int64 [T]`.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from flodl import Shakespeare
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "input.txt").write_text("to be, or not to be")
        >>> text = Shakespeare(folder, length=4)
        >>> first = text.get_batch([0])
        >>> text.decode(first["input"][0]), text.decode(first["target"][0])
        ('to b', 'o be')
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        length: int = 128,
        stride: int | None = None,
        train: bool = True,
    ) -> None:
        """Read the text.

        Args:
            folder: where the text is.
            length: characters of a window.
            stride: characters from the beginning of a window to that of the next; `length` if not given.
            train: the first nine tenths of the text; false takes the last tenth.

        Raises:
            DataError: there is no text, it is not UTF-8, or shorter than a window.
        """
        require_at_least(1, "length", length)
        self._length = length
        self._stride = length if stride is None else stride
        require_at_least(1, "stride", self._stride)
        path = find_files("Shakespeare", folder, {"text": _NAMES}, inside=(), hint=_HINT)["text"]
        try:
            # Every system's end of a line counts as one character.
            text = read_bytes(path).decode("utf-8-sig").replace("\r\n", "\n")
        except UnicodeDecodeError as problem:
            raise DataError(f"{path} is not UTF-8: {problem}") from problem
        self.vocabulary = "".join(sorted(set(text)))
        self._index = {character: at for at, character in enumerate(self.vocabulary)}
        border = int(len(text) * _TRAIN_SHARE)
        self.tokens = self.encode(text[:border] if train else text[border:])
        if not len(self):
            raise DataError(
                f"{path}: this part has {len(self.tokens)} characters, and a window with its target "
                f"needs {length + 1}; give a smaller `length`"
            )

    def __len__(self) -> int:
        return windows_in(len(self.tokens), self._length, self._stride)

    def get_batch(self, indices: list[int]) -> dict[str, Tensor]:
        """Return windows and the same windows one character later, both `int64 [B, length]`."""
        starts = torch.as_tensor(indices) * self._stride
        return windows_of(self.tokens, starts, self._length)

    def encode(self, text: str) -> Tensor:
        """Return the tokens of a text, `int64 [T]`.

        Raises:
            DataError: a character is not in the vocabulary.
        """
        unknown = sorted(set(text) - set(self._index))
        if unknown:
            raise DataError(f"the vocabulary lacks {', '.join(map(repr, unknown))}")
        return torch.tensor([self._index[each] for each in text], dtype=torch.int64)

    def decode(self, tokens: Tensor | list[int]) -> str:
        """Return the text of tokens `[T]`."""
        numbers = tokens.tolist() if isinstance(tokens, Tensor) else tokens
        return "".join(self.vocabulary[number] for number in numbers)
