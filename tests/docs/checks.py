"""All checks of documents, by name: each finds what is wrong in the documents below a folder.

A check of pages takes the folder and one page, which it runs; the others take the folder. The tests of the
documents call them with this checkout, and the test of planted faults with a copy that has a fault:

    dead_links(root)  ->  ["docs/index.md: how-to/tree.md#gone"]
"""

import tempfile
from pathlib import Path

from tests.docs import commands, figures, links, running, sentences, words
from tests.docs.reading import blocks, written


def wrong_manifests(root):
    """Find blocks of YAML that are no manifest."""
    with tempfile.TemporaryDirectory() as folder:
        return commands.wrong_manifests(root, Path(folder).resolve())


def pages_that_run(root):
    return [
        path for path in written(root) if any(block.kind == "python" for block in blocks(path))
    ]


CHECKS = {
    "links": links.dead_links,
    "paths": links.dead_paths,
    "menu": links.wrong_menu,
    "lists": links.wrong_lists,
    "guides": links.wrong_guides,
    "names": words.unknown_names,
    "keywords": words.wrong_keywords,
    "defaults": words.wrong_defaults,
    "errors": words.invented_errors,
    "codes": words.unknown_codes,
    "variables": words.unknown_variables,
    "versions": words.wrong_versions,
    "imports": words.wrong_imports,
    "commands": commands.wrong_commands,
    "programs": commands.wrong_programs,
    "arguments": commands.wrong_arguments,
    "languages": commands.wrong_languages,
    "json": commands.wrong_json,
    "manifests": wrong_manifests,
    "readme": figures.wrong_readme,
    "index": figures.wrong_index,
    "benchmarks": figures.wrong_benchmarks,
    "steps": figures.wrong_step_times,
    "tables": figures.wrong_step_tables,
    "windows": figures.wrong_anchors_of_windows,
    "counts": figures.wrong_counts,
    "pictures": figures.stale_pictures,
    "alternatives": figures.without_text,
    "sentences": sentences.long_sentences,
    "wording": sentences.discouraged_words,
}
PAGE_CHECKS = {
    "blocks": running.wrong_page,
    "tutorial": running.wrong_tutorial,
    "transcript": running.wrong_transcript,
    "port": running.wrong_port,
    "help": running.wrong_help,
}
