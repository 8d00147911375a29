"""Holdfast: durable sessions and a bounded context for LLM agents.

>>> from holdfast import Session
>>> session = Session.open("my-project", model="offline", tools=[read_file])
>>> reply = session.say("read_file(path='README.md')")

The names most programs need are here. The rest of the public surface is in named modules:
`holdfast.records`, `events`, `models`, `tokens`, `failures`, `context`, `memory`, `commands`,
`simulation`, `evaluation`, `stores`, `importers`, `testing`, `errors` and `integrations`.
Everything else is private.
"""

from holdfast import _public

__version__ = "0.2.0.dev0"

_MOVED = {
    **dict.fromkeys(("Deny", "Event"), "events"),
    **dict.fromkeys(("Delta", "Model", "Tool"), "models"),
    **dict.fromkeys(("CannotFit", "ContextOverflow"), "errors"),
    "context_tool": "context",
}
"""Names that were here, and the modules that have them."""
_STUB = f"{__path__[0]}/__init__.pyi"


def __getattr__(name: str) -> object:
    if name == "__all__":
        return sorted(_public.homes(_STUB))
    if name in _MOVED:
        raise AttributeError(f"module `holdfast` has no `{name}`: `holdfast.{_MOVED[name]}` has it")
    return _public.load(__name__, _STUB, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_public.homes(_STUB)})
