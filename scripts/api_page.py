"""Write docs/api.md, the reference of every public name, from the docstrings.

python scripts/api_page.py          # writes the page
python scripts/api_page.py --check  # fails where the page is out of date
"""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

PAGE = Path(__file__).parent.parent / "docs" / "api.md"
MODULES = (
    *("holdfast", "holdfast.records", "holdfast.events", "holdfast.models", "holdfast.tokens"),
    *("holdfast.failures", "holdfast.context", "holdfast.memory", "holdfast.commands"),
    *("holdfast.gateway", "holdfast.evaluation", "holdfast.stores", "holdfast.importers"),
    *("holdfast.testing", "holdfast.errors"),
)
"""Where users import from; `holdfast.integrations` has one public module for each framework."""

HEAD = """# Reference

Every public name, by the module that users import it from. Everything else is private and may
change without notice. All of it is new in 0.2.0, the first published release; what a later release
adds says so in its docstring ("New in 0.3."). `make api` writes this page from the docstrings.
"""


def public_names(module: str) -> list[str]:
    """Return the public names of a module: its `__all__`, or what it defines or re-exports."""
    loaded = importlib.import_module(module)
    stated: list[str] | None = getattr(loaded, "__all__", None)
    if stated is None:
        stated = [name for _module, name in _imports(loaded)]
    return sorted(stated, key=str.lower)


def page() -> str:
    """Return the text of the page."""
    return "\n".join([HEAD, *(_section(module) for module in MODULES)])


def undocumented() -> list[str]:
    """Return the public names that nothing describes."""
    return [
        f"{module}.{name}"
        for module in MODULES
        for name in public_names(module)
        if not _describe(importlib.import_module(module), name)
    ]


def _section(module: str) -> str:
    loaded = importlib.import_module(module)
    rows = [f"| `{name}` | {_describe(loaded, name)} |" for name in public_names(module)]
    lead = _first_paragraph(inspect.getdoc(loaded) or "")
    return "\n".join([f"## `{module}`\n", f"{lead}\n", "| name | |", "|---|---|", *rows, ""])


def _describe(module: ModuleType, name: str) -> str:
    value = getattr(module, name)
    text = own_doc(value) if inspect.isclass(value) or inspect.isroutine(value) else ""
    return _first_paragraph(text or stated_doc(module, name)).replace("|", "\\|")


def own_doc(value: object) -> str:
    """Return the docstring of a class or function, without what a class inherits."""
    text = vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__
    return inspect.cleandoc(text or "")


def _first_paragraph(text: str) -> str:
    return " ".join(text.split("\n\n")[0].split())


def stated_doc(module: ModuleType, name: str) -> str:
    """Return the string under an assignment, in the module that a name comes from."""
    docs = _docs_in(inspect.getsourcefile(module) or "")
    home = next((inner for inner, imported in _imports(module) if imported == name), None)
    return docs.get(name) or (stated_doc(importlib.import_module(home), name) if home else "")


def _imports(module: ModuleType) -> list[tuple[str, str]]:
    """Return (module, name) for each of our names that a module or its stub imports."""
    path = Path(inspect.getsourcefile(module) or "")
    stub = path.with_suffix(".pyi")
    tree = ast.parse((stub if stub.exists() else path).read_text("utf-8"))
    return [
        (node.module, alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("holdfast.")
        for alias in node.names
    ]


@cache
def _docs_in(path: str) -> dict[str, str]:
    body = ast.parse(Path(path).read_text("utf-8")).body
    found = {}
    for node, after in pairwise(body):
        match node, after:
            case (
                (ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name))),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                found[name] = inspect.cleandoc(text)
    return found


def main(arguments: list[str]) -> int:
    """Write the page, or with `--check` compare it."""
    if "--check" in arguments:
        return 0 if PAGE.read_text("utf-8") == page() else 1
    PAGE.write_text(page(), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
