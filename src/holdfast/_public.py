"""Loads the public names of a package on first use.

A package states its names once, in `__init__.pyi`, where type checkers and editors read them.
At run time the same file says which module each name comes from, so importing the package costs
nothing until a name is used.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module

_IMPORT = r"^from (\S+) import (?:\(([^)]*)\)|(.*))$"


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
    return {
        name: module
        for module, many, few in re.findall(_IMPORT, text, re.MULTILINE)
        for name in re.findall(r"(\w+) as \1\b", many or few)
    }
