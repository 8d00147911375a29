"""Whatever stands in a log where something else should, every surface answers, and it goes on.

Other programs write logs, and people edit them. Each case is a log of the corpus with odd values in
some of its fields. A surface may refuse what it cannot read; it never fails with an error of ours.
"""

from __future__ import annotations

import asyncio
import copy
import json
import random
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pytest
from tests.support.cli import run_in_process
from tests.support.runs import RUN
from tests.surfaces.http.servers import serving
from tests.surfaces.proxy.test_app_odd_shapes import places
from tests.surfaces.test_every_number import READ, SLASH_CHANGES, TOOLS_READ, filled

from holdfast.core.history.access import OPERATOR
from holdfast.core.log.ids import SessionKey
from holdfast.core.owners import ANY_OWNER
from holdfast.engine.history.request import RequestRefused
from holdfast.engine.operations.tools import TOOLS
from holdfast.engine.session.options import SessionOptions
from holdfast.engine.session.session import Session
from holdfast.engine.workspace.workspace import CallerWorkspace
from holdfast.errors import HoldfastError, UsageError
from holdfast.stores.opening import open_store
from holdfast.surfaces import slash_commands
from holdfast.surfaces.chat_context import ChatContext
from holdfast.testing import ScriptedModel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.ports import SessionStore

pytestmark = pytest.mark.files_only("it writes logs")

CORPUS: Final = Path(__file__).parents[1] / "corpus" / "v1"
LOGS: Final = {"quick": 2, "test": 5, "nightly": 200}
"""Logs in each run."""
DEEP: Any = []
for _level in range(300):
    DEEP = [DEEP]
ODD: Final[list[Any]] = [
    *(None, True, -1, 0, 1.5, 10**30, "", "\ud800", "\0", "x", "A" * 30_000, [], {}, [None], [[]]),
    *(DEEP, {"a": {"a": 1}}, [1, "2", None, {"type": "text"}], [{"type": 7}], "2026-11-18T00:00Z"),
    *([{"type": "tool_use"}], [{"type": "thinking", "thinking": "hm", "signature": "c2ln"}]),
    [{"type": "image", "source": {"type": "base64", "data": 3}}],
    [{"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "tool_use"}]}],
]
PAGES: Final = ("", "/context", "/context/fate", "/context/time", "/context/changes", "/inspect")


def odd_log(luck: random.Random) -> bytes:
    """Return a log of the corpus with odd values in one to four places."""
    names = sorted(path for path in CORPUS.glob("*.jsonl") if path.stem not in ("damaged", "torn"))
    lines = luck.choice(names).read_bytes().splitlines()
    for _ in range(luck.choice([1, 1, 2, 4])):
        at = luck.randrange(len(lines))
        with suppress(ValueError):
            record = json.loads(lines[at])
            *path, last = luck.choice(list(places(record)))
            inner = record
            for step in path:
                inner = inner[step]
            inner[last] = copy.deepcopy(luck.choice(ODD))
            lines[at] = json.dumps(record).encode()
    return b"\n".join(lines) + b"\n"


def odd_contents() -> bytes:
    """Return a log in which each odd value is the content of a message of each role."""
    header = (CORPUS / "every-type.jsonl").read_bytes().splitlines()[0]
    said: list[dict[str, Any]] = []
    for number, odd in enumerate(ODD):
        call = {"type": "tool_use", "id": f"c{number}", "name": "look", "input": odd}
        said += [
            {"type": "user", "content": odd},
            {"type": "assistant", "content": odd},
            {"type": "assistant", "content": [call]},
            {"type": "tool_result", "tool_use_id": f"c{number}", "content": odd},
        ]
    lines = [json.dumps({**record, "id": f"r{at:05d}"}) for at, record in enumerate(said)]
    return b"\n".join((header, *(line.encode() for line in lines))) + b"\n"


def values_of(store: SessionStore, key: SessionKey) -> dict[str, str]:
    records = list(store.read(key))
    names = {"agent": key.agent, "session": key.session, "key": str(key)}
    results = [record.id for record in records if record.kind == "tool_result"] or ["none"]
    return {**names, "record": records[-1].id, "result": results[-1], "ref": results[-1]}


def check_commands(root: Path, values: dict[str, str], capfd: Any) -> None:
    for name, ways in READ.items():
        for way in ways:
            for more in ([], ["--json"]):
                argv = [name, *filled(way, values), *more, "--root", str(root)]
                done = run_in_process(argv, capfd)
                assert done.status in (0, 1, 2), argv
                assert "Traceback" not in done.err, argv


def check_session(store: SessionStore, key: SessionKey) -> None:
    """Use a session in every way: slash commands, tools, turns, a cut and the ways back."""
    for name, given in TOOLS_READ.items():
        with suppress(HoldfastError, RequestRefused, msgspec.ValidationError):
            TOOLS[name].call(CallerWorkspace(store, OPERATOR), filled(given, values_of(store, key)))
    model = ScriptedModel(otherwise="fine", window=32_000)
    try:
        session = Session.open(key.session, store=store, model=model, owner=ANY_OWNER)
    except HoldfastError:
        return  # its header cannot be read: nobody knows whose it is
    with session:
        chat = ChatContext(store, key.agent, model, SessionOptions(), audience="operator")
        with suppress(HoldfastError), chat.open(key):
            for command in slash_commands.COMMANDS:
                if command.name not in SLASH_CHANGES:
                    slash_commands.run_command(f"/{command.name}", chat)
        try:
            assert session.say("hello?").text == "fine"
            session.compact()
            assert session.say("again").text == "fine"
            session.checkpoint()
            with suppress(UsageError):  # nothing is left to take back
                session.undo()
                session.rewind(turns=1)
            session.reset()
        except HoldfastError as error:  # of a format to come, or of an unknown owner
            if "header" not in str(error) and "who owns" not in str(error):
                raise


async def check_addresses(store: SessionStore, keys: list[SessionKey]) -> None:
    async with serving(store) as client:
        described = (await client.get("/openapi.json")).json()["paths"]
        paths = [path for path, ways in described.items() if "get" in ways and "{session}" in path]
        paths = [path for path in paths if not path.endswith("/events")]  # it does not end
        paths += [f"/s/{{agent}}/{{session}}{page}" for page in PAGES]
        for key in keys:
            values = {**values_of(store, key), "name": "none"}
            for path in paths:
                got = await client.get(filled(path, values))
                assert got.status_code < 500, (path, got.text[-2_000:])
        for path in ("/", "/sessions", "/v1/memory/search?query=x&agent=main", "/metrics"):
            assert (await client.get(path)).status_code == 200, path


def cases() -> Iterator[int]:
    yield from range(LOGS[RUN])


def test_every_surface_answers_about_any_log(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Commands, pages, addresses, slash commands, tools and turns."""
    root = tmp_path / "root"
    folder = root / "agents" / "main" / "sessions"
    keys = [SessionKey("main", f"s{number}") for number in cases()]
    with open_store(str(root)) as store:
        for key in keys:
            store.create(key)
    for number, key in enumerate(keys):
        data = odd_log(random.Random(number)) if number else odd_contents()
        (folder / f"{key.session}.jsonl").write_bytes(data)
    with open_store(str(root)) as store:
        for key in keys:
            check_commands(root, values_of(store, key), capfd)
        asyncio.run(check_addresses(store, keys))
        for key in keys:
            check_session(store, key)
