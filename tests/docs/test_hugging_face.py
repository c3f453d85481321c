"""The commands of the page about Hugging Face, in the order of the page, with what they print."""

import os
import subprocess
import sys

import pytest

from tests.docs.reading import ROOT
from tests.docs.running import environment, sessions
from tests.hugging_face import transformers

PAGE = ROOT / "docs" / "how-to" / "hugging-face.md"


@pytest.mark.slow
@pytest.mark.torch
def test_commands_of_the_page_print_what_it_shows(tmp_path):
    library = transformers()
    config = library.BertConfig(
        vocab_size=60, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48
    )  # fmt: skip
    library.BertForSequenceClassification(config).save_pretrained(tmp_path / "bert")
    found = sessions(PAGE)
    assert len(found) == 3
    for command, printed in found:
        done = subprocess.run(
            [sys.executable, "-m", "fdl_cli", *command.split()[1:]],
            cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert done.stdout.replace(f"{tmp_path}{os.sep}", "") == printed
