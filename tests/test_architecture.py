"""The house rules: who may import whom, what the core may touch, and no file without a use."""

from __future__ import annotations

import ast
import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from scripts import house

import holdfast

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(holdfast.__file__).parent
PROJECT = PACKAGE.parents[1]

_GROUND = frozenset({"errors", "core"})
_STORED = _GROUND | {"ports"}
_ENGINE = _STORED | {"config", "stores", "providers"}

PUBLIC_MODULES = (
    *("records", "events", "models", "tokens", "failures", "context", "memory", "commands"),
    *("simulation", "gateway", "evaluation"),
)
"""The modules that re-export names for users. Nothing inside imports them."""

MAY_IMPORT: dict[str, frozenset[str]] = {
    "errors": frozenset(),
    "core": frozenset({"errors"}),
    "ports": _GROUND,
    "config": _GROUND,
    "stores": _STORED | {"_public"},
    "providers": _STORED | {"config"},
    "importers": _STORED,
    "engine": _ENGINE | {"importers", "_public"},
    "surfaces": _ENGINE | {"engine", "importers", "holdfast"},
    "integrations": _STORED | {"config", "providers", "engine", "importers", "holdfast"},
    "testing": _ENGINE | {"engine", "importers", "holdfast"},
    # The package itself and its public modules offer names of the rooms below the surfaces, and
    # `commands` those of the slash commands; `__main__` is a way in.
    "holdfast": _ENGINE | {"engine", "_public"},
    **dict.fromkeys(PUBLIC_MODULES, _ENGINE | {"engine"}),
    "commands": frozenset({"surfaces"}),
    "pytest_plugin": frozenset({"core", "engine"}),
    "_public": frozenset(),
    "__main__": frozenset({"surfaces"}),
}
"""For each room, the others it may import. A room may always import itself."""

ORDER: dict[str, tuple[str, ...]] = {
    "core": (
        *(
            "limits",
            "text",
            "media",
            *("owners", "window", "parameters"),
            "log",
            "adoption",
            "secrets",
            "failures",
            "models",
            "tokens",
            "dialects",
            "refusals",
            "flow",
            "extract",
            "narrative",
        ),
        *("outputs", "checkpoint", "evaluation", "projection", "inspection"),
        *("compaction", "history", "memory"),
        *("queues", "timers", "spending", "retention"),
        *("turn", "approval_rules", "proxy"),
    ),
    "core.dialects": (
        *("common", "dialect", "anthropic", "openai_chat", "openai_responses", "gemini"),
        *("registry", "prefix"),
    ),
    "stores": (
        *("payloads", "files", "lines", "sqlite_files", "changes"),
        *("blobs", "audit", "notes", "search", "summary_files", "queues", "spending"),
        "jsonl",
        "in_memory",
        *("postgres", "s3", "opening", "copying"),
    ),
    "providers": (
        *(
            "known_models",
            "sdk",
            "anthropic",
            "openai_chat",
            "openai_responses",
            "gemini",
        ),
        *("registry", "replies", "failures", "tokenizers", "embeddings", "callables"),
        *("clients", "offline", "local", "command_line", "models"),
        "embedders",
    ),
    "importers": (
        *(
            "common",
            "apis",
            "agents",
            "checkpoints",
            "export_messages",
            "export",
            "databases",
            "places",
            "homes",
        ),
    ),
    "engine": (
        *(
            "safe_regex",
            "redactor",
            "tool_values",
            "approval_files",
            "tools",
            "outputs",
            "pictures",
            "context_tool",
            "simulation",
            "memory",
        ),
        *("adoption", "history", "erasing", "approval_links", "retention", "session"),
        *("spending", "gateway", "timers", "access_tokens"),
        *("workspace", "operations", "adapters", "proxy", "chats"),
    ),
    "engine.session": (
        *(
            "prepare",
            "session_log",
            "waiting_list",
            "drivers",
            "options",
            "opening",
            "checkpoints",
            "side_files",
        ),
        *("status", "state", "reading", "rewinding", "lifecycle", "base", "handles", "session"),
        "async_session",
    ),
    "surfaces": (
        *(
            "formatting",
            "markdown",
            "pages",
            "answers",
            "bill",
            "chat_context",
            "slash_commands",
            "async_chat",
            "mcp",
            "telegram",
            "http",
            "console",
            "listening",
            "proxy",
            "serve_settings",
            "gateway_agents",
        ),
        "cli",
    ),
    "surfaces.console": (
        *("layout", "charts", "records", "plans", "links", "sessions", "session_pages"),
        *("overview", "waiting", "tokens", "memory", "verification", "health", "console"),
    ),
    "surfaces.cli": (
        *("terminal", "app", "command", "conversations", "demo", "serve", "proxy"),
        *("chat", "inspect", "copy", "adopt", "doctor", "mcp", "models", "verbs"),
        *("evaluate", "telegram", "version", "help", "dispatch"),
    ),
    "integrations": (
        "common",
        *("agent_framework", "anthropic_memory", "claude_agent", "google_adk", "langchain"),
        *("langgraph", "openai_agents", "opentelemetry", "pydantic_ai", "strands"),
    ),
    "testing.loopback": (
        *("asking", "faults", "binding", "speaking", "outgoing", "reading", "caching", "rules"),
        *(
            "anthropic_wire",
            "chat_wire",
            "responses_wire",
            "gemini_wire",
        ),
        *("exchange", "connections", "server"),
    ),
    "testing": (
        *("disk", "crash", "servers", "scripted", "simulator", "conformance", "loopback"),
        "recorder",
    ),
}
"""What is in each folder that has packages, from the ground up: each imports what is before."""

