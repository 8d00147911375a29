"""Nothing leaks: whatever shows content masks secrets, tames escapes and escapes HTML.

Commands, slash commands, tools and exporters are found by introspection: one that is added has to
be given arguments here, or the test fails.
"""

from __future__ import annotations

import ast
import io
import json
import re
import shutil
import sys
from contextlib import suppress
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from scripts import house
from tests.core.secrets.planted_secrets import ALNUM, made
from tests.support.databases import read_index
from tests.support.planted import INSTRUCTION, PATH, PLANTED, TASK, planted_session
from tests.support.runs import sample
from tests.surfaces.chats import Seat
from tests.surfaces.mcp.owners import Owned, ask
from tests.surfaces.mcp.test_server import walk
from tests.surfaces.terminals import Terminal

import holdfast.surfaces
from holdfast import Assistant, Caller, History, JsonlStore, Memory, SessionKey, ToolResult, User
from holdfast.core.log.damage import Flaw
from holdfast.core.log.records import (
    Checkpoint,
    Flush,
    Label,
    OutputRef,
    ToolUse,
    decode,
    encode,
)
from holdfast.engine.memory.tools import memory_tools
from holdfast.engine.workspace.workspace import CallerWorkspace
from holdfast.importers.export import TRANSCRIPTS
from holdfast.importers.export_messages import DIALECTS
from holdfast.stores import ANY_HEAD
from holdfast.surfaces import cli, slash_commands
from holdfast.surfaces.cli.help import COMMANDS, build_parser
from holdfast.surfaces.cli.terminal import Output
from holdfast.surfaces.mcp.server import McpClient, build_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast import Record
    from holdfast.stores import SessionStore

pytestmark = pytest.mark.files_only(
    "it copies a planted folder; `test_every_store` compares every command over PostgreSQL with it"
)

VALUE = "correct-horse-battery-77"
"""Registered with HOLDFAST_SECRETS."""
PLACES = (
    *("message", "arrow", "colour", "middle", "wide", "reply", "tool", "argument", "result"),
    *("label", "bookmark", "model", "id", "note", "notefile", "flush", "checkpoint", "file"),
    *("blob", "summary", "asked"),
)
KEYS = {place: "gh" + "p_" + made(place, ALNUM, 36) for place in PLACES}
"""A key for each place, known by its shape alone."""
CONTROLS = ("\x1b]0;owned\x07", "\x1b[2J", "\x1b[5;41m", "\x9b5m", "\x08")
"""Planted; the surface itself makes none of them."""
EVIL = "".join(CONTROLS)
HTML = "<script>alert(1)</script>"
KEY = SessionKey("main", "work")
TINTED = f"{KEYS['middle'][:12]}\x1b[1;31m{KEYS['middle'][12:20]}\x1b[0m{KEYS['middle'][20:]}"


def records() -> list[Record]:
    """Return a conversation with a planted value wherever one can stand."""
    said = (
        f"the key is {KEYS['message']}; {VALUE}; {EVIL} {HTML}\n"
        f'{{"next": "\\u2192{KEYS["arrow"]}"}}\n'
        f"\x1b[01;31m\x1b[K{KEYS['colour']}\x1b[m\x1b[K and {TINTED} "
        f"密码：{KEYS['wide']}，always remember that"
    )
    call = {
        "type": "tool_use",
        "id": "c1",
        "name": f"run_{KEYS['tool']}{HTML}",
        "input": {"command": f"login --key {KEYS['argument']} {VALUE} {EVIL}"},
    }
    return [
        User(content=said, name=f"{VALUE}{HTML}"),
        Assistant(
            content=[{"type": "text", "text": f"noted {KEYS['reply']} {VALUE} {EVIL}"}, call],
            model=f"model-{KEYS['model']}{HTML}",
            provider=VALUE,
        ),
        ToolUse(tool_use_id="c1", name=f"run_{KEYS['tool']}", input={"key": KEYS["argument"]}),
        ToolResult(tool_use_id="c1", content=f"{KEYS['result']} {VALUE}{EVIL}{HTML}\n" * 40),
        Flush(notes=[f"a note with {KEYS['flush']}"], trigger=VALUE),
        Checkpoint(state={"current_objective": f"{KEYS['checkpoint']} {VALUE} {EVIL}"}),
        User(content=f"what is {VALUE} in {HTML}? {KEYS['asked']}"),
        Assistant(content=f"it is {VALUE}", model=f"model-{KEYS['model']}"),
    ]


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("planted") / "root"
    with JsonlStore(root) as store:
        plant(store)
    plant_file(root.parent)
    return root


