"""Measure the house: modules, packages, imports among them, sizes, names, docstrings.

python scripts/house.py            # a table of the numbers
python scripts/house.py --list     # each place behind them; the pure code of each folder
python scripts/house.py --src DIR  # another checkout's src/holdfast
python scripts/house.py --parameter NAME  # who takes it, by type, and who only hands it on
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = Path(__file__).parent.parent / "src" / "holdfast"
MODULE_NAMES = 25
_READERS = frozenset(
    (
        *("isinstance", "scrub", "cut", "to_bytes", "is_wanted", "owner_of", "owner_text"),
        *("owner_argument", "filter_text", "row_text", "as_window", "window_argument", "binds"),
    )
)
"""Functions that read what they are given: a call of one is a use, and hands nothing on."""
CLASS_METHODS = 15

_IRREGULAR = frozenset(
    (
        *("said", "told", "kept", "held", "made", "found", "known", "seen", "given", "taken"),
        *("written", "sent", "shown", "left", "met", "built", "bound", "broken", "chosen"),
        *("drawn", "driven", "fallen", "felt", "forgotten", "grown", "gone", "had", "heard"),
        *("hidden", "laid", "led", "lent", "lost", "meant", "paid", "spoken", "spent", "stood"),
        *("thought", "torn", "understood", "won", "worn", "wound", "brought", "bought"),
        *("caught", "done", "begun", "become", "forbidden", "stuck", "struck", "taught"),
    )
)
_NO_PARTICIPLES = frozenset(
    ("need", "feed", "seed", "speed", "embed", "exceed", "red", "proceed", "succeed", "reseed")
)
_VAGUE_OPENING = re.compile(r"(What|Whether|How|Where)\b")


@dataclass(frozen=True, slots=True, eq=False)
class Module:
    """One file of the package, parsed."""

    path: str
    lines: int
    tree: ast.Module
    text: str = ""


@cache
def parse(path: Path) -> ast.Module:
    """Parse a file of the package; anyone who changes the tree copies it first."""
    return ast.parse(path.read_text("utf-8"), str(path))


@cache
def read(source: Path = SOURCE) -> list[Module]:
    """Read every module below a folder."""
    found = []
    for path in sorted(source.rglob("*.py")):
        text = path.read_text("utf-8")
        name = path.relative_to(source).as_posix()
        found.append(Module(name, text.count("\n"), parse(path), text))
    return found


@cache
def nodes_of(tree: ast.AST) -> tuple[ast.AST, ...]:
    """Return every node below a node; the measures each look at all of them."""
    return tuple(ast.walk(tree))


@cache
def pure_lines(module: Module) -> int:
    """Count the lines of code: without blanks, comments, docstrings and imports."""
    passed: set[int] = set()
    for node in nodes_of(module.tree):
        match node:
            case ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Constant(value=str())):
                passed.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                passed.add(node.lineno)
            case _:  # code, or what stands in a line of it
                pass
    lines = enumerate(module.text.splitlines(), 1)
    bare = ((number, line.strip()) for number, line in lines)
    return sum(bool(line) and line[0] != "#" and number not in passed for number, line in bare)


def pure_by_folder(modules: list[Module]) -> dict[str, int]:
    """Return the pure lines of each package of the first two levels."""
    found: dict[str, int] = defaultdict(int)
    for module in modules:
        found["/".join(Path(module.path).parts[:-1][:2])] += pure_lines(module)
    return dict(found)


def crowded_modules(modules: list[Module]) -> dict[str, int]:
    """Return the modules with more than `MODULE_NAMES` public classes and functions: a file is one
    idea, however many lines it takes to say."""
    sizes = {module.path: _public_names(module.tree) for module in modules}
    return {path: size for path, size in sizes.items() if size > MODULE_NAMES}


def _public_names(tree: ast.Module) -> int:
    kinds = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    return sum(isinstance(node, kinds) and not node.name.startswith("_") for node in tree.body)


def wide_classes(modules: list[Module]) -> dict[str, int]:
    """Return the classes with more than `CLASS_METHODS` methods."""
    found = {}
    for module in modules:
        for node in nodes_of(module.tree):
            if isinstance(node, ast.ClassDef):
                methods = sum(isinstance(child, _FUNCTIONS) for child in node.body)
                if methods > CLASS_METHODS:
                    found[f"{module.path}:{node.name}"] = methods
    return found


def repeated_classes(modules: list[Module]) -> dict[str, list[str]]:
    """Return the public class names that occur in several modules."""
    places: dict[str, list[str]] = defaultdict(list)
    for module in modules:
        for node in nodes_of(module.tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(module.path)
    return {name: paths for name, paths in places.items() if len(paths) > 1}


def participles(modules: list[Module]) -> list[str]:
    """Return the functions whose name begins with a participle."""
    return [
        f"{module.path}:{node.lineno} {node.name}"
        for module in modules
        for node in nodes_of(module.tree)
        if isinstance(node, _FUNCTIONS) and _is_participle(node.name.strip("_").split("_")[0])
    ]


def vague_docstrings(modules: list[Module]) -> list[str]:
    """Return the docstrings that open with What, Whether, How or Where."""
    return [
        f"{module.path}:{line} {text.splitlines()[0]}"
        for module in modules
        for line, text in _docstrings(module.tree)
        if _VAGUE_OPENING.match(text)
    ]


def vague_variables(modules: list[Module]) -> list[str]:
    """Return the loops and comprehensions whose variable is called `one`."""
    return [
        f"{module.path}:{node.target.lineno}"
        for module in modules
        for node in nodes_of(module.tree)
        if isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension))
        and isinstance(node.target, ast.Name)
        and node.target.id == "one"
    ]


def bare_numbers(modules: list[Module]) -> list[str]:
    """Return the module constants that are numbers and have no reason beside them.

    A reason is a docstring behind the constant or behind the group of lines it stands in, or a
    comment at its line or above its group. Units of measure need none, and those in
    `core/limits.py` are promises.
    """
    found = []
    for module in modules:
        lines = module.text.splitlines()
        for group, after in _constants(module.tree):
            docstring = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            above = lines[max(0, group[0].lineno - 3) : group[0].lineno - 1]
            if docstring or any(line.startswith("#") for line in above):
                continue
            found += [
                f"{module.path}:{node.lineno} {name}"
                for node in group
                if (name := _number_name(node))
                and name.strip("_") not in _UNITS
                and "  #" not in lines[node.lineno - 1]
            ]
    return [place for place in found if not place.startswith("core/limits.py")]


def takers(modules: list[Module], name: str) -> list[tuple[str, str, bool]]:
    """Return the functions with a parameter: the place, its type, and whether they do nothing with
    it but hand it on to another function, or keep it."""
    return [
        (f"{module.path}:{function.lineno} {function.name}", kind, _is_handed_on(function, name))
        for module in modules
        for function in nodes_of(module.tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for kind in _types_of(function, name)
    ]


def _types_of(function: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> list[str]:
    args = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
    return [ast.unparse(arg.annotation) for arg in args if arg.arg == name and arg.annotation]


def _is_handed_on(function: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> bool:
    uses, handed = set(), set()
    for node in ast.walk(ast.Module(function.body, [])):
        if isinstance(node, ast.Name) and node.id == name:
            uses.add(node)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) not in _READERS:
            handed |= {*node.args, *(keyword.value for keyword in node.keywords)}
        elif isinstance(node, ast.Assign):
            handed.add(node.value)
    return bool(uses) and uses <= handed


def packages(modules: list[Module]) -> set[str]:
    """Return the packages, the root left out."""
    return {str(Path(module.path).parent) for module in modules} - {"."}


_UNITS = frozenset(("MEGABYTE", "MEBIBYTE", "DAY_SECONDS", "HOUR_SECONDS"))
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def _is_participle(word: str) -> bool:
    regular = word.endswith("ed") and len(word) > 3 and word not in _NO_PARTICIPLES
    return regular or word in _IRREGULAR


def _docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in nodes_of(tree):
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef, ast.Module)):
            yield getattr(node, "lineno", 1), ast.get_docstring(node) or ""
        body = getattr(node, "body", None)
        for before, after in pairwise(body if isinstance(body, list) else []):
            match before, after:
                case (
                    (ast.Assign() | ast.AnnAssign()),
                    ast.Expr(value=ast.Constant(value=str(text))),
                ):
                    yield after.lineno, text


def _constants(tree: ast.Module) -> Iterator[tuple[list[ast.stmt], ast.stmt | None]]:
    """Return each group of assignments on adjoining lines, and the statement that follows it."""
    group: list[ast.stmt] = []
    for node in tree.body:
        is_constant = isinstance(node, (ast.Assign, ast.AnnAssign))
        if group and not (is_constant and node.lineno == (group[-1].end_lineno or 0) + 1):
            yield group, node
            group = []
        if is_constant:
            group.append(node)
    if group:
        yield group, None


def _number_name(node: ast.stmt) -> str:
    """Return the name that a number is given to; nothing for any other statement."""
    match node:
        case ast.AnnAssign(target=ast.Name(id=name), value=value) if value:
            pass
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            pass
        case _:
            return ""
    parts = list(ast.walk(value))
    numeric = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop)
    is_number = all(isinstance(part, numeric) for part in parts) and any(
        isinstance(part, ast.Constant) and type(part.value) in (int, float) for part in parts
    )
    return name if is_number else ""


def _show_takers(found: list[tuple[str, str, bool]], lists_places: bool) -> None:
    print(f"{len(found):8,}  functions take it")
    print(f"{sum(is_handed for *_, is_handed in found):8,}  hand it on, or keep it, and no more")
    for kind, count in Counter(kind for _place, kind, _is_handed in found).most_common():
        print(f"{count:8,}  {kind}")
        if lists_places:
            print(*(f"          {place}" for place, each, _ in found if each == kind), sep="\n")


def main(arguments: list[str]) -> int:
    """Print the numbers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--list", action="store_true", help="name each place")
    parser.add_argument("--parameter", metavar="NAME", help="follow a parameter instead")
    parser.add_argument("--src", type=Path, default=SOURCE, help="the folder to measure")
    options = parser.parse_args(arguments)
    modules = read(options.src)
    if options.parameter:
        _show_takers(takers(modules, options.parameter), options.list)
        return 0
    rows: list[tuple[str, int, list[str]]] = [
        ("modules", len(modules), []),
        ("lines", sum(module.lines for module in modules), []),
        (
            "pure lines: no blanks, comments, docstrings, imports",
            sum(map(pure_lines, modules)),
            [f"{size:6,} {path or '.'}" for path, size in sorted(pure_by_folder(modules).items())],
        ),
        ("packages", len(packages(modules)), []),
        (
            f"modules over {MODULE_NAMES} public names",
            len(crowded_modules(modules)),
            [f"{size:6,} {path}" for path, size in crowded_modules(modules).items()],
        ),
        (
            f"classes over {CLASS_METHODS} methods",
            len(wide_classes(modules)),
            [f"{size:6,} {path}" for path, size in wide_classes(modules).items()],
        ),
        (
            "public class names that repeat",
            len(repeated_classes(modules)),
            [f"{name}: {', '.join(paths)}" for name, paths in repeated_classes(modules).items()],
        ),
        ("functions named by a participle", len(participles(modules)), participles(modules)),
        (
            "docstrings that open with What, Whether, How, Where",
            len(vague_docstrings(modules)),
            vague_docstrings(modules),
        ),
        ("loop variables called `one`", len(vague_variables(modules)), vague_variables(modules)),
        ("numbers without a reason", len(bare_numbers(modules)), bare_numbers(modules)),
    ]
    for name, count, places in rows:
        print(f"{count:8,}  {name}")
        if options.list:
            print(*(f"          {place}" for place in places), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