ENTRANCES = frozenset(
    {"holdfast", "__main__", "testing", "integrations", "pytest_plugin", *PUBLIC_MODULES}
)
"""The rooms that programs import from; what they reach is in use."""

EVERY_STORE = frozenset({"engine", "surfaces", "integrations", "importers", "providers"})
"""The rooms that work with every store, and ask none what kind it is."""
VALUES = frozenset(
    (
        *("Appended", "SessionInfo", "Trashed", "RepairedSession", "ErasableSession", "AuditPage"),
        *("NewMessage", "QueuedMessage"),
        *("LeaseHolder", "IndexSource", "IndexPassage", "FoundPassage", "Matches"),
        *("CopiedSession", "CopiedNotes", "CopyReport", "CopyProgress"),
        *("HeldCall", "Settlement"),
    )
)
"""The classes of the ports that are values, and no ports."""
STORE_LIKE = re.compile(r"(?:^|[._])(?:store|blobs|audit|notes|summaries|memory)\Z")
SETTINGS = re.compile(r"(?:^|[._])settings\Z")

FOLDER_MODULES_MAX = 15
"""A folder with more modules needs packages."""

CORE_LIBRARY = frozenset(
    (
        *("__future__", "abc", "bisect", "collections", "dataclasses", "difflib", "enum"),
        *("functools", "hashlib", "heapq", "itertools", "json", "math", "operator", "re"),
        "zlib",  # computes alone: the objects of a PDF are deflated
        *("string", "textwrap", "typing", "unicodedata", "msgspec"),
    )
)
"""What the core may use from outside: nothing that has a clock, a file, a socket or luck."""
CORE_EXCEPTIONS = {
    "holdfast.core.approval_rules": frozenset({"decimal"}),
    "holdfast.core.text.typed": frozenset({"threading", "weakref"}),
    "holdfast.core.spending.budgets": frozenset({"datetime"}),
    "holdfast.core.timers": frozenset({"datetime", "zoneinfo", "cronsim"}),
}
"""Amounts may be decimals. A lock decides nothing: it keeps msgspec from a type that another thread
has half read. A calendar is arithmetic over the rules of a zone, which are data; it is given the
time."""

CLOCKS = frozenset(
    (
        *("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns"),
        *("now", "utcnow", "today", "localtime", "gmtime"),
    )
)
ENVIRONMENT = frozenset({"environ", "environb", "getenv", "getenvb", "putenv", "unsetenv"})
OUTSIDE = frozenset({"open", "input", "breakpoint", "__import__", "exec", "eval"})


@dataclass(frozen=True, slots=True)
class Module:
    """One file of the package."""

    name: str
    tree: ast.Module
    is_package: bool

    @property
    def room(self) -> str:
        """The folder or file under the package that it belongs to."""
        return self.name.split(".")[1] if "." in self.name else self.name


