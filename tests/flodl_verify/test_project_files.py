"""Which files of a project the proof reads."""

import os

from flodl_verify.sources.project_files import _listed, texts_with


def test_texts_pipe_and_dangling_link_are_passed_over(tmp_path):
    (tmp_path / "a.sh").write_text("words\n")
    os.mkfifo(tmp_path / "pipe.sh")
    (tmp_path / "gone.sh").symlink_to(tmp_path / "nowhere")
    files = iter(_listed(tmp_path, (".sh",))[1])
    assert [path.name for path, _ in texts_with(b"words", files)] == ["a.sh"]
