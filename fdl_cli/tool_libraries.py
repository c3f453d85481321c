"""The libraries of the tool, and the error where an environment has the runtime without them.

Example:
    `pip install flodl` brings the runtime and a command `fdl`, but none of the libraries of the tool.
    That command ends with `error[tool-not-installed]`, which names `pip install 'flodl[cli]'`.
"""

from typing import Final

from fdl_cli.errors import EnvironmentLackingError

# What the extra `cli` of pyproject.toml brings, by the names that `import` knows.
LIBRARIES: Final = (
    "docker", "httpcore", "httpx", "jinja2", "libcst", "packaging", "pynvml", "typer", "yaml",
)  # fmt: skip


def tool_error(name: str | None = "typer") -> EnvironmentLackingError | None:
    """Return the error for a library that cannot be imported; None if it is not one of the tool.

    Args:
        name: the module that was not found, as `ModuleNotFoundError.name` has it.
    """
    library = (name or "").partition(".")[0]
    if library not in LIBRARIES:
        return None
    return EnvironmentLackingError(
        error_id="tool-not-installed",
        message="this environment has flodl, the runtime, but not the tool: there is no "
        f"package `{library}`",
        hint="run `pip install 'flodl[cli]'` here, or `uv tool install 'flodl[cli]'` for all "
        "environments; a checkout of flodl has `./fdl`",
    )
