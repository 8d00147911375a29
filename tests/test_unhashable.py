"""A field of foreign JSON is never hashed before it is known to be a text.

A type, a role or a name in a log, a request or a reply may be a list: to look such a value up in a
set or a dict is a `TypeError` that ends whatever reads it.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import holdfast

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE: Final = Path(holdfast.__file__).parent
_HASHING: Final = ("set", "frozenset", "dict", "Mapping", "Collection", "Counter", "defaultdict")
_CONSTANT: Final = re.compile(
    r"^([A-Z_]\w*)\b[^=\n]*= *(?:frozenset|set\(|dict\(|\{)", re.MULTILINE
)
"""A constant of a module that is looked up by hash."""
_USE: Final = re.compile(
    r"\.get\(\"[^\n]*\)\s(?:not )?in |\{[\w.]+\.get\(\"|[\[(][\w.()]+\.get\(\""
)
"""What a module looks like that may hash a field."""
_Names = dict[str, bool]
"""Names, and whether what they stand for is looked up by hash."""


def module_of(path: Path) -> str:
    return ".".join(("holdfast", *path.relative_to(SOURCE).with_suffix("").parts))


def is_hashing(value: ast.expr | None, names: _Names) -> bool:
    """Return whether an expression, or a type, is one that looks values up by their hash."""
    match value:
        case ast.Set() | ast.SetComp() | ast.Dict() | ast.DictComp():
            return True
        case ast.Call(func=ast.Name(id=name)) | ast.Subscript(value=ast.Name(id=name)):
            return name in _HASHING
        case ast.Name(id=name):
            return names.get(name, name in _HASHING)
        case ast.BinOp(left=left, right=right):
            return is_hashing(left, names) or is_hashing(right, names)
        case ast.Attribute(attr=name):
            return names.get(name, False)
        case _:
            return False


def named_in(tree: ast.AST, known: dict[str, _Names]) -> _Names:
    """Return the names that a module gives to collections, imported ones included."""
    names: _Names = {}
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(module), names=imported):
                for alias in imported:
                    if alias.name in known.get(module, {}):
                        names[alias.asname or alias.name] = known[module][alias.name]
            case ast.Assign(targets=[ast.Name(id=name) | ast.Attribute(attr=name)], value=value):
                names[name] = is_hashing(value, names)
            case ast.AnnAssign(
                target=ast.Name(id=name) | ast.Attribute(attr=name), annotation=kind, value=value
            ):
                names[name] = is_hashing(kind, names) or is_hashing(value, names)
            case ast.arg(arg=name, annotation=ast.expr() as kind):
                names[name] = names.get(name, False) or is_hashing(kind, names)
            case _:
                pass
    return names


def is_field(node: ast.expr | None) -> bool:
    """Return whether an expression is a field of a JSON object, as it came: `block.get("type")`."""
    if isinstance(node, ast.NamedExpr):
        node = node.value
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "get"
        and not (isinstance(node.func.value, ast.Name) and node.func.value.id.isupper())
        and bool(node.args)
        and isinstance(node.args[0], ast.Constant)
        and isinstance(node.args[0].value, str)
    )


def hashed_fields(tree: ast.AST, names: _Names) -> Iterator[int]:
    """Yield the lines where a field is looked up by its hash, or becomes a member of a set."""
    for node in ast.walk(tree):
        match node:
            case ast.Compare(left=left, ops=[ast.In() | ast.NotIn()], comparators=[right]):
                if is_field(left) and is_hashing(right, names):
                    yield node.lineno
            case ast.SetComp(elt=element, generators=[generator]):
                if is_field(element) and not generator.ifs:
                    yield node.lineno
            case ast.Subscript(value=mapping, slice=key):
                if is_field(key) and is_hashing(mapping, names):
                    yield node.lineno
            case ast.Call(func=ast.Attribute(value=mapping, attr="get"), args=[key, *_]):
                if is_field(key):
                    yield node.lineno
            case _:
                pass


def test_no_field_of_foreign_json_is_hashed() -> None:
    """In any module; a tuple is searched without a hash, and a field that is a text can be."""
    texts = {path: path.read_text() for path in sorted(SOURCE.rglob("*.py"))}
    known = {
        module_of(path): dict.fromkeys(_CONSTANT.findall(text), True)
        for path, text in texts.items()
    }
    found = []
    for path, text in texts.items():
        if _USE.search(text):  # parsing takes long
            tree = ast.parse(text)
            lines = hashed_fields(tree, named_in(tree, known))
            found += [f"{path.relative_to(SOURCE)}:{line}" for line in lines]
    assert found == []


def test_a_hashed_field_is_seen() -> None:
    """By a constant, an argument, an attribute, a set that is made, and a lookup."""
    for code in (
        "A = frozenset((1,))\ndef f(b): return b.get('type') in A",
        "def f(b, ids: set[str]): return b.get('id') not in ids",
        "def f(s, b):\n  s.names = {1}\n  return b.get('id') in s.names",
        "def f(c): return {b.get('type') for b in c}",
        "def f(b): return KINDS.get(b.get('type'))",
    ):
        tree = ast.parse(code)
        assert list(hashed_fields(tree, named_in(tree, {}))), code
    tree = ast.parse("A = ('x',)\ndef f(b): return b.get('type') in A")
    assert not list(hashed_fields(tree, named_in(tree, {})))
