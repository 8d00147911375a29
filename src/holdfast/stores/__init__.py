"""Durable things: session logs, blobs, notes, and indexes that can always be rebuilt."""

from holdfast import _public

_STUB = f"{__path__[0]}/__init__.pyi"


def __getattr__(name: str) -> object:
    if name == "__all__":
        return sorted(_public.homes(_STUB))
    return _public.load(__name__, _STUB, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_public.homes(_STUB)})
