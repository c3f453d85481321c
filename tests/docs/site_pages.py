"""Reader of a built site: what every page loads, where it leads, and its anchors."""

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import final
from urllib.parse import unquote

LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src"}
LINKS_THAT_LOAD = {"stylesheet", "preload", "preconnect", "dns-prefetch", "icon", "modulepreload"}


@final
@dataclass
class Page:
    """One page: addresses that it loads, addresses that it links to, and its anchors."""

    loads: list[str] = field(default_factory=list)
    leads: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)


@final
class PageReader(HTMLParser):
    """Collects the addresses and the anchors of one page."""

    def __init__(self):
        super().__init__()
        self.page = Page()

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.page.anchors |= {found[name] for name in ("id", "name") if found.get(name)}
        if found.get(LOADED.get(tag, "")):
            self.page.loads.append(found[LOADED[tag]])
        if tag == "link" and LINKS_THAT_LOAD & set(found.get("rel", "").split()):
            self.page.loads.append(found["href"])
        if tag == "a" and found.get("href"):
            self.page.leads.append(found["href"])


def read_site(site):
    """Return every page of a site by its path."""
    pages = {}
    for path in sorted(site.rglob("*.html")):
        reader = PageReader()
        reader.feed(path.read_text(encoding="utf-8"))
        pages[path] = reader.page
    return pages


def is_external(address):
    return re.match(r"(https?:)?//", address) is not None


def dead_links(site, pages):
    """Return the internal addresses that no file or no anchor of the site answers."""
    found = []
    for path, page in pages.items():
        if path.name == "404.html":  # served from any folder, so its addresses begin at the root
            continue
        for address in (*page.loads, *page.leads):
            if is_external(address) or re.match(r"(mailto|data|javascript):", address):
                continue
            if not answers(path, address, pages):
                found.append(f"{path.relative_to(site)}: {address}")
    return found


def answers(path, address, pages):
    target, _, anchor = address.partition("#")
    target = unquote(target.partition("?")[0])
    place = Path(path.parent, target).resolve() if target else path
    place = place / "index.html" if place.is_dir() else place
    if not place.is_file():
        return False
    return not anchor or place not in pages or unquote(anchor) in pages[place].anchors


def external_in_styles(site):
    """Return the addresses elsewhere that style sheets load."""
    return [
        f"{path.name}: {found}"
        for path in site.rglob("*.css")
        for found in re.findall(
            r"(?:url\(|@import )['\"]?((?:https?:)?//[^'\")]+)", path.read_text()
        )
    ]
