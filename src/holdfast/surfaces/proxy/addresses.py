"""The servers that requests are passed on to, from the options of the command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import msgspec

from holdfast.core.proxy.endpoints import OWN_PATH
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.errors import BadSetting

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

UPSTREAMS: Final[Mapping[str, str]] = {
    "anthropic": "https://api.anthropic.com",
    "openai": "https://api.openai.com",
    "gemini": "https://generativelanguage.googleapis.com",
}
"""The providers' own servers, by the names that `--upstream` takes."""
_NAME: Final = lazy_pattern(r"[a-z0-9][a-z0-9_-]*")


class Upstream(msgspec.Struct, frozen=True):
    """A server that requests are passed on to."""

    name: str
    url: str

    def address(self, path: str, query: str = "") -> str:
        """The address for a client's path. A path that both have in common stands once, so that
        `openai=http://host/v1` serves a client whose base is `…/v1`."""
        parts = urlsplit(self.url)
        shared = parts.path.rstrip("/")
        if shared and (path == shared or path.startswith(f"{shared}/")):
            path = path[len(shared) :]
        asked = f"?{query}" if query else ""
        return f"{parts.scheme}://{parts.netloc}{shared}{path}{asked}"


def read_upstreams(given: Iterable[str]) -> dict[str, Upstream]:
    """Read `NAME=URL` options. The providers' own servers are the defaults."""
    found = dict(UPSTREAMS)
    for option in given:
        name, equals, url = option.partition("=")
        if not equals or _NAME.fullmatch(name) is None:
            raise BadSetting(
                f"`--upstream {option[:200]}` is not NAME=URL",
                hint="for example `--upstream openai=http://127.0.0.1:8000/v1`; a name has small "
                "letters, digits, `-` and `_`",
            )
        if name == OWN_PATH.strip("/"):
            raise BadSetting(
                f"an upstream cannot be called `{name}`: the proxy's own addresses begin so",
                hint="choose another name",
            )
        found[name] = url.strip()
    return {name: Upstream(name, _check_url(name, url)) for name, url in found.items()}


def _check_url(name: str, url: str) -> str:
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname)
        is_good = is_good and not parts.query and not parts.fragment and (parts.port or 1) > 0
    except ValueError:
        is_good = False
    if not is_good or "@" in parts.netloc:
        raise BadSetting(
            f"the address of the upstream `{name}` cannot be used",
            hint="give `http://host:port` or `https://host/path`, without a password and a query; "
            "keys come from the client",
        )
    return url.rstrip("/")
