"""Nothing in the core depends on a language: no list of words decides what people or models say.

Every collection of strings and every pattern in `core` is found by reading the source. One with
several words of a natural language is named here with the reason it may stay, and the number of
its words, which may only fall. Names of fields, tools, programs and protocols are no such words.
"""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path
from typing import Final

import pytest

CORE: Final = Path(__file__).parents[1] / "src" / "holdfast" / "core"
WORDS_MIN: Final = 4
"""Of the telling words below, from which on a text or a collection is a list of words."""
ITEMS_MIN: Final = 3
_TELLING: Final = """
    a an the and or but not of to in on for with from by at as is are was were be been have has had
    do does did will would should could can cannot must may might i you we they it he she my your
    our me us them this that these those
    what when where why who how which if then than so there here
    always never please sorry remember prefer avoid keep yes no okay sure now today tomorrow again
    yesterday still already once twice every all any some each other because about before after
    der die das und oder nicht ein eine ich wir sie ist sind war bitte immer nie niemals mit von zu
    el la los las un una y o no es son de que en por para con siempre nunca yo nosotros favor
    le les des du et ou ne pas je nous vous est sont toujours jamais dans sur
    il lo gli non sempre mai sono per che con di da
"""
TELLING: Final = frozenset(_TELLING.split())
"""Words that sentences are made with, which no name of a field or a program is."""
WIDE: Final = re.compile("[\u0400-\u04ff\u0600-\u06ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{2,}")
WORD: Final = re.compile(r"[^\W\d_]+")
ESCAPES: Final = re.compile(r"\\[a-zA-Z]|\(\?P<\w+>|\(\?[a-zA-Z]+[:)]|\{\d+,?\d*\}")
REMARK: Final = re.compile(r"  # .*")
RANGE: Final = re.compile(r"\[[^\]]*\]")

ALLOWED: Final[dict[str, tuple[int, str]]] = {
    "failures/numbers.py:_NAMED": (4, "wordings of providers' errors"),
    "failures/normalise.py:_RETRY_IN": (5, "wordings of providers' errors"),
    "failures/rules.py:Action": (10, "our own names of actions"),
    "turn/refusals.py:_CONTENT_ACTIONS": (5, "our own names of actions"),
    "memory/search_terms.py:_COMMON_WORDS": (78, "weights of search hits only; see there"),
    "secrets/patterns.py:_PASSWORDS": (5, "names that secrets have, in several languages"),
    "secrets/patterns.py:_ASSIGNED": (4, "what stands between a secret's name and the secret"),
    "secrets/patterns.py:_SAMPLE": (5, "values of examples that are no secrets"),
}
"""Lists that stay: how many telling words each has, and why it may."""


def calls_pattern(node: ast.Call) -> bool:
    name = ast.unparse(node.func)
    return name.startswith("re.") or name.endswith(("_pattern", "safe_regex.compile"))


def is_collection(node: ast.AST) -> bool:
    return isinstance(node, ast.Set | ast.Tuple | ast.List | ast.Dict)


def strings_in(node: ast.AST) -> list[str]:
    return [
        item.value
        for item in ast.walk(node)
        if isinstance(item, ast.Constant) and isinstance(item.value, str)
    ]


def words_in(text: str, *, is_pattern: bool) -> set[str]:
    """The words of sentences in a pattern or an item of a collection."""
    bare = RANGE.sub(" ", ESCAPES.sub(" ", REMARK.sub("", text))) if is_pattern else text
    found = {word for word in WORD.findall(bare.lower()) if word in TELLING}
    return found | set(WIDE.findall(bare))


def value_words(value: ast.AST) -> set[str]:
    """The words in the collections and patterns of a value, and in a text that is split."""
    found: set[str] = set()
    for node in ast.walk(value):
        if isinstance(node, ast.Call) and calls_pattern(node):
            found |= {word for text in strings_in(node) for word in words_in(text, is_pattern=True)}
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".split"):
            found |= {
                word for text in strings_in(node) for word in words_in(text, is_pattern=False)
            }
        elif is_collection(node):
            items = getattr(node, "keys", None) or getattr(node, "elts", [])
            if len(items) < ITEMS_MIN:
                continue
            for item in items:
                if isinstance(item, ast.Constant) and isinstance(item.value, str):
                    is_pattern = any(sign in item.value for sign in ("|", "(?", "\\b"))
                    short = is_pattern or len(item.value.split()) <= 4
                    found |= words_in(item.value, is_pattern=is_pattern) if short else set()
    return found


def texts_split_elsewhere(tree: ast.Module) -> set[str]:
    """Names of texts that are taken apart into words."""
    return {
        node.func.value.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("split", "splitlines")
        and isinstance(node.func.value, ast.Name)
    }


def find_word_lists(source: str) -> dict[str, int]:
    """The names of a module that hold a list of words, each with the number of telling ones."""
    tree = ast.parse(source)
    split = texts_split_elsewhere(tree)
    found: dict[str, int] = {}
    for statement in tree.body:
        name = (
            ast.unparse(statement.targets[0])
            if isinstance(statement, ast.Assign)
            else ast.unparse(statement.target)
            if isinstance(statement, ast.AnnAssign)
            else getattr(statement, "name", "")
        )
        words = value_words(statement)
        if name in split:
            words |= {
                word for text in strings_in(statement) for word in words_in(text, is_pattern=False)
            }
        if len(words) >= WORDS_MIN:
            found[name] = len(words)
    return found


@functools.cache
def all_lists() -> dict[str, int]:
    return {
        f"{path.relative_to(CORE).as_posix()}:{name}": count
        for path in sorted(CORE.rglob("*.py"))
        for name, count in find_word_lists(path.read_text("utf-8")).items()
    }


@pytest.mark.parametrize(
    "planted",
    [
        'RULES = re.compile(r"(?:always|never|please (?:do|remember))")',
        'PLANS = lazy_pattern("i will|let me|we should|sure")',
        'STOP: Final = frozenset({"the", "and", "for", "you"})',
        'STOP = "the and for you".split()',
        '_TEXT = """the and for you"""\nSTOP = frozenset(_TEXT.split())',
        'def f(text):\n    return text.startswith(("sorry", "i cannot", "we will not"))',
        'WIDE = ("\u8bf7\u8bb0\u4f4f", "\u5fc5\u987b", "\u4e0d\u8981", "\u6c38\u8fdc")',
    ],
)
def test_a_list_of_words_is_found(planted: str) -> None:
    """However it is written."""
    assert find_word_lists(planted)


@pytest.mark.parametrize(
    "name",
    [
        'FIELDS = ("name", "tool", "function", "arguments", "input")',
        'PROGRAMS = frozenset({"cat", "grep", "head", "less", "sort"})',
        'WORD = re.compile(r"[A-Za-z]+(?:-[a-z]+)*")',
    ],
)
def test_names_of_fields_and_programs_are_none(name: str) -> None:
    assert not find_word_lists(name)


def test_no_list_of_words_is_in_the_core_without_a_reason() -> None:
    """A new one needs structure instead, or a measured loss that is said here and beside it."""
    found = all_lists()
    unknown = {name: count for name, count in found.items() if name not in ALLOWED}
    assert not unknown, f"read structure and fields instead of words: {unknown}"


def test_the_exceptions_only_shrink() -> None:
    """Each is still there, and has no more words than it had."""
    found = all_lists()
    assert {name: found.get(name, 0) for name in ALLOWED} == {
        name: count for name, (count, _reason) in ALLOWED.items()
    }
    assert all(reason for _count, reason in ALLOWED.values())
