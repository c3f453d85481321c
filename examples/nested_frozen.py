"""Nested and frozen: a reader of letters becomes a part of a reader of words, and that of a reader of lines.

Each reader is trained once, saved, and loaded from its own checkpoint into the next one, where it is frozen:

    letter  5 x 5 pixels     -> which of 6 letters
    word    3 letters        -> which of 8 words                               (letter: frozen, from letter.fdl)
    line    4 words          -> how many neighbours are in alphabetical order  (word: frozen, from word.fdl)

Run it: python examples/nested_frozen.py
"""

import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from flodl import AdamW, DataLoader, Flow, FlowBuilder, FlowModule, Graph, view

GLYPHS = {
    "A": ".###. #...# ##### #...# #...#",
    "E": "##### #.... ###.. #.... #####",
    "N": "#...# ##..# #.#.# #..## #...#",
    "O": ".###. #...# #...# #...# .###.",
    "S": ".#### #.... .###. ....# ####.",
    "T": "##### ..#.. ..#.. ..#.. ..#..",
}
LETTERS = "".join(GLYPHS)
# Sorted, so that the number of a word is its place in the alphabet.
WORDS = ("ANT", "ATE", "EAT", "NOT", "ONE", "SEA", "SET", "TEN")


def letters_of(words: list[str]) -> torch.Tensor:
    """Return the numbers of the letters of some words: [words, letters]."""
    return torch.tensor([[LETTERS.index(letter) for letter in word] for word in words])


def draw(letters: torch.Tensor) -> torch.Tensor:
    """Return noisy pictures of letters: 25 pixels each, in a new last dimension."""
    rows = [[float(pixel == "#") for pixel in text if pixel != " "] for text in GLYPHS.values()]
    pixels = torch.tensor(rows)[letters]
    return pixels + 0.5 * torch.randn_like(pixels)


def letter_reader() -> Graph:
    """Return a reader of one letter: pixels [..., 25] -> scores [..., 6]."""
    return (
        FlowBuilder.from_(nn.Linear(25, 32))
        .through(nn.GELU())
        .through(nn.Linear(32, len(LETTERS)))
        .label("letter")
        .build()
    )


class WordReader(FlowModule):
    """Pixels [..., 3, 25] -> scores [..., 8]: it sees letters as a letter reader does."""

    def __init__(self) -> None:
        super().__init__()
        self.letter = letter_reader()
        self.head = nn.Linear(3 * len(LETTERS), len(WORDS))

    def flow(self, x: Flow) -> Flow:
        seen = x.through(self.letter).softmax(dim=-1).tag("letters")
        return seen.flatten(-2).through(self.head).tag("words")


class LineReader(FlowModule):
    """Pixels [B, 4, 3, 25] -> scores [B, 4]: 0 to 3 neighbours of a line are in alphabetical order."""

    def __init__(self) -> None:
        super().__init__()
        self.word = WordReader()
        self.pairs = nn.Sequential(nn.Linear(2 * len(WORDS), 32), nn.GELU(), nn.Linear(32, 1))
        self.head = nn.Linear(1, 4)

    def flow(self, x: Flow) -> Flow:
        words = x.through(self.word).softmax(dim=-1).tag("read")
        neighbours = torch.cat([words[:, :-1], words[:, 1:]], dim=-1)
        ordered = neighbours.through(self.pairs).sigmoid().sum(dim=1)
        return ordered.through(self.head)


def letter_task(samples: int) -> list[torch.Tensor]:
    """Return pictures of letters, and which they are."""
    letters = torch.randint(len(LETTERS), (samples,))
    return [draw(letters), letters]


def word_task(samples: int) -> list[torch.Tensor]:
    """Return pictures of words, and which they are."""
    words = torch.randint(len(WORDS), (samples,))
    return [draw(letters_of(list(WORDS))[words]), words]


def line_task(samples: int) -> list[torch.Tensor]:
    """Return pictures of lines of four words, and how many neighbours are in order."""
    words = torch.randint(len(WORDS), (samples, 4))
    return [draw(letters_of(list(WORDS))[words]), (words[:, :-1] < words[:, 1:]).sum(dim=1)]


def train(model: nn.Module, data: list[torch.Tensor], epochs: int, lr: float = 1e-2) -> None:
    """Train what is not frozen, with a plain loop."""
    optimizer = AdamW([each for each in model.parameters() if each.requires_grad], lr=lr)
    loader = DataLoader(data, batch_size=100)
    for epoch in range(epochs):
        for x, label in loader.epoch(epoch):
            loss = F.cross_entropy(model(x), label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def right(model: nn.Module, data: list[torch.Tensor]) -> float:
    """Return the share of right answers."""
    with torch.no_grad():
        return (model(data[0]).argmax(dim=-1) == data[1]).float().mean().item()


def main() -> None:
    """Train letter, word and line readers, each on top of the one before."""
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        letter = letter_reader()
        train(letter, letter_task(3000), epochs=6)
        letter.save_checkpoint(folder / "letter.fdl")
        print(f"letter reader: {right(letter, letter_task(1000)):.1%}")

        word = WordReader()
        print("letter.fdl into the word reader:", end=" ")
        print(view(word).load_subgraph_checkpoint("letter", folder / "letter.fdl"))
        view(word).freeze("letter")
        train(word, word_task(2000), epochs=6)
        view(word).save_checkpoint(folder / "word.fdl")
        print(f"word reader: {right(word, word_task(1000)):.1%}")

        line = LineReader()
        print("word.fdl into the line reader:", end=" ")
        print(view(line).load_subgraph_checkpoint("word", folder / "word.fdl"))
        view(line).freeze("word")
        frozen = [each for each in line.parameters() if not each.requires_grad]
        before = [each.clone() for each in frozen]
        train(line, line_task(4000), epochs=20)
        print(f"line reader: {right(line, line_task(1000)):.1%}")

    same = all(map(torch.equal, before, frozen))
    print(f"{len(frozen)} of {len(list(line.parameters()))} tensors frozen, unchanged: {same}")
    # The parts are still there under their paths, and what they saw has a name.
    line(draw(letters_of(["SET", "ONE", "ANT", "TEN"])).unsqueeze(0))
    seen = view(line).tagged_at("word.letters").argmax(dim=-1)[0]
    print("read:", " ".join("".join(LETTERS[each] for each in word) for word in seen))


if __name__ == "__main__":
    main()