def plant(store: SessionStore) -> None:
    """Fill a store with planted values."""
    store.create(KEY, label=f"{KEYS['label']} {VALUE} {EVIL}{HTML}")
    store.append(KEY, records(), expect=ANY_HEAD)
    head = store.head(KEY)
    store.append(KEY, [Label(label=f"{KEYS['bookmark']}{EVIL}", target=head)], expect=ANY_HEAD)
    store.create(SessionKey("main", KEYS["id"]), label=VALUE)
    notes = store.notes("main")
    notes.put("MEMORY.md", None, f"- {KEYS['note']} {VALUE} {EVIL}\n".encode())
    notes.put(f"{KEYS['notefile']}.md", None, b"- a note\n")
    sha256 = store.blobs.put(f"{KEYS['blob']} {VALUE} {EVIL}\n".encode() * 50)
    ref = OutputRef(sha256=sha256, bytes=100, kind="text")
    result = ToolResult(tool_use_id="c2", content="a preview", output_ref=ref)
    store.append(KEY, [result], expect=ANY_HEAD)


def plant_file(folder: Path) -> None:
    """Write a transcript with planted values."""
    (folder / f"{KEYS['file']}.json").write_text(
        json.dumps([{"role": "user", "content": f"hello {VALUE} {KEYS['message']}"}])
    )


