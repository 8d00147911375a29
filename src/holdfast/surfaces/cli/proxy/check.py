"""The set-up of a proxy, tried end to end: a proxy is started, and its upstreams are asked."""

from __future__ import annotations

import argparse
import http.client
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import msgspec

from holdfast.surfaces.cli.proxy.proxy import build_app

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.surfaces.cli.app import App

_SECONDS: Final = 15.0
"""For an upstream to answer a request for its models."""
_OURS: Final = "Holdfast proxy: "


def check_upstreams(given: Sequence[str], app: App) -> Iterator[tuple[str, int, str]]:
    """Ask each upstream for its models, through a proxy, without a key.

    Yields its name, the status of the answer, and what the proxy said where there was none.
    """
    options = argparse.Namespace(
        upstream=list(given), mode="observe", window=None, own_tools=False, silent_seconds=_SECONDS
    )
    proxy = build_app(options, app)
    from holdfast.surfaces.proxy.running import ProxyThread

    with ProxyThread(proxy) as running:
        address = urlsplit(running.url)
        for name in proxy.upstreams:
            path = "v1beta/models" if name == "gemini" else "v1/models"
            connection = http.client.HTTPConnection(
                address.hostname or "", address.port, timeout=2 * _SECONDS
            )
            try:
                connection.request("GET", f"/{name}/{path}")
                answer = connection.getresponse()
                yield name, answer.status, _own_words(answer.read())
            except OSError as error:
                yield name, 0, str(error)
            finally:
                connection.close()


def _own_words(body: bytes) -> str:
    """Our own sentence in an error; empty for an answer of the upstream's."""
    try:
        said = msgspec.json.decode(body)["error"]["message"]
    except (msgspec.DecodeError, UnicodeDecodeError, LookupError, TypeError):
        return ""
    return said if isinstance(said, str) and said.startswith(_OURS) else ""
