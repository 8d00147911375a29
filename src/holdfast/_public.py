"""Loads the public names of a package on first use.

A package states its names once, in `__init__.pyi`, where type checkers and editors read them.
At run time the same file says which module each name comes from, so importing the package costs
nothing until a name is used.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module


def load(package: str, stub: str, name: str) -> object:
    """Return a public name of a package, imported from the module that its stub states."""
    module = homes(stub).get(name)
    if module is None:
        raise AttributeError(f"module `{package}` has no `{name}`")
    return getattr(import_module(module), name)


@cache
def homes(stub: str) -> dict[str, str]:
    """Return the module of each name that a stub re-exports as itself."""
    with open(stub, encoding="utf-8") as file:
        text = file.read()
    found = {}
    for statement in f"\n{text}".split("\nfrom ")[1:]:  # no pattern: every process reads a stub
        module, _, names = statement.partition(" import ")
        names = names.strip("(").partition(")" if names.startswith("(") else "\n")[0]
        for pair in names.split(","):
            name, _, alias = pair.strip().partition(" as ")
            if name and name == alias:
                found[name] = module
    return found
