"""What people read is plain English: the words of the glossary, and none of those that it replaces.

Every text of the package is found by reading its source: all strings but docstrings, the docstrings
of operations (they are the pages of HTTP and MCP), and the templates. Names of fields, commands and
files, which are one word of code, are no texts.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import holdfast

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE: Final = Path(holdfast.__file__).parent

REPLACED: Final = {
    r"somebody|whoever|nobody|everybody": "caller, writer, provider, no one, every owner",
    r"lately": "recent",
    r"anew": "again",
    r"manners?|flavou?rs?": "quirks, variant",
    r"shel(f|ves)|desk": "folder, maintenance, chat context",
    r"laid down": "the user's instructions",
    r"a cut leaves|a cut left": "carry-over",
    r"standing": "lasting preferences",
    r"press": "force a cut",
    r"(un)?sealed": "masked, resolved",
    r"(what|who) stands|stands beside": "what is there, beside",
    r"(is|are) told": "gets, is configured with",
    r"who asks": "the caller",
    r"(that|which) (is|are) none": "not",
    r"dearest": "most expensive",
    r"no further than": "up to",
    r"store said no": "the operation failed",
    r"(?<!there )(is|are) no (?!longer|more|one)[a-z]+": "is not a",
}
"""Words that say less than those beside them."""
PATTERN: Final = re.compile(rf"\b(?:{'|'.join(REPLACED)})\b", re.IGNORECASE)
NAME: Final = re.compile(r"[\w.:/-]*")

ALLOWED: Final = {
    ("core/checkpoint/render.py", "standing"): "a heading that models read: checkpoints have it",
    ("core/memory/hits.py", "standing"): "a label that models read",
    ("core/memory/notes.py", "standing"): "a request to a model, measured in these words",
    ("core/failures/patterns.py", "standing"): "the words of a provider: `in good standing`",
}
"""Texts that stay, each with its reason."""


def texts_in(source: str, *, is_operation: bool = False) -> Iterator[tuple[int, str]]:
    """Yield the texts of a module with their lines; the docstrings of an operation, too."""
    tree = ast.parse(source)
    bodies = [
        node.body
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if not (is_operation and isinstance(node, ast.ClassDef))
    ]
    docstrings = {id(each.value) for body in bodies for each in body if isinstance(each, ast.Expr)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            continue
        if id(node) not in docstrings and not NAME.fullmatch(node.value):
            yield node.lineno, node.value


def every_text() -> Iterator[tuple[str, int, str]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        is_operation = name.startswith("engine/operations/")
        for line, text in texts_in(path.read_text("utf-8"), is_operation=is_operation):
            yield name, line, text
    for path in sorted(PACKAGE.rglob("*.html")):
        shown = re.sub(r"\{[{%#].*?[}%#]\}|<[^>]*>", " ", path.read_text("utf-8"), flags=re.DOTALL)
        yield path.relative_to(PACKAGE).as_posix(), 0, shown


def test_every_text_has_the_words_of_the_glossary() -> None:
    """A word that is replaced, or an inverted `is no …`, is named with its place."""
    found: dict[tuple[str, str], str] = {}
    count = 0
    for name, line, text in every_text():
        count += 1
        for word in PATTERN.finditer(text):
            found[name, word[0].casefold()] = f"{name}:{line}: {' '.join(text.split())[:100]}"
    unknown = [place for key, place in found.items() if key not in ALLOWED]
    assert unknown == []
    assert ALLOWED.keys() <= found.keys(), "allowed, but not there"
    assert count > 10_000


def test_replaced_words_are_seen() -> None:
    """In messages and in the pages of operations; names and ordinary docstrings are left alone."""
    source = (
        'class Ask:\n    """Somebody asks."""\n    name = "standing"\n'
        '    help = f"it is no table: {1}"\n    more = "there is no table, it is no longer there"\n'
    )
    assert [PATTERN.search(text) is not None for _line, text in texts_in(source)] == [False, True]
    shown = [text for _line, text in texts_in(source, is_operation=True) if PATTERN.search(text)]
    assert sorted(shown) == ["Somebody asks.", "it is no table: "]
