#!/usr/bin/env python3
"""Builds the book of docs/SUMMARY.md, and checks its links: book.py MDBOOK SOURCE OUTPUT.

Pages of the book are in docs/, in the root and in python/, and link to each other, to pictures and
to code by relative paths. mdBook takes pages of one directory. So SOURCE gets a copy of the pages
and of the files that they link to, at their own paths, and every link works in both places.

Sections between `<!-- tabs: TITLE -->` and `<!-- end of tabs -->` become tabs: radio buttons, which work
by keyboard and without a script. In the repository they are sections one after the other.
"""

import html
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\]\(([^)\s]+)")
TABS = re.compile(r"<!-- tabs: (.+?) -->\n(.*?)<!-- end of tabs -->\n", re.DOTALL)
SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
CONTENTS = re.compile(r"\[([^\]]+)\]\([^)]*SUMMARY\.md\)")


def copy_pages(summary: str, pages: Path) -> None:
    """Copies the pages of the summary, and the files that they link to."""
    (pages / "SUMMARY.md").write_text(LINK.sub(lambda link: "](" + from_root(link[1]), summary))
    for page in (from_root(link[1]) for link in LINK.finditer(summary)):
        copy(page, pages)
        for link in LINK.finditer((ROOT / page).read_text()):
            target = urlsplit(link[1])
            found = (ROOT / page).parent / unquote(target.path)
            if not target.scheme and found.is_file() and found.suffix != ".md":
                copy(str(found.resolve().relative_to(ROOT)), pages)


def from_root(link: str) -> str:
    """The path of a link in docs/SUMMARY.md, from the root of the repository."""
    return str((ROOT / "docs" / link).resolve().relative_to(ROOT))


def copy(path: str, pages: Path) -> None:
    (pages / path).parent.mkdir(parents=True, exist_ok=True)
    if path.endswith(".md"):
        # The contents are beside every page of the book, and no page of it.
        text = CONTENTS.sub(r"\1", (ROOT / path).read_text())
        (pages / path).write_text(TABS.sub(tabs, text))
    else:
        shutil.copyfile(ROOT / path, pages / path)


def tabs(group: re.Match[str]) -> str:
    """A group of radio buttons, and below it a panel for each of its sections."""
    title, text = group[1], group[2]
    begun, *sections = SECTION.split(text)
    if begun.strip() or len(sections) < 4:
        raise SystemExit(f"tabs {title!r}: expected two sections or more, and nothing before them")
    headings, bodies = sections[::2], sections[1::2]
    # Of the title, so that two groups of a page do not share their buttons.
    name = re.sub(r"[^a-z]+", "-", title.lower())
    lines = [f'<div class="tabs" role="group" aria-label="{html.escape(title)}">']
    for number, heading in enumerate(headings):
        checked = " checked" if number == 0 else ""
        button = f'<input type="radio" name="{name}" id="{name}-{number}"{checked}>'
        lines.append(f'{button}<label for="{name}-{number}">{html.escape(heading)}</label>')
    for heading, body in zip(headings, bodies, strict=True):
        lines.append(f'<div class="tab">\n\n## {heading}\n\n{body.strip()}\n\n</div>')
    return "\n".join(lines) + "\n</div>\n"


class Page(HTMLParser):
    """The anchors and the links of a page of the book."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.anchors.add(value)
            if name in ("href", "src") and value:
                self.links.append(value)


def broken_links(book: Path) -> list[str]:
    # The page for unknown addresses has absolute links, of the place where the book is served.
    files = [file for file in book.rglob("*.html") if file.name not in ("404.html", "toc.html")]
    parsed = {file: Page(file.read_text()) for file in files}
    broken = []
    for file, page in parsed.items():
        for link in page.links:
            target = urlsplit(link)
            if target.scheme or target.netloc:
                continue
            found = (file.parent / unquote(target.path)).resolve() if target.path else file
            if found.is_dir():
                found = found / "index.html"
            anchor = unquote(target.fragment)
            if not found.is_file() or anchor and found in parsed and anchor not in parsed[found].anchors:
                broken.append(f"{file.relative_to(book)}: the link {link} is broken")
    return broken


def main() -> int:
    mdbook, source, book = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    shutil.rmtree(source, ignore_errors=True)
    pages = source / "pages"
    pages.mkdir(parents=True)
    for file in ("book.toml", "book.css", "book.js"):
        shutil.copyfile(ROOT / "scripts" / file, source / file)
    copy_pages((ROOT / "docs/SUMMARY.md").read_text(), pages)
    subprocess.run([mdbook, "build", "--dest-dir", str(book.resolve()), str(source)], check=True)
    broken = broken_links(book.resolve())
    print("\n".join(broken) or f"{book}/index.html: {sum(1 for _ in book.rglob('*.html'))} pages, no broken link")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
