"""Both kinds of session have one surface, and one set of options."""

from __future__ import annotations

import inspect
import subprocess
import sys

from holdfast.engine.session.async_session import AsyncSession
from holdfast.engine.session.options import OptionKeywords, SessionOptions
from holdfast.engine.session.session import Session

OWN = {
    Session: {"__enter__", "__exit__"},
    AsyncSession: {"__aenter__", "__aexit__"},
}
MODELS = {"Model": "AsyncModel", "Iterator": "AsyncIterator"}


def _surface(session: type) -> dict[str, str]:
    """The public methods of a session and their signatures, in the words of `AsyncSession`."""
    found = {}
    for name, method in inspect.getmembers(session, inspect.isroutine):
        is_public = not name.startswith("_") or name in OWN[session] | {"__init__"}
        if is_public and name not in OWN[session]:
            signature = str(inspect.signature(method))
            for blocking, awaited in MODELS.items():
                signature = signature.replace(awaited, blocking)
            found[name] = signature
    return found


def test_both_kinds_of_session_have_one_surface() -> None:
    """The same methods, with the same parameters and results."""
    assert _surface(Session) == _surface(AsyncSession)


def test_every_option_is_a_keyword_of_open() -> None:
    """The keywords that editors offer are the fields of the options, no more and no less."""
    assert set(OptionKeywords.__annotations__) == set(SessionOptions.__struct_fields__)


def test_a_blocking_session_needs_no_event_loop() -> None:
    """A turn with a tool runs without asyncio, which takes a while to load."""
    program = (
        "import sys\n"
        "from holdfast import Session\n"
        "from holdfast.stores import MemoryStore\n"
        "def shout(text: str) -> str:\n"
        "    return text.upper()\n"
        "with Session.open('s', model='offline', store=MemoryStore(), tools=[shout]) as session:\n"
        "    session.say('shout(text=\"hello\")')\n"
        "    session.undo()\n"
        "assert 'asyncio' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
