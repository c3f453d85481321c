"""The two steps of a build: the ready API reference in the wheel, and a README for the package index."""

import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface


class ApiIndexHook(BuildHookInterface[Any]):
    """Build the index from the sources that go into the same wheel."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add `fdl_cli/apiref/data/api_index.json` to a standard wheel, not to an editable one."""
        if self.target_name != "wheel" or version == "editable":
            return
        sys.path.insert(0, self.root)
        try:
            from fdl_cli.apiref.storage import build_here, stored_form

            text = stored_form(build_here(), "packaged")
        finally:
            sys.path.remove(self.root)
        folder = Path(tempfile.mkdtemp(prefix="flodl-build-"))
        path = folder / "api_index.json"
        path.write_text(text, encoding="utf-8")
        build_data["force_include"][str(path)] = "fdl_cli/apiref/data/api_index.json"


class ReadmeHook(MetadataHookInterface):
    """Make the links of README absolute: the package index shows the page without the files beside it."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the description of the package."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        pages = f"{metadata['urls']['Source']}/blob/main"
        # A picture is shown from its file, and not from the page around it.
        text = re.sub(r"(!\[[^\]]*)\]\((?!\w+://)([^)\s]+)\)", rf"\1]({pages}/\2?raw=true)", text)
        absolute = re.sub(r"\]\((?!\w+://|#)([^)\s]+)\)", rf"]({pages}/\1)", text)
        metadata["readme"] = {"content-type": "text/markdown", "text": absolute}
