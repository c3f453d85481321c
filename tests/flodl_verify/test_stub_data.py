"""Data that is not there: tables, texts and data sets of libraries, in the shape that a script asks for."""

from __future__ import annotations

import ast
import builtins
import csv
import io
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch

from fdl_cli.porter.ir.evidence import ScriptRequest
from fdl_cli.porter.verify import prove_script
from flodl_verify.stubs.frames import make_frames_module
from flodl_verify.stubs.hints import Hints, hints_of
from flodl_verify.stubs.hub import load_dataset
from flodl_verify.stubs.tables import NUM_ROWS, MissingFiles, plain_text, table_text
from flodl_verify.stubs.texts import make_text_module

pytestmark = pytest.mark.torch


def hints(tmp_path: Path, text: str) -> Hints:
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(text), encoding="utf-8")
    return hints_of(script)


@pytest.mark.parametrize(
    ("text", "columns", "names"),
    [
        ("x, y = xy[:, 0:-1], xy[:, [-1]]\nnet = nn.Linear(8, 6)", 9, ()),
        ("x, y = xy[:, :4], xy[:, 4]", 5, ()),
        ("size = 13\nmodel = Net()\nlayer = nn.Linear(size, 2)", 14, ()),
        (
            "y = df['price'].values\nx = df[['rooms', 'area']].values",
            3,
            ("price", "rooms", "area"),
        ),
        ("x = df.drop('label', axis=1)\ny = df['label']\nnn.Linear(4, 2)", 5, ("label",)),
        ("print(1)", 2, ()),
        ("this is no python", 2, ()),
    ],
)
def test_hints(tmp_path: Path, text: str, columns: int, names: tuple[str, ...]) -> None:
    found = hints(tmp_path, text)
    assert found.columns == columns
    assert set(found.names) == set(names)


def test_a_table_has_its_shape_and_is_the_same_every_time() -> None:
    text = table_text(Hints(columns=4, names=("a", "b")), ",", names=True)
    rows = list(csv.reader(io.StringIO(text)))
    assert rows[0] == ["a", "b", "column2", "column3"]
    assert len(rows) == NUM_ROWS + 1
    assert {row[-1] for row in rows[1:]} == {"0", "1"}
    assert all(0 <= float(cell) <= 1 for row in rows[1:] for cell in row)
    assert text == table_text(Hints(columns=4, names=("a", "b")), ",", names=True)
    assert plain_text(3).count("\n") == 3


