"""Check a built site: every internal link leads somewhere, and no page loads anything from afar.

python docs/check_site.py build/docs
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src"}
STYLES = {"stylesheet", "icon", "preload", "preconnect", "modulepreload", "dns-prefetch"}
REMOTE = re.compile(r"^(https?:)?//", re.IGNORECASE)
REMOTE_STYLE = re.compile(r"""(?:url\(|@import)\s*['"]?(?:https?:)?//""", re.IGNORECASE)


class Page(HTMLParser):
    """What a page links to, what it loads, and the places in it that others may link to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note one element."""
        given = {name: value or "" for name, value in attrs}
        self.places.update(given[name] for name in ("id", "name") if name in given)
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "link" and STYLES & set(given.get("rel", "").split()):
            self.loads.append(given.get("href", ""))
        elif LOADED.get(tag, "") in given:
            self.loads.append(given[LOADED[tag]])


def target(page: Path, link: str) -> tuple[Path, str]:
    """Return the file and the place in it that a link of a page leads to."""
    parts = urlsplit(link)
    path = unquote(parts.path)
    file = page if not path else (page.parent / path)
    return (file / "index.html" if file.is_dir() else file).resolve(), unquote(parts.fragment)


def pages_of(root: Path) -> list[Path]:
    """Return the pages of a site; what lies beside its scripts and styles is none."""
    return [path for path in sorted(root.rglob("*.html")) if "_static" not in path.parts]


def problems(root: Path) -> list[str]:
    """Return one sentence for everything that is wrong with the pages of a folder."""
    pages = {path.resolve(): Page(path.read_text()) for path in pages_of(root)}
    found = [] if pages else [f"{root} has no pages"]
    for path, page in pages.items():
        name = path.relative_to(root.resolve())
        found += [f"{name} loads {source}" for source in page.loads if REMOTE.match(source)]
        local = [source for source in page.loads if source and not urlsplit(source).scheme]
        for link in [*page.links, *local]:
            if urlsplit(link).scheme or REMOTE.match(link):
                continue
            file, place = target(path, link)
            if not file.exists():
                found.append(f"{name} links to {link}, which is not there")
            elif place and file in pages and place not in pages[file].places:
                found.append(f"{name} links to {link}, and there is no such place in that page")
    styles = sorted(root.rglob("*.css"))
    found += [
        f"{style.relative_to(root)} loads something from afar"
        for style in styles
        if REMOTE_STYLE.search(style.read_text())
    ]
    return found


def main() -> None:
    """Print what is wrong, and fail if anything is."""
    root = Path(sys.argv[1])
    found = problems(root)
    sys.stdout.writelines(f"{line}\n" for line in found)
    sys.exit(f"{len(found)} problems in {root}" if found else 0)


if __name__ == "__main__":
    main()
