"""Sizes of files, as servers report them, before the first byte is fetched."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from fdl_cli.net.artefact import Artefact, Patience
from fdl_cli.net.client import make_client


def with_sizes(
    artefacts: Sequence[Artefact], patience: Patience, proxy: str | None
) -> tuple[Artefact, ...]:
    """Return the artefacts with their sizes; one that no server tells stays unknown."""
    if all(item.size is not None for item in artefacts):
        return tuple(artefacts)
    import httpx

    with make_client(patience, proxy) as client, ThreadPoolExecutor(8) as pool:

        def ask(item: Artefact) -> Artefact:
            if item.size is not None:
                return item
            for url in item.urls:
                try:
                    response = client.head(url, headers={"Accept-Encoding": "identity"})
                except httpx.HTTPError:
                    # The download itself will report the problem of this address.
                    continue
                text = response.headers.get("Content-Length", "")
                if response.status_code == 200 and text.isdecimal():
                    return replace(item, size=int(text))
            return item

        return tuple(pool.map(ask, artefacts))