@pytest.fixture
def missing(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Stand-ins for tables with nine columns; the names of those that were asked for."""
    for place, name in ((builtins, "open"), (io, "open"), (np, "loadtxt"), (np, "genfromtxt")):
        monkeypatch.setattr(place, name, getattr(place, name))
    asked: list[str] = []
    MissingFiles(asked.append).install(Hints(columns=9))
    return asked


def test_only_data_that_is_missing_is_stood_in_for(missing: list[str], tmp_path: Path) -> None:
    there = tmp_path / "there.csv"
    there.write_text("1,2\n3,4\n", encoding="utf-8")
    assert np.loadtxt(there, delimiter=",").tolist() == [[1, 2], [3, 4]]
    assert there.read_text() == "1,2\n3,4\n"
    for name in ("settings.json", "weights.pt", "notes.md"):
        with pytest.raises(FileNotFoundError):
            (tmp_path / name).open()
    with pytest.raises(FileNotFoundError):
        np.loadtxt(tmp_path / "weights.bin")
    for place in (sys.prefix, Path(np.__file__).parent):  # libraries ask for optional files
        with pytest.raises(FileNotFoundError):
            Path(place, "requires.txt").read_text()
    with pytest.raises(FileNotFoundError):
        (tmp_path / "no folder" / "new.csv").open("w")
    assert missing == []
    assert np.loadtxt(tmp_path / "gone.csv.gz", delimiter=",", dtype=np.float32).shape == (
        NUM_ROWS,
        9,
    )
    assert np.genfromtxt("gone.dat", skip_header=1).shape == (NUM_ROWS, 9)
    with Path("gone.tsv").open() as stream:
        assert len(next(csv.reader(stream, delimiter="\t"))) == 9
    assert Path("corpus.txt").read_text().encode() == Path("corpus.txt").read_bytes()
    assert set(missing) == {"gone.csv.gz", "gone.dat", "gone.tsv", "corpus.txt"}


def test_a_frame_is_taken_apart_as_that_of_pandas(missing: list[str]) -> None:
    del missing
    pandas = make_frames_module("pandas")
    frame = pandas.read_csv("gone.csv", header=None)
    assert frame.shape == (NUM_ROWS, 9)
    assert frame.iloc[:, :-1].values.shape == (NUM_ROWS, 8)
    assert frame.iloc[:, -1].values.shape == (NUM_ROWS,)
    assert frame.iloc[3].shape == (9,)
    assert frame.iloc[2:4, [0, 2]].to_numpy().shape == (2, 2)
    named = pandas.DataFrame([[1.0, 2.0], [3.0, 4.0]], ["a", "b"])
    assert named["b"].values.tolist() == [2, 4]
    assert named[["b"]].values.tolist() == [[2], [4]]
    assert named.drop("a", axis=1).columns == named.drop(columns=["a"]).columns == ["b"]
    assert named.pop("a").to_numpy(np.float32).tolist() == [1, 3]
    assert named.columns == ["b"]
    assert len(named.head(1)) == 1
    assert np.asarray(named).shape == (2, 1)


def test_texts_have_labels_and_words_have_numbers() -> None:
    train, test = make_text_module("torchtext.datasets").AG_NEWS(root=".data")
    assert {label for label, _ in train} == {1, 2, 3, 4}
    assert (
        list(train) == list(test) == make_text_module("torchtext.datasets").AG_NEWS(split="train")
    )
    assert len(make_text_module("torchtext.datasets").WikiText2()) == 3
    split = make_text_module("torchtext.data.utils").get_tokenizer("basic_english")
    assert split("It runs, small.") == ["it", "runs", ",", "small", "."]
    made = make_text_module("torchtext.vocab").build_vocab_from_iterator(
        (split(text) for _, text in train), specials=["<unk>"]
    )
    made.set_default_index(made["<unk>"])
    assert made(["river", "unheard"]) == [made["river"], 0]
    assert made.lookup_token(made["river"]) == "river"
    assert len(made) == len(made.get_itos()) == 22
    with pytest.raises(AttributeError):
        _ = make_text_module("torchtext.vocab").GloVe


def test_sets_of_the_hub_have_their_columns() -> None:
    glue = load_dataset("glue", "mrpc")
    assert set(glue) == {"train", "validation", "test"}
    assert glue["train"].column_names == ["sentence1", "sentence2", "label", "idx"]
    assert glue["train"].features["label"].num_classes == 2

    def encode(rows: dict[str, list[str]]) -> dict[str, list[list[int]]]:
        return {"input_ids": [[len(text), 1] for text in rows["sentence1"]]}

    made = glue.map(encode, batched=True, remove_columns=["sentence1", "sentence2", "idx"])
    made = made.rename_column("label", "labels")
    made.set_format("torch")
    loader = torch.utils.data.DataLoader(
        made["train"].shuffle(seed=1).select(range(8)), batch_size=4
    )
    batch = next(iter(loader))
    assert batch["input_ids"].shape == (4, 2)
    assert batch["labels"].dtype == torch.int64
    part = load_dataset("stanfordnlp/imdb", split="train[:10%]")
    assert len(part) == 12
    assert len(part.filter(lambda row: row["label"] == 1)) == 6
    assert [len(x) for x in part.train_test_split(0.25).values()] == [9, 3]
    assert load_dataset("mnist", split="test")[0]["image"].size == (28, 28)
    with pytest.raises(FileNotFoundError, match="no stand-in for the data set `nobody/knows`"):
        load_dataset("nobody/knows")


TRAINING = """
net = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for n in range(0, 40, 4):
    optimizer.zero_grad()
    loss = (net(x[n:n + 4]) - y[n:n + 4]).square().mean()
    loss.backward()
    optimizer.step()
"""
TABLES = """
xy = {read}
x = torch.from_numpy(xy[:, 0:-1])
y = torch.from_numpy(xy[:, [-1]])
"""
SCRIPTS = {
    "diabetes.csv": (
        "import numpy as np\n",
        "np.loadtxt('../no/diabetes.csv', delimiter=',', dtype=np.float32)",
    ),
    "rows.csv": (
        "import csv\nimport numpy as np\n",
        "np.array(list(csv.reader(open('data/rows.csv'))), dtype=np.float32)",
    ),
    "pandas, house.csv": (
        "import pandas as pd\nimport numpy as np\n",
        "pd.read_csv('house.csv').values.astype(np.float32)",
    ),
}  # fmt: skip
TEXTS = """
import torch
from torchtext.datasets import AG_NEWS
from torchtext.data.utils import get_tokenizer
from torchtext.vocab import build_vocab_from_iterator
tokenizer = get_tokenizer("basic_english")
train = list(AG_NEWS(split="train"))
vocab = build_vocab_from_iterator(map(lambda row: tokenizer(row[1]), train), specials=["<unk>"])
ids = torch.tensor([vocab(tokenizer(text))[:8] for _, text in train])
x = torch.nn.Embedding(len(vocab), 1)(ids)[..., 0].detach()
y = torch.tensor([[float(label)] for label, _ in train])
"""
HUB = """
import torch
from datasets import load_dataset
rows = load_dataset("imdb", split="train")
x = torch.tensor([[float(ord(c)) / 128 for c in row["text"][:8]] for row in rows])
y = torch.tensor(rows["label"]).float()[:, None]
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(
            (name, f"import torch\n{head}{TABLES.format(read=read)}")
            for name, (head, read) in SCRIPTS.items()
        ),
        ("torchtext", TEXTS),
        ("datasets", HUB),
    ],
    ids=["numpy", "csv", "pandas", "torchtext", "hub"],
)  # fmt: skip
def test_a_script_without_its_data_is_compared_and_that_is_said(
    tmp_path: Path, name: str, text: str
) -> None:
    script = tmp_path / "train.py"
    script.write_text(text + TRAINING, encoding="utf-8")
    ast.parse(script.read_text())
    (tmp_path / "work").mkdir()
    found = prove_script(
        ScriptRequest(
            original=script, ported=script, python=sys.executable, timeout_s=200.0,
            workdir=tmp_path / "work", search_path=(tmp_path,),
        )
    )  # fmt: skip
    assert found.status == "equal", found
    assert found.steps == 10
    assert found.detail.endswith(f"with stand-ins for {name}")
