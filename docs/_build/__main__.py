"""Program that builds the site: `python -m docs._build [FOLDER]`; without FOLDER, into this checkout."""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

from docs._build.api_pages import write_api_pages, write_llms_texts
from docs._build.error_pages import write_error_pages
from docs._build.option_pages import write_option_page
from docs._build.reason_pages import write_reason_pages
from docs._build.result_pages import write_result_page
from docs._build.running import ROOT
from docs._build.schema_pages import write_schema_pages
from docs._build.staging import stage


def prepare(folder: Path) -> Path:
    """Write all sources of the site into `build/docs` below a folder; return that folder."""
    staged = folder / "build" / "docs"
    stage(staged)
    write_api_pages(staged / "reference" / "api")
    write_reason_pages(staged / "reference")
    write_error_pages(staged / "reference")
    write_schema_pages(staged / "reference")
    write_option_page(staged / "reference")
    write_result_page(staged / "benchmarks")
    write_llms_texts(staged)
    shutil.copy(ROOT / "CHANGELOG.md", staged / "project" / "changelog.md")
    return staged


def render(folder: Path) -> int:
    """Write the HTML of the prepared sources into `site`; return the exit code of Zensical."""
    if folder != ROOT:
        shutil.copy(ROOT / "mkdocs.yml", folder)
    # Pages of an earlier build would hide that a source is gone.
    shutil.rmtree(folder / "site", ignore_errors=True)
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    return subprocess.run(command, cwd=folder, check=False).returncode


def main() -> int:
    """Build, and say where the first page is."""
    if importlib.util.find_spec("zensical") is None:
        print("zensical is not installed here; type `.venv/bin/pip install -e '.[docs]'`", file=sys.stderr)
        return 1
    folder = Path(sys.argv[1]).resolve() if sys.argv[1:] else ROOT
    prepare(folder)
    code = render(folder)
    if code == 0:
        print(f"built {folder / 'site' / 'index.html'}")
    return code


if __name__ == "__main__":
    sys.exit(main())
