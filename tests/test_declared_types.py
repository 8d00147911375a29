"""An owner and a window have one type each, everywhere in the source.

Text and numbers are for records, rows, reports and requests, and for the doors where a caller may
write them. Every place that holds one is named here, with its reason: a new one fails.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

import pytest
from scripts import house
from tests.test_architecture import PACKAGE

if TYPE_CHECKING:
    from collections.abc import Iterator

RECORD = "what a line of a log or a message in a queue holds"
ROW = "a row of a table"
WIRE = "a request, an answer or a setting, as JSON or TOML has it"
EVENT = "what a program is told, which has no types of ours"
REPORT = "a figure of a report, which is written as JSON"
ADAPTER = "a door that takes a name, and means nobody where it is empty; never everybody"

OWNER_EDGES = {
    "core/log/records.py:Header.owner": RECORD,
    "core/log/batch.py:new_header(owner)": RECORD,
    "core/queues.py:NewMessage.owner": RECORD,
    "core/history/access.py:Access.owner": RECORD,
    "core/log/listing.py:Facts.owner": f"{ROW}; None where the first line of the log is damaged",
    "engine/gateway/gateway.py:MessageChanged.owner": EVENT,
    "engine/access_tokens.py:AccessToken.owner": f"{WIRE}; `*` is every owner",
    "engine/operations/server.py:CreateToken.owner": f"{WIRE}; `*` is every owner",
    "engine/operations/server.py:TokenRow.owner": f"{WIRE}; `*` is every owner",
    "engine/operations/sessions.py:SessionRow.owner": WIRE,
    "engine/operations/inbox.py:InboxMessage.owner": WIRE,
    "engine/operations/approvals.py:WaitingCall.owner": WIRE,
    "engine/operations/timers.py:TimerRow.owner": WIRE,
    "engine/retention.py:RetiredSession.owner": WIRE,
    "core/retention.py:Retention.owners": "a table of a settings file",
    "core/spending/budgets.py:Budgets.owners": "a table of a settings file",
    "engine/spending/counts.py:CallLabels.owner": "a label of a metric",
    "surfaces/cli/demo/home.py:_Talk.owner": "a table of the demo's script",
    "core/approval_rules.py:ApprovalRule.owners": "patterns in a table of a settings file",
    "testing/conformance/notes.py:_notes(owner)": "shortens the checks below it",
    "integrations/": ADAPTER,
    "core/proxy/edit.py:_owners": "the records that the parts of a request belong to",
}
WINDOW_EDGES = {
    "core/log/records.py:Compaction.window": f"{RECORD}; None where it was not known",
    "core/log/records.py:Prune.window": f"{RECORD}; None where it was not known",
    "core/log/records.py:ModelChange.window": f"{RECORD}; None forgets what was recorded before",
    "core/models/catalog.py:Family.window": ROW,
    "providers/known_models/rows.py:KnownModel.window": ROW,
    "providers/known_models/rows.py:_row(window)": ROW,
    "core/flow/events.py:CallStarted.window": EVENT,
    "core/evaluation/report.py:Evaluation.window": REPORT,
    "core/evaluation/baseline.py:Baseline.window": REPORT,
    "engine/simulation/simulate.py:Run.window": REPORT,
    "surfaces/cli/inspect/reports.py:WindowFit.window": REPORT,
    "engine/simulation/evaluate.py:EvaluationSettings.window": WIRE,
    "surfaces/console/session_pages/reports.py:EvaluateQuery.window": WIRE,
    "surfaces/serve_settings.py:AgentSettings.window": WIRE,
    "surfaces/cli/demo/home.py:_Talk.window": "a table of the demo's script",
}
"""A place, or a folder that ends with `/`, and why it holds text or a number. Parameters of
operations are `WindowTokens`, which is the type of the wire."""

OWNER_TYPES = {"NamedOwner", "NoOwner", "AnyOwner", "UnknownOwner"} | {
    *("Owner", "OwnerFilter", "FoundOwner", "Caller")
}
WINDOW_TYPES = {"Window", "AnyWindow", "WindowFilter", "StatedWindow", "GivenWindow"}
EVERY_OWNER = {"AnyOwner", "OwnerFilter"}

DEFAULTS = {
    "stores/copying.py:copy_store(owner)": "copies a store; its signature says ANY_OWNER",
}
"""The parameters that mean every owner where nothing is given."""


class Declared(NamedTuple):
    """A parameter, a field or a result, and its type as it is written."""

    place: str
    name: str
    type: ast.expr
    default: str = ""

    @property
    def members(self) -> set[str]:
        """The names in its type, those of generics included, without what annotates them."""
        return set(_names(self.type))


def _names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "Annotated":
        assert isinstance(node.slice, ast.Tuple)
        yield from _names(node.slice.elts[0])
    elif isinstance(node, ast.Subscript) and ast.unparse(node.value) == "Literal":
        yield "Literal"
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield from _names(ast.parse(node.value, mode="eval").body)
    elif isinstance(node, ast.Constant):
        yield str(node.value)
    elif isinstance(node, ast.Attribute):
        yield node.attr
    elif isinstance(node, ast.Name):
        yield node.id
    else:
        for child in ast.iter_child_nodes(node):
            yield from _names(child)


def declared(source: str, module: str) -> Iterator[Declared]:
    """Yield every parameter, annotated field and result of a module."""

    def walk(node: ast.AST, path: tuple[str, ...], in_class: bool) -> Iterator[Declared]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                inner = (*path, child.name)
                yield from _parameters(child, f"{module}:{'.'.join(inner)}")
                if child.returns is not None:
                    yield Declared(f"{module}:{'.'.join(inner)}", child.name, child.returns)
                yield from walk(child, inner, False)
            elif isinstance(child, ast.ClassDef):
                yield from walk(child, (*path, child.name), True)
            elif isinstance(child, ast.AnnAssign) and in_class:
                name = ast.unparse(child.target)
                yield Declared(f"{module}:{'.'.join((*path, name))}", name, child.annotation)
            else:
                yield from walk(child, path, in_class)

    yield from walk(ast.parse(source), (), False)


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef, place: str) -> Iterator[Declared]:
    args = function.args
    plain = [*args.posonlyargs, *args.args]
    defaults = [None] * (len(plain) - len(args.defaults)) + [*args.defaults]
    for arg, default in zip(
        [*plain, *args.kwonlyargs], [*defaults, *args.kw_defaults], strict=True
    ):
        if arg.annotation is not None:
            text = "" if default is None else ast.unparse(default)
            yield Declared(f"{place}({arg.arg})", arg.arg, arg.annotation, text)


def every_declared() -> list[Declared]:
    return [
        one
        for path in sorted(PACKAGE.rglob("*.py"))
        for one in declared(path.read_text("utf-8"), path.relative_to(PACKAGE).as_posix())
    ]


def wrong_owners(found: list[Declared]) -> list[str]:
    """The places that say in text, or in no type of ours, whose something is."""
    wrong = []
    for one in found:
        if one.name.lstrip("_") not in ("owner", "owners") or _is_edge(one.place, OWNER_EDGES):
            continue
        is_text = "str" in one.members
        if is_text and (not one.members & OWNER_TYPES or "None" in one.members):
            wrong.append(f"{one.place}: {ast.unparse(one.type)}")
    return wrong


def wrong_windows(found: list[Declared]) -> list[str]:
    """The places that hold a window as a number."""
    return [
        f"{one.place}: {ast.unparse(one.type)}"
        for one in found
        if one.name.lstrip("_") == "window"
        and not _is_edge(one.place, WINDOW_EDGES)
        and one.members & {"int", "str", "Tokens"}
    ]


def forgotten_owners(found: list[Declared]) -> list[str]:
    """The parameters that get every owner where a caller says nothing."""
    return [
        one.place
        for one in found
        if one.members & EVERY_OWNER
        and one.default not in ("", "NO_OWNER", "()", "''")
        and one.place not in DEFAULTS
    ]


def _is_edge(place: str, edges: dict[str, str]) -> bool:
    return place in edges or any(place.startswith(edge) for edge in edges if edge.endswith("/"))


def test_an_owner_is_text_at_the_edges_alone() -> None:
    """No parameter, field or result says in a text whose it is, but for the edges."""
    assert wrong_owners(every_declared()) == []


def test_a_window_is_a_number_at_the_edges_alone() -> None:
    """No parameter, field or result holds a window as a number, but for the edges."""
    assert wrong_windows(every_declared()) == []


def test_nobody_gets_every_owner_by_saying_nothing() -> None:
    """What can mean every owner has no such default, but for one whose purpose is everything."""
    found = every_declared()
    assert forgotten_owners(found) == []
    by_place = {one.place: one for one in found}
    assert {by_place[place].default for place in DEFAULTS} == {"ANY_OWNER"}


def test_the_edges_are_there() -> None:
    """An edge that is gone is no longer named; each of them holds text or a number."""
    members = {one.place: one.members for one in every_declared()}
    gone = [
        edge
        for edge in (*OWNER_EDGES, *WINDOW_EDGES)
        if not edge.endswith("/") and not members.get(edge, set()) & {"str", "int", "Tokens"}
    ]
    assert gone == []
    adapters = [place for place in members if place.startswith("integrations/")]
    texts = [place for place in adapters if place.endswith("(owner)")]
    assert texts
    assert all("None" not in members[place] for place in texts)


@pytest.mark.parametrize(
    "source",
    [
        "def find(owner: str | None = None): ...",
        "def find(*, owner: str): ...",
        "def find(owner: 'str | None'): ...",
        "def find(owner: str | Owner | None): ...",
        "class A:\n    owner: str = ''",
        "class A:\n    def owner(self) -> str | None: ...",
        "def f():\n    async def g(owners: tuple[str, ...]): ...",
        "class A:\n    owner: Annotated[str, Meta(max_length=9)]",
    ],
)
def test_an_owner_in_text_is_noticed(source: str) -> None:
    assert len(wrong_owners(list(declared(source, "engine/new.py")))) == 1


@pytest.mark.parametrize(
    "source",
    [
        "def fit(window: int): ...",
        "def fit(window: int | None = None): ...",
        "def fit(window: int | Window): ...",
        "class A:\n    window: Tokens | None = None",
        "class A:\n    @property\n    def window(self) -> int: ...",
    ],
)
def test_a_window_as_a_number_is_noticed(source: str) -> None:
    assert len(wrong_windows(list(declared(source, "engine/new.py")))) == 1


@pytest.mark.parametrize(
    "source",
    [
        "def find(owner: OwnerFilter = ANY_OWNER): ...",
        "def find(*, owner: str | OwnerFilter = ANY_OWNER): ...",
        "def find(whose: AnyOwner | NamedOwner = AnyOwner()): ...",
    ],
)
def test_a_default_that_means_everybody_is_noticed(source: str) -> None:
    assert len(forgotten_owners(list(declared(source, "engine/new.py")))) == 1


def test_what_is_typed_is_not_noticed() -> None:
    source = (
        "def find(owner: Owner, wanted: str | OwnerFilter = NO_OWNER) -> str: ...\n"
        "def fit(window: Window | None, tokens: int, of: GivenWindow = None): ...\n"
        "class A:\n    owner: FoundOwner = UNKNOWN_OWNER\n    window: WindowFilter"
    )
    found = list(declared(source, "engine/new.py"))
    assert len(found) == 8
    assert (wrong_owners(found), wrong_windows(found), forgotten_owners(found)) == ([], [], [])


def test_a_parameter_is_followed() -> None:
    """`scripts/house.py` tells who reads a parameter from who only hands it on, or keeps it."""
    source = (
        "def a(owner: Owner): return b(owner)\n"
        "def b(owner: Owner): self.owner = owner\n"
        "def c(owner: str | None): return owner_text(owner)\n"
        "def d(owner: Owner): return owner == NO_OWNER and b(owner)\n"
        "def e(other: Owner): return a(other)\n"
    )
    module = house.Module("new.py", 5, ast.parse(source))
    found = [(place[-1], kind, handed) for place, kind, handed in house.takers([module], "owner")]
    assert found == [
        ("a", "Owner", True),
        ("b", "Owner", True),
        ("c", "str | None", False),
        ("d", "Owner", False),
    ]
