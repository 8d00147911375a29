"""The reference of a public module, from signatures and docstrings, as a Markdown page."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from scripts.api_page import own_doc, public_names, stated_doc

if TYPE_CHECKING:
    from types import ModuleType

WIDTH = 88
"""A signature that is longer has a line for each parameter."""

_ANNOTATED = re.compile(r"Annotated\[([^,\]]+), [^\]]*\]")

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


def module_page(name: str) -> str:
    """Return the page of a module: each public name with its signature, text and members."""
    module = importlib.import_module(name)
    parts = [f"# {name}", _prose(inspect.getdoc(module) or "")]
    for public in public_names(name):
        parts += [f"## `{public}`", *_entry(module, public)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _entry(module: ModuleType, name: str) -> list[str]:
    value = getattr(module, name)
    if inspect.isclass(value):
        return _class_entry(value)
    if inspect.isfunction(inspect.unwrap(value)):
        return [_code(signature_of(value)), _prose(own_doc(value))]
    return [_prose(stated_doc(module, name))]


def _class_entry(cls: type) -> list[str]:
    bases = [base.__name__ for base in cls.__bases__ if base.__module__.startswith("holdfast")]
    head = f"class {cls.__name__}({', '.join(bases)})" if bases else f"class {cls.__name__}"
    parts = [_code(head), _prose(own_doc(cls))]
    if fields := fields_of(cls):
        parts.append(field_table(fields))
    for name, function in _methods(cls):
        parts += [f"### `{cls.__name__}.{name}`", _code(signature_of(function))]
        parts.append(_prose(inspect.cleandoc(function.__doc__ or "")))
    return parts


class Field(NamedTuple):
    """A field of a class, as its source declares it."""

    name: str
    kind: str
    default: str
    words: str


def fields_of(cls: type) -> list[Field]:
    """Return the annotated public fields of a class and of its bases."""
    found: dict[str, Field] = {}
    for owner in reversed(_ours(cls)):
        for node, after in pairwise([*_class_body(owner), ast.Pass()]):
            match node, after:
                case ast.AnnAssign(target=ast.Name(id=name), value=value), _ if name[0] != "_":
                    words = ""
                    if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                        words = " ".join(str(after.value.value).split())
                    default = ast.unparse(value) if value else ""
                    kind = _ANNOTATED.sub(r"\1", ast.unparse(node.annotation))
                    found[name] = Field(name, kind, default, words)
                case _:  # methods, docstrings and private fields
                    pass
    return list(found.values())


def field_table(fields: list[Field]) -> str:
    """Return fields as a table of Markdown."""
    rows = [
        f"| `{field.name}` | {_words(field.words)} | {_cell(field.kind)} "
        f"| {_cell(field.default) or 'required'} |"
        for field in fields
    ]
    return "\n".join(["| field | meaning | type | default |", "|---|---|---|---|", *rows])


def _cell(code: str) -> str:
    return f"`{code}`".replace("|", "\\|") if code else ""


def _words(text: str) -> str:
    return _escape(text).replace("|", "\\|")


def _methods(cls: type) -> list[tuple[str, object]]:
    """Return the public methods and properties of a class, those of its bases included."""
    found: dict[str, object] = {}
    for owner in reversed(_ours(cls)):
        for name, value in vars(owner).items():
            value = value.__func__ if isinstance(value, classmethod | staticmethod) else value
            value = value.fget if isinstance(value, property) else value
            is_shown = inspect.isfunction(value) and value.__module__.startswith("holdfast")
            if is_shown and (name[0] != "_" or name == "__init__"):
                found[name] = value
    return [(name, value) for name, value in found.items() if _node(value) is not None]


def _ours(cls: type) -> list[type]:
    return [owner for owner in cls.__mro__ if owner.__module__.startswith("holdfast")]


def signature_of(function: object) -> str:
    """Return a function as its source declares it, without its body."""
    node = _node(function)
    if node is None:
        return getattr(function, "__name__", "")
    kind = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    marks = "".join(
        f"@{ast.unparse(mark)}\n"
        for mark in node.decorator_list
        if ast.unparse(mark) in {"property", "classmethod", "staticmethod", "contextmanager"}
    )
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    line = f"{kind} {node.name}({ast.unparse(node.args)}){returns}"
    if len(line) <= WIDTH:
        return marks + line
    inner = "".join(f"    {text},\n" for text in _parameters(node.args))
    return f"{marks}{kind} {node.name}(\n{inner}){returns}"


def _parameters(args: ast.arguments) -> list[str]:
    """Return each parameter with its type and default, as in the source."""
    plain = [*args.posonlyargs, *args.args]
    defaults = [None] * (len(plain) - len(args.defaults)) + list(args.defaults)
    shown = [_parameter(arg, default) for arg, default in zip(plain, defaults, strict=True)]
    if args.posonlyargs:
        shown.insert(len(args.posonlyargs), "/")
    if args.vararg:
        shown.append(f"*{ast.unparse(args.vararg)}")
    elif args.kwonlyargs:
        shown.append("*")
    shown += map(_parameter, args.kwonlyargs, args.kw_defaults)
    return [*shown, f"**{ast.unparse(args.kwarg)}"] if args.kwarg else shown


def _parameter(arg: ast.arg, default: ast.expr | None) -> str:
    if default is None:
        return ast.unparse(arg)
    return f"{ast.unparse(arg)}{' = ' if arg.annotation else '='}{ast.unparse(default)}"


def _node(function: object) -> FunctionNode | None:
    code = getattr(inspect.unwrap(function), "__code__", None)  # type: ignore[arg-type]
    if code is None or not Path(code.co_filename).exists():
        return None
    found = _declarations(code.co_filename).get((code.co_name, code.co_firstlineno))
    return found if isinstance(found, FunctionNode) else None


def _class_body(cls: type) -> list[ast.stmt]:
    path = getattr(sys.modules[cls.__module__], "__file__", None)
    found = _declarations(path).get((cls.__qualname__, 0)) if path else None
    return found.body if isinstance(found, ast.ClassDef) else []


@cache
def _declarations(path: str) -> dict[tuple[str, int], FunctionNode | ast.ClassDef]:
    """Return the functions of a file by name and first line, and the classes by name and 0."""
    found: dict[tuple[str, int], FunctionNode | ast.ClassDef] = {}
    ahead: list[tuple[str, ast.stmt]] = [("", node) for node in _tree(path).body]
    while ahead:
        inside, node = ahead.pop()
        if isinstance(node, ast.ClassDef):
            found[f"{inside}{node.name}", 0] = node
            ahead += [(f"{inside}{node.name}.", below) for below in node.body]
        elif isinstance(node, FunctionNode):
            first = min([node.lineno, *(mark.lineno for mark in node.decorator_list)])
            found[node.name, first] = node
        elif isinstance(node, ast.If | ast.Try):
            ahead += [(inside, below) for below in [*node.body, *node.orelse]]
    return found


@cache
def _tree(path: str) -> ast.Module:
    return ast.parse(Path(path).read_text("utf-8"))


def _code(text: str) -> str:
    return f"```python\n{text}\n```"


def _prose(text: str) -> str:
    """Return a docstring as Markdown: sessions of the interpreter are code."""
    lines = [line if line.startswith("    ") else _escape(line) for line in text.split("\n")]
    return re.sub(
        r"^(?:(?:>>>|\.\.\.) .*(?:\n|$))+",
        lambda session: f"```pycon\n{session[0].rstrip()}\n```\n",
        "\n".join(lines),
        flags=re.MULTILINE,
    )


def _escape(text: str) -> str:
    """Return a line without HTML outside of its code."""
    pieces = text.split("`")
    return "`".join(
        piece if index % 2 else piece.replace("<", "&lt;") for index, piece in enumerate(pieces)
    )
