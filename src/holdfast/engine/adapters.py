"""The frameworks that there are adapters for, and the releases that these were tested with."""

from __future__ import annotations

import warnings
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.errors import BadSetting, HoldfastWarning

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_NUMBERS: Final = lazy_pattern(r"\d+")
_checked: Final[set[str]] = set()
"""Adapters whose framework was found, and whose release was warned about if it is too old."""


class Integration(msgspec.Struct, frozen=True):
    """An adapter, its framework, and which release of that is here."""

    name: str
    """The module, in `holdfast.integrations`."""
    package: str
    """The distribution to install."""
    lowest: str
    """The lowest release that the adapter was tested with."""
    newest: str
    """The newest release that it was tested with."""
    installed: str | None = None
    """The release that is installed here; None where there is none."""

    @property
    def is_tested(self) -> bool:
        """True where the installed release is in the tested range."""
        if self.installed is None:
            return False
        return _numbers(self.lowest) <= _numbers(self.installed) <= _numbers(self.newest)

    @property
    def is_older(self) -> bool:
        """True where the installed release is older than the tested ones."""
        return self.installed is not None and _numbers(self.installed) < _numbers(self.lowest)

    @property
    def range(self) -> str:
        """The tested range in words."""
        return self.lowest if self.lowest == self.newest else f"{self.lowest} to {self.newest}"


_KNOWN: Final = (
    Integration("agent_framework", "agent-framework-core", "1.20.0", "1.23.0"),
    Integration("anthropic_memory", "anthropic", "2.8.0", "2.9.0"),
    Integration("claude_agent", "claude-agent-sdk", "0.2.150", "0.2.183"),
    Integration("google_adk", "google-adk", "2.11.0", "2.13.0"),
    Integration("langchain", "langchain", "1.3.0", "1.4.7"),
    Integration("langgraph", "langgraph-checkpoint", "4.3.0", "4.3.2"),
    Integration("openai_agents", "openai-agents", "0.23.1", "0.24.0"),
    Integration("opentelemetry", "opentelemetry-api", "1.44.0", "1.45.2"),
    Integration("pydantic_ai", "pydantic-ai-slim", "2.66.0", "2.66.0"),
    Integration("strands", "strands-agents", "1.60.0", "1.62.0"),
)


def integrations() -> tuple[Integration, ...]:
    """Return every adapter, with the release of its framework that is installed here."""
    return tuple(_look_up(known) for known in _KNOWN)


def require(name: str) -> None:
    """Raise `BadSetting` where an adapter's framework is missing.

    Warns once about a release that is older than those it was tested with. About a newer one
    `holdfast doctor` has a line: most work, and a program must not fail over a warning of ours.
    """
    if name in _checked:
        return  # to look for a package reads many files
    found = _look_up(next(known for known in _KNOWN if known.name == name))
    if found.installed is None:
        raise BadSetting(
            f"the adapter `{name}` needs the package {found.package}",
            hint=f"pip install '{found.package}>={found.lowest}'",
        )
    _checked.add(name)
    if found.is_older:
        warnings.warn(
            f"{found.package} {found.installed} is installed; the adapter was tested with "
            f"{found.range}",
            HoldfastWarning,
            stacklevel=3,
        )


def classes_on_use(module: str, adapter: str, classes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module whose classes are made on first use.

    `classes` has the place of each, as `module:Class`. The base that it is made over is a class of
    the framework: its `framework_base`, of the same form.
    """

    @cache
    def find(name: str) -> Any:
        if name not in classes:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        require(adapter)
        own = _import(f"holdfast.integrations.{classes[name]}")
        about = {"__doc__": own.__doc__, "__module__": module}
        return type(name, (own, _import(own.framework_base)), about)

    return find


def _import(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


def _look_up(known: Integration) -> Integration:
    return msgspec.structs.replace(known, installed=_release_of(known.package))


def _release_of(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _numbers(release: str) -> tuple[int, ...]:
    """Return the first four numbers of a release; those that it has not are zero."""
    found = [int(number) for number in _NUMBERS.findall(release)]
    return tuple([*found, 0, 0, 0, 0][:4])