@pytest.fixture
def root(planted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOLDFAST_SECRETS", "PLANTED")
    monkeypatch.setenv("PLANTED", VALUE)
    monkeypatch.setenv("TERM", "xterm-256color")
    shutil.copytree(planted.parent, tmp_path / "all")
    return tmp_path / "all" / "root"


def arguments(root: Path) -> dict[str, list[list[str]]]:
    with JsonlStore(root) as store:
        return ways_to_call(store, root.parent)


def ways_to_call(store: SessionStore, folder: Path) -> dict[str, list[list[str]]]:
    """Return ways to call each command, on a planted store and with a planted file."""
    ids = [record.id for record in store.read(KEY)]
    file = str(folder / f"{KEYS['file']}.json")
    page = str(folder / "page.html")
    return {
        "sessions": [[]],
        "new": [[f"a {KEYS['label']}"], ["--id", f"n-{KEYS['id']}"]],
        "label": [["work"], ["work", f"{KEYS['label']}{EVIL}"]],
        "fork": [["work", "--label", VALUE]],
        "rm": [["work"], ["--list"], ["--restore", "work"], ["--empty"], [KEYS["id"]]],
        "retention": [["--bytes", "0", "--dry-run"], ["--days", "400"]],
        "erase": [["work", "--dry-run"], ["work", "--yes"], ["work"], [KEYS["id"], "--yes"]],
        "append": [["work"]],
        "log": [["work", *more] for more in ([], ["--all"], ["-n", "3"], ["--branches"])]
        + [[KEYS["asked"]]],
        "show": [[record] for record in ids],
        "rewind": [["work", ids[2], "--reason", VALUE], ["work", KEYS["asked"]]],
        "output": [[ids[4], "--session", "work"], [ids[4], "-s", "work", "-o", "-"], [VALUE]],
        "history": [["work"], ["work", "--include-tools"], ["work", "--query", VALUE], [VALUE]],
        "audit": [[]],
        "memory": [
            *(
                ["add", f"note {KEYS['note']} {VALUE}"],
                ["list"],
                ["show", "MEMORY"],
                ["show", VALUE],
            ),
            *(["search", "noted", "--scope", "all", "--words-only"], ["index", "--words-only"]),
            *(["get", "MEMORY.md#L1"], ["get", f"main/work#{ids[1]}"], ["show", KEYS["notefile"]]),
        ],
        "import": [[file, "--session", "imported"], [file + VALUE]],
        "adopt": [[file], [str(folder / "other"), "--dry-run"], [file + VALUE], ["--from", VALUE]],
        "export": [["work"], *(["work", "--format", each] for each in (*DIALECTS, *TRANSCRIPTS))],
        "copy": [[str(folder / "copied"), *more] for more in ([], ["--dry-run"])],
        "reseed": [["work"]],
        "checkpoint": [["work"], ["work", "--summary"], ["work", "--save"], ["work", "--list"]],
        "inspect": [["work"], ["work", "--html", page], [file]],
        "context": [["work", "--window", "32000"], ["work", "--window", "32000", "--explain"]],
        "simulate": [["work", "--window", "32000"]],
        "evaluate": [
            *(["work", "--policy", "recorded"], ["work", "--html", page], [file], [VALUE]),
            *(["work", "--policy", VALUE], ["work", "--baseline", VALUE]),
        ],
        "verify": [["work"], [], ["work", "--repair"]],
        "disk": [[], ["--clean"]],
        "timer": [
            *(["list"], ["add", "work", "R/PT1H", VALUE, "--name", "look"], ["cancel", VALUE]),
            *(["add", "work", VALUE, "hello"], ["change", "look", "--text", VALUE]),
        ],
        "token": [["list"], ["revoke", VALUE]],
        "approvals": [
            *(["list"], ["list", "--session", VALUE], ["deny", VALUE, VALUE]),
            *(["approve", VALUE, "--by", VALUE], ["approve", VALUE, "--arguments", VALUE]),
        ],
        "classify": [["--why"]],
        "completion": [["bash"]],
        "models": [[VALUE], [KEYS["model"], "--provider", VALUE]],
        "doctor": [[], ["--config", VALUE], ["--model", VALUE]],
        "serve": [["--config", VALUE], ["--host", VALUE]],
        "wrap": [["--upstream", f"openai=http://{VALUE}@host", "true"], [f"no-{VALUE}"]],
        "proxy": [["--upstream", f"openai=http://{VALUE}@host"], ["--host", VALUE]],
        "mcp": [["--words-only"], ["--session", VALUE], ["--model", VALUE]],
        "telegram": [["--allow", VALUE], ["--api-base", VALUE]],  # a bot runs until it is stopped
        "chat": [["work", "--model", "offline", "--no-tools"]],
        "demo": [],  # plays a recording of ours
    }


STDIN = {
    "append": json.dumps({"type": "user", "content": KEYS["message"]}),
    "chat": f"/status\n/sessions\n/label {VALUE}\n/quit\n",
    "mcp": json.dumps({"jsonrpc": "2.0", "id": 1, "method": VALUE, "params": {"a": VALUE}}),
    "classify": json.dumps({"status": 400, "message": f"{KEYS['message']} {VALUE}"}),
}


def test_every_command_is_walked(root: Path) -> None:
    """A new command has to be added here."""
    known = {*COMMANDS}
    assert set(arguments(root)) == known


class Screen(io.TextIOWrapper):
    """A terminal in this process."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", write_through=True)

    def isatty(self) -> bool:
        return True

    @property
    def seen(self) -> str:
        assert isinstance(self.buffer, io.BytesIO)
        return self.buffer.getvalue().decode(errors="replace")


def run(root: Path, patch: pytest.MonkeyPatch, *argv: str) -> str:
    return shown([*argv, "--root", str(root)], patch, is_terminal=False)


def shown(argv: list[str], patch: pytest.MonkeyPatch, *, is_terminal: bool) -> str:
    """Run a command in this process, and return what it wrote to stdout and stderr."""
    with patch.context() as here:
        streams = [Screen(), Screen()]
        for stream in streams:
            if not is_terminal:
                here.setattr(stream, "isatty", lambda: False)
        here.setattr(sys, "stdout", streams[0])
        here.setattr(sys, "stderr", streams[1])
        given = io.BytesIO(STDIN.get(argv[0], "").encode())
        here.setattr(sys, "stdin", io.TextIOWrapper(given, encoding="utf-8"))
        with suppress(SystemExit):
            cli.main(argv)
        return "".join(stream.seen for stream in streams)


def leaks_in(text: str) -> list[str]:
    """Return the planted values that a text shows, whole or in good part, also between colours."""
    bare = re.sub(r"\x1b\[[0-9;]*[A-Za-z]|\\u001b\[[0-9;]*[A-Za-z]", "", text)
    read = {text, bare, re.sub(r"\s+", "", bare)}
    values = {"value": VALUE, **KEYS}
    return [name for name, value in values.items() if any(value[:14] in each for each in read)]


MODES = {"pipe": ([], False), "json": (["--json"], False), "terminal": ([], True)}


@pytest.mark.parametrize("mode", MODES)
def test_no_command_shows_a_secret(root: Path, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    """In a pipe, as JSON and on a terminal; also in errors; and no planted escape gets through."""
    more, is_terminal = MODES[mode]
    found: dict[str, object] = {}
    called = [(name, way) for name, ways in arguments(root).items() for way in ways]
    for name, way in sample(
        called, share=1 / 2, name=lambda call: f"{mode} {call}", kind=lambda call: call[0]
    ):
        home = Path(shutil.copytree(root, root.parent / "run" / "root"))
        text = shown([name, *way, "--root", str(home), *more], monkeypatch, is_terminal=is_terminal)
        leaks = leaks_in(text)
        escapes = [ascii(each) for each in CONTROLS if each in text] if is_terminal else []
        if leaks or escapes or "Traceback" in text:
            found[" ".join([name, *way])] = (leaks, escapes, text[-300:])
        shutil.rmtree(home)
    assert found == {}


MARKUP = f"{HTML}'\"><img src=x onerror=alert(1)>"
"""Would be an element in a text, and in an attribute of either quote."""


def plant_losses(root: Path) -> Path:
    """Write a session whose last reply lacks planted values; return a policy that loses them."""
    spoilt = {
        INSTRUCTION: f"Never push <img src=x> with {VALUE} without asking me first.",
        TASK: f"Rotate {KEYS['argument']} {VALUE} {EVIL} {MARKUP}",
        PATH: f"deploy/{KEYS['result']}/rollout_plan.yml",
        '"bash"': json.dumps(f"run_{KEYS['tool']}{MARKUP}"),
        "claude-sonnet-5-5": f"model-{KEYS['model']}{MARKUP}",
    }
    lines = b"\n".join(encode(record) for record in planted_session()).decode()
    for words, other in spoilt.items():
        assert words in lines
        lines = lines.replace(words, other if other[0] == '"' else json.dumps(other)[1:-1])
    key = SessionKey("main", "lossy")
    with JsonlStore(root) as store:
        store.create(key, label=f"{KEYS['label']}{MARKUP}")
        found = [decode(line.encode()) for line in lines.split("\n")]
        store.append(key, [rec for rec in found if not isinstance(rec, Flaw)], expect=ANY_HEAD)
    policy = root.parent / f"{KEYS['file']}<script>.toml"
    policy.write_text('keep = 0.01\nallow = ["nothing"]\n')
    return policy


class Elements(HTMLParser):
    """The names of elements and attributes that a browser finds in a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names |= {tag, *(name for name, _ in attrs)}


def test_pages_are_masked_and_escaped(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that a command writes has no planted value, and no element of somebody else."""
    sizes = ["--window", "32k"]
    policy = ["--static", "2k", "--policy", str(plant_losses(root))]
    logs = root / "agents" / "main" / "sessions"
    file = str(shutil.copy(logs / "lossy.jsonl", root.parent / f"{KEYS['file']}<script>.jsonl"))
    ways = {
        "inspect": [["work"], ["lossy"], [str(logs)]],
        "simulate": [[file, *sizes]],
        "evaluate": [["work", "lossy", *sizes, *policy]],
    }
    assert set(ways) == set(commands_with("--html"))
    page, found = root.parent / "page.html", {}
    for name, way in ((name, way) for name, each in ways.items() for way in each):
        page.unlink(missing_ok=True)
        argv = [name, *way, "--html", str(page), "--root", str(root)]
        said = shown(argv, monkeypatch, is_terminal=False)
        assert page.exists(), said
        text = page.read_text("utf-8")
        foreign = Elements(text).names & {"script", "img", "onerror", "src"}
        controls = [ascii(each) for each in CONTROLS if each in text]
        if leaks := [*leaks_in(text), *foreign, *controls]:
            found[" ".join([name, *way])] = leaks
        # The page of `simulate` has figures, and names a session by its id.
        assert "&lt;script" in text or name == "simulate", argv
    assert found == {}
    lost = {kind for kind in PLANTED if f"<span class=kind>{kind}</span>" in text}
    assert lost == set(PLANTED), "the last page shows planted values of each kind"


def commands_with(option: str) -> Iterator[str]:
    """Find the commands that have an option."""
    for name in COMMANDS:
        parser = build_parser(name).command
        if parser is not None and option in parser.format_help():
            yield name


def test_files_are_masked(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exports, the audit log and the index of memory hold no key."""
    for number, dialect in enumerate((None, *DIALECTS)):
        target = str(root.parent / f"export-{number}")
        more = [] if dialect is None else ["--format", dialect]
        run(root, monkeypatch, "export", "work", "-o", target, *more)
        assert leaks_in(Path(target).read_text("utf-8")) == [], dialect
    for way in (["history", KEYS["asked"]], ["memory", "index", "--words-only"]):
        run(root, monkeypatch, *way)
    # Names of sessions and files are addresses: the index needs them, as the folders do.
    for data, kept, name in (
        ((root / "audit.jsonl").read_bytes(), set(), "audit"),
        (read_index(root / "recall.sqlite3"), {"id", "notefile"}, "index"),
    ):
        text = data.decode(errors="replace")
        assert set(leaks_in(text)) <= {"value", *kept}, name


def test_no_slash_command_shows_a_secret(root: Path) -> None:
    """Every slash command, without and with an argument; chosen values are secrets of the chat."""
    seat = Seat(root, secrets={"PLANTED": VALUE})
    found = {}
    for command in slash_commands.COMMANDS:
        for argument in ("", "work", VALUE, KEYS["asked"]):
            if command.name in ("quit", "exit"):
                continue
            answer = seat(f"/{command.name} {argument}".strip())
            if leaks := leaks_in(answer.text):
                found[f"/{command.name} {argument}"] = (leaks, answer.text)
    assert found == {}


def test_no_tool_shows_a_secret(root: Path) -> None:
    """The tools by which a model reads other sessions and memory."""
    with JsonlStore(root) as store:
        store.create(SessionKey("main", "asker"))
        redactor = holdfast.redactor({"PLANTED": VALUE})
        caller = Caller("main", "asker", visibility="agent")
        history = History(store, caller=caller, redactor=redactor)
        with Memory.open(str(root), redactor=redactor) as memory:
            tools = {tool.tool.name: tool for tool in (*history.tools(), *memory_tools(memory))}
            asked: dict[str, list[dict[str, Any]]] = {
                "sessions_history": [
                    *({"sessionKey": "work", "includeTools": True}, {"sessionKey": KEYS["asked"]}),
                    {"sessionKey": "work", "query": VALUE},
                ],
                "sessions_list": [{}],
                "memory_search": [{"query": "noted", "scope": "all"}, {"query": VALUE}],
                "memory_get": [{"citation": "MEMORY.md#L1"}, {"citation": VALUE}],
            }
            assert set(asked) == set(tools)
            for name, calls in asked.items():
                for given in calls:
                    assert leaks_in(str(tools[name].function(**given))) == [], (name, given)


def test_no_answer_over_mcp_shows_a_secret(root: Path) -> None:
    """Every tool, resource and prompt of the MCP server, over the planted sessions and notes."""
    with JsonlStore(root) as store:
        ids = tuple(record.id for record in store.read(KEY))
        work = Owned("", KEY, ids, next(iter(store.blobs)), "MEMORY.md", ())
        redactor = holdfast.redactor({"PLANTED": VALUE})
        client = McpClient(Caller("main", None, visibility="agent"))
        server = build_server(
            lambda _request: client,
            lambda caller: CallerWorkspace(store, caller, redactor=redactor),
        )
        asked = (*work.names, *ids, VALUE, KEYS["id"], KEYS["asked"], f"{KEYS['notefile']}.md")
        answers = ask(server, lambda client: walk(client, work, asked))
    assert len(answers) > 300
    assert {key: leaks_in(text) for key, text in answers.items() if leaks_in(text)} == {}


def test_a_real_terminal_gets_no_escape(root: Path) -> None:
    """`show` on a pseudo-terminal: the bytes hold no escape but the colours of the surface."""
    with JsonlStore(root) as store:
        first = next(record.id for record in store.read(KEY) if isinstance(record, User))
    command = (sys.executable, "-m", "holdfast", "show", first, "--raw", "--root", str(root))
    with Terminal(*command, folder=root, PYTHONPATH=":".join(sys.path)) as terminal:
        assert terminal.wait_for_end() == 0
        rest = re.sub(rb"\x1b\[[0-9;]*m", b"", terminal.raw)
        assert b"\x1b" not in rest
        assert KEYS["message"].encode() in rest  # --raw masks nothing


def test_only_the_outputs_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """No module of the surfaces writes to stdout or stderr by itself, except those listed."""
    writers = {
        "cli/__init__.py",  # the version, before anything else is loaded
        "cli/terminal.py",  # the one way out
        "cli/chat/console.py",  # the screen of a chat: replies, and masked answers
        "cli/chat/input.py",  # the prompt
        "cli/demo/replay.py",  # frames for the parent process
    }
    home = Path(holdfast.surfaces.__path__[0])
    found = {path.relative_to(home).as_posix() for path in home.rglob("*.py") if set(_writes(path))}
    assert found == writers


def _writes(path: Path) -> Iterator[int]:
    for node in house.nodes_of(house.parse(path)):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        if called == "print" or re.fullmatch(
            r"(sys\.(stdout|stderr)(\.buffer)?|self\._side)\.write(lines)?|os\.write", called
        ):
            yield node.lineno


def test_the_walk_notices_a_way_out_that_does_not_mask(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without masking in one place, the walk finds leaks there."""
    monkeypatch.setattr(Output, "mask", lambda _self, text: text)
    for way, field in (("sessions", "label"), ("disk", "id")):
        text = shown([way, "--root", str(root)], monkeypatch, is_terminal=True)
        assert field in leaks_in(text)
