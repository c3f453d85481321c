# %% [markdown]
# # The graph tree
#
# Models are made of parts. In this tutorial you train a reader of letters, build a reader of words around it, and a
# reader of lines around that. Each reader is trained once, saved, loaded into the next, and frozen there. You address
# every part by a path such as `word.letter`. It takes about fifteen minutes.
#
# ## The task
#
# Letters are noisy pictures of 5 x 5 pixels. Words have three letters, lines have four words:
#
# | Reader | Sees | Answers |
# |---|---|---|
# | letter | 25 pixels | which of 6 letters |
# | word | 3 letters | which of 8 words |
# | line | 4 words | how many neighbours are in alphabetical order |

# %%
import torch
import torch.nn.functional as F
from torch import nn

GLYPHS = {
    "A": ".###. #...# ##### #...# #...#",
    "E": "##### #.... ###.. #.... #####",
    "N": "#...# ##..# #.#.# #..## #...#",
    "O": ".###. #...# #...# #...# .###.",
    "S": ".#### #.... .###. ....# ####.",
    "T": "##### ..#.. ..#.. ..#.. ..#..",
}
LETTERS = "".join(GLYPHS)
WORDS = ("ANT", "ATE", "EAT", "NOT", "ONE", "SEA", "SET", "TEN")  # in alphabetical order
SPELLING = torch.tensor([[LETTERS.index(letter) for letter in word] for word in WORDS])
PIXELS = torch.tensor([[float(p == "#") for p in glyph if p != " "] for glyph in GLYPHS.values()])


def draw(letters: torch.Tensor) -> torch.Tensor:
    """Return noisy pictures of letters, with 25 pixels in a new last dimension."""
    pixels = PIXELS[letters]
    return pixels + 0.3 * torch.randn_like(pixels)


def letter_task(samples: int) -> tuple[torch.Tensor, torch.Tensor]:
    letters = torch.randint(len(LETTERS), (samples,))
    return draw(letters), letters


def word_task(samples: int) -> tuple[torch.Tensor, torch.Tensor]:
    words = torch.randint(len(WORDS), (samples,))
    return draw(SPELLING[words]), words


def line_task(samples: int) -> tuple[torch.Tensor, torch.Tensor]:
    words = torch.randint(len(WORDS), (samples, 4))
    return draw(SPELLING[words]), (words[:, :-1] < words[:, 1:]).sum(dim=1)


torch.manual_seed(0)
for task in (letter_task, word_task, line_task):
    inputs, answers = task(2)
    print(task.__name__, tuple(inputs.shape), tuple(answers.shape))

# %% [markdown]
# One plain loop trains all readers. It takes only the parameters that are not frozen:


# %%
def train(model: nn.Module, task, samples: int, epochs: int) -> None:
    inputs, answers = task(samples)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    for _ in range(epochs):
        for chosen in torch.randperm(samples).split(100):
            loss = F.cross_entropy(model(inputs[chosen]), answers[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def accuracy(model: nn.Module, task) -> float:
    inputs, answers = task(1000)
    with torch.no_grad():
        return (model(inputs).argmax(dim=-1) == answers).float().mean().item()


# %% [markdown]
# ## The letter reader
#
# The first reader is a chain. Its label, `letter`, is the name of the part wherever it is used. After the training
# you save it as a checkpoint.

# %%
from flodl import Flow, FlowBuilder, FlowModule, Graph, view


def letter_reader() -> Graph:
    return (
        FlowBuilder.from_(nn.Linear(25, 32))
        .through(nn.GELU())
        .through(nn.Linear(32, len(LETTERS)))
        .label("letter")
        .build()
    )


letter = letter_reader()
train(letter, letter_task, samples=3000, epochs=6)
letter.save_checkpoint("letter.fdl")
assert accuracy(letter, letter_task) > 0.95
print("the letter reader is right in more than 95 % of the cases")

# %% [markdown]
# ## The word reader
#
# A word reader has a letter reader inside. `x` holds three letters, and the letter reader reads all of them at once.
# The tag `letters` names what it saw.


# %%
class WordReader(FlowModule):
    def __init__(self) -> None:
        super().__init__()
        self.letter = letter_reader()
        self.head = nn.Linear(3 * len(LETTERS), len(WORDS))

    def flow(self, x: Flow) -> Flow:
        seen = x.through(self.letter).softmax(dim=-1).tag("letters")
        return seen.flatten(-2).through(self.head).tag("words")


word = WordReader()
print(view(word).tree_summary())

# %% [markdown]
# `load_subgraph_checkpoint` loads a file into one part, by path. `freeze` takes the same path. Then only the head is
# left to train:

# %%
print(view(word).load_subgraph_checkpoint("letter", "letter.fdl"))
print(view(word).freeze("letter"), "tensors frozen")
print(view(word).param_summary())

# %%
train(word, word_task, samples=2000, epochs=6)
view(word).save_checkpoint("word.fdl")
assert accuracy(word, word_task) > 0.95
print("the word reader is right in more than 95 % of the cases")

# %% [markdown]
# ## The line reader
#
# The line reader is one level higher. It compares each word with its neighbour and counts the pairs in order. You load
# the word reader, with the letter reader inside, from one file, and freeze both with one call:


# %%
class LineReader(FlowModule):
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


line = LineReader()
tree = view(line)
print(tree.load_subgraph_checkpoint("word", "word.fdl"))
tree.freeze("word")
print(tree.param_summary())

# %% [markdown]
# Freezing is exact: after the training, the frozen weights have the same bits as before.

# %%
before = [p.clone() for p in tree.parameters_at("word")]
train(line, line_task, samples=4000, epochs=30)
assert all(map(torch.equal, before, tree.parameters_at("word")))
assert accuracy(line, line_task) > 0.9
print("the line reader is right in more than 90 % of the cases")

# %% [markdown]
# ## Walk the tree
#
# Every part has a path, and a tag inside a part has one too. An unknown path is an error that names the segment:

# %%
for path in ("word", "word.letter", "word.letters", "pairs"):
    print(path, "->", tree.validate_path(path))

try:
    tree.freeze("word.syllable")
except Exception as error:
    print(type(error).__name__ + ":", str(error).splitlines()[0])

# %% [markdown]
# The picture shows the top level: a box with a shadow has a graph inside.

# %%
line

# %% [markdown]
# ## Look at values inside
#
# After a call, `tagged_at` has the value of a tag in any part. You see which letters the letter reader saw inside the
# word reader inside the line reader:

# %%
words = torch.tensor([[WORDS.index(word) for word in ("SET", "ONE", "ANT", "TEN")]])
line(draw(SPELLING[words]))
seen = tree.tagged_at("word.letters").argmax(dim=-1)[0]
print(" ".join("".join(LETTERS[letter] for letter in word) for word in seen))

# %% [markdown]
# ## Thaw and fine-tune
#
# `thaw` is the opposite of `freeze`. `parameters_at` selects the parameters of a part, so an optimizer can have a
# learning rate for each. Here the head of the word reader may change slowly, and the letters stay frozen:

# %%
tree.thaw("word.head")
print(tree.is_frozen("word.letter"), tree.is_frozen("word.head"))
optimizer = torch.optim.AdamW(
    [
        {"params": tree.parameters_at("pairs"), "lr": 1e-2},
        {"params": tree.parameters_at("word.head"), "lr": 1e-4},
    ]
)
print([group["lr"] for group in optimizer.param_groups])

# %% [markdown]
# ## Replace a part
#
# `replace` puts another module in the place of a part and returns the old one. The paths and keys of all other parts
# stay as they are:

# %%
old = tree.replace(
    "pairs", nn.Sequential(nn.Linear(2 * len(WORDS), 8), nn.ReLU(), nn.Linear(8, 1))
)
print(type(old).__name__, "->", line.pairs)

# %% [markdown]
# ## Where next
#
# - [All methods of the tree](../how-to/tree.md), on graphs and on plain PyTorch modules.
# - [Checkpoints](../how-to/checkpoints.md): what a `.fdl` file promises, and files of other tools.
# - [Training](04_training.py) with `Trainer`, which takes models with frozen parts as they are.
