"""Build the docs site: every page of docs/, the reference of the public modules, the examples.

    python -m scripts.site.build [FOLDER]

stages the pages and builds them into FOLDER (`build/site` by default) with Zensical, which
`make site` installs into `.venv-site`. The build fails at a link or anchor that leads nowhere. The
site needs no server and no network: open `index.html`, the search works there too.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from posixpath import dirname, normpath, relpath

from scripts.api_page import MODULES
from scripts.site.reference import module_page

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
ZENSICAL = ROOT / ".venv-site" / "bin" / "zensical"

Nav = list[tuple[str, "str | Nav"]]
"""Titles, each with its page or with what is below it."""

FRONT = {
    "README.md": "index.md",
    "docs/README.md": "all-pages.md",
    "CHANGELOG.md": "project/changes.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "examples/README.md": "examples/index.md",
    "benchmarks/README.md": "project/benchmarks.md",
}
"""Pages whose place on the site is not their place in docs/."""
AROUND: dict[str, Nav] = {
    "Start": [("Home", "index.md")],
    "How-to": [("Examples", "examples/index.md")],
    "Reference": [("Modules", [(name, f"reference/{name}.md") for name in MODULES])],
    "Internals": [
        ("Contributing", "project/contributing.md"),
        ("Running the benchmarks", "project/benchmarks.md"),
        ("Security", "project/security.md"),
        ("Changes", "project/changes.md"),
        ("All pages", "all-pages.md"),
    ],
}
"""Pages that are beside docs/, by the section of the site they go to."""

_LINK = re.compile(
    r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!https?:|mailto:|#)([^)#\s]+)(#[^)\s]*)?\)"
)
_IMAGE = re.compile(r"!\[([^\]]*)\]\((?!https?:)([^)\s]+)\)")
_SOURCE = re.compile(r'(?<=\s)(src|srcset)="(?!https?:)([^"\s]+)"')
"""A file that a tag shows."""
_ENTRY = re.compile(r"^( *)- \[(.+)\]\(([^)#]+)\)$")


def place_of(source: str) -> str | None:
    """Return where a file of the repository is on the site, or None where it is not."""
    if source in FRONT:
        return FRONT[source]
    if source.startswith("docs/"):
        return re.sub(r"(^|/)README\.md$", r"\1index.md", source.removeprefix("docs/"))
    if source.startswith("examples/") and source.endswith(".py"):
        return re.sub(r"\.py$", ".md", source)
    return None


def navigation(index: str) -> Nav:
    """Return the sections of docs/README.md, each with its pages; an indented page is below."""
    sections: Nav = []
    for line in index.splitlines():
        if line.startswith("## "):
            name = line.removeprefix("## ")
            sections.append((name, [*AROUND.get(name, [])] if name == "Start" else []))
        elif entry := _ENTRY.match(line):
            indent, title, path = entry.groups()
            pages = sections[-1][1]
            assert isinstance(pages, list), line
            row = (title.replace("`", ""), place_of(normpath(f"docs/{path}")) or path)
            if indent:
                name, above = pages[-1]
                pages[-1] = (name, [*([(name, above)] if isinstance(above, str) else above), row])
            else:
                pages.append(row)
    for name, pages in sections:
        if name in AROUND and name != "Start":
            assert isinstance(pages, list), name
            pages += AROUND[name]
    return sections


def relink(text: str, source: str) -> str:
    """Return a page with its links as the site needs them; what is not on the site is no link."""
    here = place_of(source) or source

    def to_site(found: re.Match[str]) -> str:
        words, target, anchor = found.groups()
        place = place_of(normpath(f"{dirname(source)}/{target}".lstrip("/")))
        if place is None:
            return words
        return f"[{words}]({relpath(place, dirname(here) or '.')}{anchor or ''})"

    def picture(found: re.Match[str]) -> str:
        words, target = found.groups()
        return f"![{words}]({file_at(target)})"

    def tag(found: re.Match[str]) -> str:
        name, target = found.groups()
        return f'{name}="{file_at(target)}"'

    def file_at(target: str) -> str:
        place = place_of(normpath(f"{dirname(source)}/{target}".lstrip("/"))) or target
        return relpath(place, dirname(here) or ".")

    pieces = re.split(r"(^```.*?^```)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(
        piece
        if piece.startswith("```")
        else _SOURCE.sub(tag, _IMAGE.sub(picture, _LINK.sub(to_site, plain(piece))))
        for piece in pieces
    )


def plain(text: str) -> str:
    """Return prose whose code in tables has bare pipes: GitHub wants them escaped, Zensical not."""
    rows = re.compile(r"^\|.*$", re.MULTILINE)
    code = re.compile(r"`[^`\n]+`")
    return rows.sub(lambda row: code.sub(lambda c: c[0].replace("\\|", "|"), row[0]), text)


def link_names(text: str) -> str:
    """Return the page of all names with a link from each name to its place in the reference."""
    module = ""
    lines = []
    for line in text.splitlines():
        if found := re.match(r"## `(.+)`$", line):
            module = found[1]
            line = f"## [`{module}`](reference/{module}.md)"
        elif found := re.match(r"\| `(\w+)` \| (.*)$", line):
            line = f"| [`{found[1]}`](reference/{module}.md#{found[1].lower()}) | {found[2]}"
        lines.append(line)
    return "\n".join(lines) + "\n"


def pages() -> dict[str, str]:
    """Return the text of every page by its place on the site."""
    sources = [*FRONT, *(path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/**/*.md"))]
    staged = {
        place: relink((ROOT / source).read_text("utf-8"), source)
        for source in sources
        if (place := place_of(source))
    }
    staged["api.md"] = link_names(staged["api.md"])
    for path in sorted(ROOT.glob("examples/*.py")):
        staged[f"examples/{path.stem}.md"] = example_page(path)
    return staged | {f"reference/{name}.md": plain(module_page(name)) for name in MODULES}


def example_page(path: Path) -> str:
    """Return a page that shows the source of an example."""
    return f"# {path.name}\n\n```python\n{path.read_text('utf-8').rstrip()}\n```\n"


def configuration() -> str:
    """Return the configuration for Zensical: the look, and the navigation."""
    nav = _toml_nav(navigation((ROOT / "docs" / "README.md").read_text("utf-8")))
    return (
        (HERE / "zensical.toml")
        .read_text("utf-8")
        .replace("[project]\n", f"[project]\nnav = {nav}\n", 1)
    )


def _toml_nav(nav: str | Nav) -> str:
    if isinstance(nav, str):
        return json.dumps(nav)
    rows = (f"{{ {json.dumps(title)} = {_toml_nav(below)} }}" for title, below in nav)
    return f"[{', '.join(rows)}]"


def build(site: Path, zensical: Path = ZENSICAL) -> None:
    """Write the site into a folder, which it replaces."""
    work = site.with_name(f"{site.name}-source")
    shutil.rmtree(work, ignore_errors=True)
    shutil.rmtree(site, ignore_errors=True)
    sources = work / "docs"
    for place, text in pages().items():
        target = sources / place
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")
    shutil.copytree(ROOT / "docs" / "images", sources / "images")
    for name in ("site.css", "site.js", "iframe-worker.js"):
        shutil.copy(HERE / name, sources / name)
    config = work / "zensical.toml"
    config.write_text(configuration(), "utf-8")
    subprocess.run(
        [os.fspath(zensical), "build", "--clean", "--strict", "-f", os.fspath(config)],
        cwd=work,
        check=True,
    )
    (work / "site").rename(site)


def main(arguments: list[str]) -> int:
    """Build the site, and say where it is."""
    site = Path(arguments[0]).absolute() if arguments else ROOT / "build" / "site"
    if not ZENSICAL.exists():
        print(f"{ZENSICAL} is not there: run `make site`, which installs it", file=sys.stderr)
        return 1
    build(site)
    print(f"open {site / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