@cache
def modules_in(package: Path) -> dict[str, Module]:
    """Return every file of a package, parsed; what a folder holds does not change in a test."""
    found: dict[str, Module] = {}
    for path in sorted([*package.rglob("*.py"), *package.rglob("*.pyi")]):
        parts = ["holdfast", *path.relative_to(package).with_suffix("").parts]
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        tree = house.parse(path)
        if path.suffix == ".pyi":  # it says where the names of a package come from
            tree = ast.Module([*found[name].tree.body, *tree.body], [])
        found[name] = Module(name, tree, is_package)
    return found


def imports_of(module: Module, known: dict[str, Module]) -> Iterator[tuple[str, int]]:
    """(name, line) of every module that a module imports, wherever in it that stands."""
    for node in _nodes_with_imports(module.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(module, node)
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                yield (inner if inner in known else base), node.lineno
        else:  # the name of a module to load later, or a table with one in each row
            rows = [line.split() for line in str(node.value).splitlines()]
            names = [row[1] if len(row) > 2 else row[0] for row in rows if row]
            yield from ((name, node.lineno) for name in names if name in known and "." in name)


@cache
def _nodes_with_imports(tree: ast.AST) -> list[ast.Import | ast.ImportFrom | ast.Constant]:
    """Return imports, and texts that may be the name of a module."""
    return [
        node
        for node in house.nodes_of(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        or (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and "holdfast." in node.value
        )
    ]


def _absolute(module: Module, node: ast.ImportFrom) -> str:
    if node.level == 0:
        return node.module or ""
    parts = module.name.split(".")
    parts = parts[: len(parts) - node.level + module.is_package]
    return ".".join([*parts, *filter(None, [node.module])])


def _is_ours(name: str) -> bool:
    return name == "holdfast" or name.startswith("holdfast.")


def _room_of(name: str) -> str:
    return name.split(".")[1] if "." in name else name


def violations(package: Path, entries: frozenset[str]) -> list[str]:
    """Everything in a package that breaks a rule, one sentence each."""
    known = modules_in(package)
    kinds = _classes_in("stores", known)
    ports = _classes_in("ports", known) - VALUES
    return [
        *(one for module in known.values() for one in _bad_imports(module, known)),
        *(one for module in known.values() for one in _bad_uses(module)),
        *(one for module in known.values() for one in _kinds_of_stores(module, kinds, ports)),
        *(one for module in known.values() for one in _against_order(module, known)),
        *_full_folders(known),
        *_unused(known, entries),
    ]


def _bad_imports(module: Module, known: dict[str, Module]) -> Iterator[str]:
    allowed = MAY_IMPORT.get(module.room)
    if allowed is None:
        yield f"{module.name}: no rule says what the room `{module.room}` may import"
        return
    for name, line in imports_of(module, known):
        if not _is_ours(name):
            library = CORE_LIBRARY | CORE_EXCEPTIONS.get(module.name, frozenset())
            if module.room == "core" and name.split(".")[0] not in library:
                yield f"{module.name}:{line}: the core may not use `{name}`"
        elif _room_of(name) not in allowed | {module.room}:
            yield f"{module.name}:{line}: `{module.room}` may not import `{name}`"


def _against_order(module: Module, known: dict[str, Module]) -> Iterator[str]:
    """Imports inside a folder that lead to something above."""
    imported = list(imports_of(module, known))
    for folder, order in ORDER.items():
        own = _part(module.name, folder)
        above = order[order.index(own) + 1 :] if own in order else ()
        for name, line in imported:
            if _part(name, folder) in above:
                yield f"{module.name}:{line}: `{folder}.{own}` may not import `{name}` above it"


def _part(name: str, folder: str) -> str:
    """The package or module directly in a folder that a module belongs to; empty for others."""
    rest = name.removeprefix(f"holdfast.{folder}.")
    return "" if rest == name else rest.split(".")[0]


def _full_folders(known: dict[str, Module]) -> Iterator[str]:
    for folder in sorted(name for name, module in known.items() if module.is_package):
        files = [
            name
            for name, module in known.items()
            if name.rpartition(".")[0] == folder and not module.is_package
        ]
        if len(files) > FOLDER_MODULES_MAX:
            yield f"{folder}: {len(files)} modules, of {FOLDER_MODULES_MAX} that a folder may have"


def _bad_uses(module: Module) -> Iterator[str]:
    is_core, may_print = module.room == "core", module.room == "surfaces"
    for node in house.nodes_of(module.tree):
        name = _name_used(node)
        if name == "print" and isinstance(node, ast.Call) and not may_print:
            yield f"{module.name}:{node.lineno}: only surfaces print"
        elif name in ENVIRONMENT and module.room != "config":
            yield f"{module.name}: only config reads the environment (`{name}`)"
        elif is_core and isinstance(node, ast.Call) and name in CLOCKS:
            yield f"{module.name}:{node.lineno}: the core has no clock (`{name}`)"
        elif is_core and isinstance(node, ast.Call) and name in OUTSIDE:
            yield f"{module.name}:{node.lineno}: the core touches nothing outside (`{name}`)"


def _kinds_of_stores(module: Module, kinds: set[str], ports: set[str]) -> Iterator[str]:
    """Uses of a certain kind of store where every store must do.

    Stores are opened from an address; what a feature needs of one is on its port.
    """
    if module.room not in EVERY_STORE:
        return
    for node in house.nodes_of(module.tree):
        match node:
            case ast.ImportFrom(names=names):
                for named in names:
                    if named.name in kinds:
                        yield f"{module.name}:{node.lineno}: names a kind of store ({named.name})"
            case ast.Attribute(attr=name) if name in kinds:
                yield f"{module.name}:{node.lineno}: names a kind of store ({name})"
            case ast.Call(func=ast.Name(id="isinstance"), args=[_, asked]):
                for inner in ast.walk(asked):
                    name = getattr(inner, "id", getattr(inner, "attr", ""))
                    if name in kinds | ports:
                        yield f"{module.name}:{node.lineno}: asks for the kind of a store ({name})"
            case ast.Attribute(value=value, attr="root") if STORE_LIKE.search(ast.unparse(value)):
                yield f"{module.name}:{node.lineno}: a store need not have a root"
            case ast.Attribute(value=value, attr="root") if SETTINGS.search(ast.unparse(value)):
                if not _is_opened(node, module.tree):
                    yield f"{module.name}:{node.lineno}: the root is an address: open it"
            case _:
                pass


def _classes_in(room: str, known: dict[str, Module]) -> set[str]:
    return {
        node.name
        for module in known.values()
        if module.room == room
        for node in module.tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    }


def _is_opened(root: ast.Attribute, tree: ast.Module) -> bool:
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "open_store"
        and root in node.args
        for node in house.nodes_of(tree)
    )


def _name_used(node: ast.AST) -> str:
    """What a node calls, or takes from `os`; empty where it does neither."""
    match node:
        case ast.Call(func=ast.Name(id=name)):
            return name
        case ast.Call(func=ast.Attribute(attr=name)) if name in CLOCKS:
            return name
        case ast.Attribute(value=ast.Name(id="os"), attr=name):
            return name
        case ast.ImportFrom(module="os", names=names):
            return next((one.name for one in names if one.name in ENVIRONMENT), "")
        case _:
            return ""


def _unused(known: dict[str, Module], entries: frozenset[str]) -> Iterator[str]:
    """Modules that no way in leads to."""
    reached: set[str] = set()
    waiting = [
        name for name, module in known.items() if name in entries or module.room in ENTRANCES
    ]
    while waiting:
        name = waiting.pop()
        if name in reached or name not in known:
            continue
        reached.add(name)
        parents = name.split(".")[:-1]
        waiting += [".".join(parents[:count]) for count in range(1, len(parents) + 1)]
        waiting += [imported for imported, _line in imports_of(known[name], known)]
    for name in sorted(set(known) - reached):
        yield f"{name}: nobody imports it"


def _entries() -> frozenset[str]:
    """The modules that the installed commands start."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    return frozenset(target.split(":")[0] for target in project["scripts"].values())


def test_package_keeps_the_house_rules() -> None:
    """Imports point one way, the core is pure, and every file is used."""
    assert violations(PACKAGE, _entries()) == []


def test_package_was_really_looked_at() -> None:
    """The check sees the whole package: its rooms, and imports from one to another."""
    known = modules_in(PACKAGE)
    assert {"errors", "core", "ports", "config", "stores", "surfaces"} <= {
        module.room for module in known.values()
    }
    imported = {name for name, _line in imports_of(known["holdfast.stores.jsonl.log"], known)}
    assert {"os", "holdfast.core.log.tree", "holdfast.core.log.records"} <= imported


# The checker must see what it is for: each rule is broken once, in a house that keeps them all.

SOUND = {
    "__init__.py": "from holdfast.engine.session import Session\n",
    "__main__.py": "from holdfast.surfaces.cli import main\n",
    "errors.py": "class HoldfastError(Exception): ...\n",
    "ports.py": (
        "from holdfast.core.log.records import Record\nclass SessionStore: ...\n"
        "class SessionInfo: ...\n"
    ),
    "config.py": "import os\nfrom holdfast.core.log import ids\nROOT = os.environ.get('ROOT')\n",
    "core/__init__.py": "",
    "core/limits.py": "",
    "core/log/__init__.py": "",
    "core/log/ids.py": "from holdfast.core import limits\n",
    "core/turn/__init__.py": "",
    "core/turn/turn.py": "from holdfast.core.log import ids, records\n",
    "core/log/records.py": "import msgspec\nfrom holdfast.errors import HoldfastError\n",
    "stores/__init__.py": "",
    "stores/files.py": "import os, time\n",
    "stores/jsonl.py": (
        "from holdfast import ports\nfrom holdfast.stores import files\n"
        "class JsonlStore:\n    def same(self, other): return isinstance(other, JsonlStore)\n"
    ),
    "stores/opening.py": "from holdfast.stores.jsonl import JsonlStore\n",
    "providers/__init__.py": "",
    "providers/one.py": "from holdfast.ports import Model\n",
    "engine/__init__.py": "",
    "engine/session.py": (
        "from holdfast import config\n"
        "from holdfast.core.turn import turn\n"
        "from holdfast.stores.opening import open_store\n"
        "store = open_store(settings.root)\n"
        "isinstance(store.info(), SessionInfo)\n"
        "def load():\n"
        "    from holdfast.providers import one\n"
    ),
    "surfaces/__init__.py": "",
    "surfaces/cli.py": (
        "from holdfast import __version__\n"
        "from holdfast.engine.session import Session\n"
        "from ..stores import jsonl\n"
        "from holdfast.importers import other\n"
        "print(__version__)\n"
    ),
    "importers/__init__.py": "",
    "importers/other.py": "from holdfast.core.log.records import Record\n",
    "integrations/__init__.py": "",
    "integrations/framework.py": "from holdfast.engine.session import Session\n",
    "testing/__init__.py": "",
    "testing/conformance.py": "from holdfast.stores.jsonl import JsonlStore\n",
}


def _build(folder: Path, files: dict[str, str]) -> Path:
    package = folder / "holdfast"
    for name, source in files.items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    return package


def test_checker_finds_nothing_in_a_sound_house(tmp_path: Path) -> None:
    """A package that keeps the rules, with every room in it, passes."""
    assert violations(_build(tmp_path, SOUND), frozenset()) == []


@pytest.mark.parametrize(
    ("file", "planted", "said"),
    [
        ("errors.py", "import holdfast.core.log.records", "`errors` may not import"),
        ("core/log/records.py", "from holdfast.ports import Clock", "`core` may not import"),
        ("core/log/records.py", "from holdfast.stores import files", "`core` may not import"),
        ("core/log/records.py", "from ...stores.files import Disk", "`core` may not import"),
        (
            "core/log/records.py",
            "from ... import config",
            "`core` may not import `holdfast.config`",
        ),
        ("core/log/records.py", "import holdfast", "`core` may not import `holdfast`"),
        (
            "core/log/records.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import holdfast.ports",
            "`core` may not import `holdfast.ports`",
        ),
        ("ports.py", "from holdfast.stores.files import Disk", "`ports` may not import"),
        ("config.py", "import holdfast.ports", "`config` may not import"),
        ("config.py", "import holdfast.engine.session", "`config` may not import"),
        ("stores/files.py", "from holdfast.providers import one", "`stores` may not import"),
        ("stores/files.py", "from holdfast.config import ROOT", "`stores` may not import"),
        ("stores/files.py", "import holdfast.engine.session", "`stores` may not import"),
        ("providers/one.py", "from holdfast.stores import files", "`providers` may not import"),
        ("importers/other.py", "from holdfast.stores import files", "`importers` may not"),
        ("engine/session.py", "from holdfast.surfaces import cli", "`engine` may not import"),
        ("engine/session.py", "from holdfast.integrations import other", "`engine` may not"),
        ("engine/session.py", "import holdfast.testing.conformance", "`engine` may not import"),
        ("surfaces/cli.py", "import holdfast.testing", "`surfaces` may not import"),
        ("surfaces/cli.py", "import holdfast.integrations", "`surfaces` may not import"),
        ("integrations/framework.py", "import holdfast.surfaces.cli", "`integrations` may not"),
        ("integrations/framework.py", "import holdfast.stores.files", "`integrations` may not"),
        ("testing/conformance.py", "import holdfast.surfaces.cli", "`testing` may not import"),
        ("__init__.py", "import holdfast.surfaces.cli", "`holdfast` may not import"),
        ("__init__.py", "import holdfast.testing", "`holdfast` may not import"),
        ("__main__.py", "import holdfast.stores.files", "`__main__` may not import"),
        ("utils/helpers.py", "import re", "no rule says"),
        ("core/limits.py", "from holdfast.core.log import ids", "`core.limits` may not import"),
        ("core/log/ids.py", "import holdfast.core.turn.turn", "`core.log` may not import"),
        ("core/log/ids.py", "from holdfast.core import turn", "`core.log` may not import"),
        ("core/log/ids.py", "from ..turn.turn import Turn", "`core.log` may not import"),
        ("core/log/ids.py", "def f():\n    from holdfast.core.turn import turn", "above it"),
        ("stores/files.py", "from holdfast.stores import jsonl", "`stores.files` may not import"),
        ("engine/session.py", "from holdfast.stores.jsonl import JsonlStore", "(JsonlStore)"),
        ("engine/session.py", "import holdfast\nholdfast.JsonlStore('x')", "(JsonlStore)"),
        ("surfaces/cli.py", "from holdfast import JsonlStore", "names a kind of store"),
        ("surfaces/cli.py", "isinstance(store, SessionStore)", "asks for the kind of a store"),
        ("surfaces/cli.py", "isinstance(store, (int, ports.SessionStore))", "asks for the kind"),
        ("engine/session.py", "app.store.root", "a store need not have a root"),
        ("surfaces/cli.py", "print(app.settings.root)", "the root is an address: open it"),
        ("integrations/framework.py", "isinstance(it, JsonlStore)", "asks for the kind"),
        ("core/log/records.py", "import os", "the core may not use `os`"),
        ("core/log/records.py", "from os import path", "the core may not use `os`"),
        ("core/log/records.py", "import os.path", "the core may not use `os.path`"),
        ("core/log/records.py", "import time", "the core may not use `time`"),
        ("core/log/records.py", "def f():\n    import random", "the core may not use `random`"),
        ("core/log/records.py", "import logging", "the core may not use `logging`"),
        ("core/log/records.py", "import sqlite3", "the core may not use `sqlite3`"),
        ("core/log/records.py", "from datetime import date", "the core may not use `datetime`"),
        ("core/log/records.py", "import importlib", "the core may not use `importlib`"),
        ("core/log/records.py", "stamp = clock.time()", "the core has no clock (`time`)"),
        ("core/log/records.py", "stamp = datetime.now()", "the core has no clock (`now`)"),
        ("core/log/records.py", "stamp = monotonic()", "the core has no clock (`monotonic`)"),
        ("core/log/records.py", "open('x')", "the core touches nothing outside (`open`)"),
        ("core/log/records.py", "__import__('os')", "nothing outside (`__import__`)"),
        ("core/log/records.py", "print('x')", "only surfaces print"),
        ("stores/files.py", "print('x')", "only surfaces print"),
        ("stores/files.py", "os.environ['X']", "only config reads the environment (`environ`)"),
        ("stores/files.py", "os.getenv('X')", "only config reads the environment (`getenv`)"),
        ("surfaces/cli.py", "from os import path, environ", "(`environ`)"),
        ("stores/dead.py", "from holdfast.stores import files", "stores.dead: nobody imports it"),
        ("surfaces/dead.py", "", "holdfast.surfaces.dead: nobody imports it"),
        ("stores/self.py", "from holdfast.stores import self", "self: nobody imports it"),
    ],
)
def test_checker_sees_a_planted_violation(
    tmp_path: Path, file: str, planted: str, said: str
) -> None:
    """One broken rule in a sound house is found, named and placed."""
    source = SOUND.get(file, "")
    found = violations(_build(tmp_path, {**SOUND, file: f"{source}{planted}\n"}), frozenset())
    assert any(said in one for one in found), found
    module = "holdfast." + file.removesuffix(".py").replace("/", ".")
    assert all(one.startswith(module.removesuffix(".__init__")) for one in found)


def test_checker_counts_the_modules_of_a_folder(tmp_path: Path) -> None:
    """One module more than a folder may have is found."""
    names = [f"format_{number}" for number in range(FOLDER_MODULES_MAX)]
    more = {f"importers/{name}.py": "" for name in names}
    more["importers/__init__.py"] = f"from holdfast.importers import {', '.join(names)}\n"

    found = violations(_build(tmp_path, {**SOUND, **more}), frozenset())

    assert found == ["holdfast.importers: 16 modules, of 15 that a folder may have"]


def test_order_names_what_is_there() -> None:
    """Every folder that has packages has an order, of all that is in it and nothing else."""
    known = modules_in(PACKAGE)
    packages = {name.removeprefix("holdfast.") for name, one in known.items() if one.is_package}
    nested = {name.rpartition(".")[0] for name in packages if "." in name}

    assert set(ORDER) == nested
    for folder, order in ORDER.items():
        assert set(order) == {_part(name, folder) for name in known} - {""}, folder
        assert len(set(order)) == len(order), folder


def circles_in(known: dict[str, Module]) -> dict[str, list[str]]:
    """Return the modules that lead back to themselves, by the first of each circle.

    Every import counts: those of functions, and those for type checkers alone.
    """
    leads = {
        name: {
            imported
            for node in _nodes_with_imports(module.tree)
            if not isinstance(node, ast.Constant)
            for imported in _modules_named(module, node, known)
        }
        for name, module in known.items()
    }
    reached = {name: _reach(name, leads) for name in known}
    circles: dict[str, list[str]] = {}
    for name in sorted(known):
        others = sorted(one for one in reached[name] if name in reached[one])
        if len(others) > 1:
            circles.setdefault(others[0], others)
    return circles


def _modules_named(
    module: Module, node: ast.Import | ast.ImportFrom, known: dict[str, Module]
) -> Iterator[str]:
    base = None if isinstance(node, ast.Import) else _absolute(module, node)
    for alias in node.names:
        inner = alias.name if base is None else f"{base}.{alias.name}"
        found = inner if inner in known else base
        if found in known and found != module.name:
            yield str(found)


def _reach(name: str, leads: dict[str, set[str]]) -> set[str]:
    reached: set[str] = set()
    waiting = [name]
    while waiting:
        for imported in leads[waiting.pop()] - reached:
            reached.add(imported)
            waiting.append(imported)
    return reached


def test_no_two_modules_import_each_other() -> None:
    """Not for type checkers either: what needs its reader is one module with it."""
    assert circles_in(modules_in(PACKAGE)) == {}


def test_a_circle_for_type_checkers_is_seen(tmp_path: Path) -> None:
    """Modules that import each other under `TYPE_CHECKING` are found, however long the way."""
    guarded = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    "
    more = {
        "core/log/records.py": guarded + "from holdfast.core.log import tree\n",
        "core/log/tree.py": "from holdfast.core.log.walk import Walk\n",
        "core/log/walk.py": "def f():\n    from holdfast.core.log.records import Record\n",
    }
    found = circles_in(modules_in(_build(tmp_path, {**SOUND, **more})))
    log = [f"holdfast.core.log.{name}" for name in ("records", "tree", "walk")]
    assert found == {log[0]: log}
    assert circles_in(modules_in(_build(tmp_path / "sound", SOUND))) == {}


def test_checker_takes_installed_commands_for_used(tmp_path: Path) -> None:
    """A module that a command starts needs nobody to import it, nor do those it imports."""
    more = {
        "surfaces/tool.py": "from holdfast.surfaces import parts\n",
        "surfaces/parts.py": "",
    }
    package = _build(tmp_path, {**SOUND, **more})
    assert violations(package, frozenset({"holdfast.surfaces.tool"})) == []
    assert len(violations(package, frozenset())) == 2


def test_rules_are_about_every_room() -> None:
    """Every room that exists has a rule, rules name known rooms, and none allows `testing`."""
    rooms = {module.room for module in modules_in(PACKAGE).values()}
    assert rooms <= set(MAY_IMPORT)
    for allowed in MAY_IMPORT.values():
        assert allowed <= set(MAY_IMPORT)
        assert "testing" not in allowed
