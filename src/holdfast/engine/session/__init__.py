"""Sessions, blocking and asynchronous, and the drivers that run their flows.

The class of a session is loaded without the code that it works with. `__init__.pyi` names that
code; it is loaded when a session is opened, so that naming `holdfast.Session` costs little.
"""

from __future__ import annotations

from holdfast import _public

_STUB = f"{__path__[0]}/__init__.pyi"


def __getattr__(name: str) -> object:
    found = _public.load(__name__, _STUB, name)
    globals()[name] = found
    return found
