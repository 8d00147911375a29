"""Access tokens in a store: their hashes alone, valid until they expire or are revoked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast.core.history.access import OPERATOR
from holdfast.core.owners import NamedOwner
from holdfast.engine.access_tokens import TOKENS_MAX, AccessToken, StoredTokens, new_token
from holdfast.engine.history.request import RequestRefused
from holdfast.engine.operations.server import CreateToken, ListTokens, RevokeToken
from holdfast.engine.workspace.workspace import CallerWorkspace
from holdfast.errors import UsageError
from holdfast.stores.in_memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    with MemoryStore() as made:
        yield made


def put(store: MemoryStore, name: str, owner: str = "", expires: float | None = None) -> str:
    _token, sha256 = new_token()
    StoredTokens(store).add(AccessToken(name, sha256, owner, "write", expires))
    return sha256


def test_a_token_is_found_by_its_hash_until_it_ends(store: MemoryStore) -> None:
    """By every other hash it is not; nor expired, nor revoked. Another may have its name then."""
    now = 1_000.0
    tokens = StoredTokens(store, clock=lambda: now)
    assert not tokens.are_needed()
    first, second = put(store, "laptop", "ann", 2_000.0), put(store, "phone", "*")
    assert tokens.are_needed()
    assert [token.name for token, _made in tokens.all()] == ["phone", "laptop"]
    found = tokens.find(first)
    assert found is not None
    assert (found.name, found.owner, found.scope) == ("laptop", "ann", "write")
    assert tokens.find("needed") is None
    assert tokens.find(new_token()[1]) is None
    now = 2_000.0
    assert tokens.find(first) is None
    assert tokens.find(second) is not None
    with pytest.raises(UsageError, match="there is a token `phone` already"):
        put(store, "phone", "bob")
    tokens.revoke("phone")
    assert tokens.find(second) is None
    with pytest.raises(UsageError, match="no token `phone`"):
        tokens.revoke("phone")
    assert tokens.find(put(store, "phone", "bob")) is not None


def test_a_store_that_had_a_token_never_opens_again(store: MemoryStore) -> None:
    """Also when the last one is revoked, and long after."""
    tokens = StoredTokens(store)
    put(store, "laptop", "ann")
    tokens.revoke("laptop")
    store.queues.forget(older_than_seconds=0)
    assert tokens.all() == []
    assert tokens.are_needed()


def test_the_tokens_of_a_person_are_erased_with_the_person(store: MemoryStore) -> None:
    anns, bobs = put(store, "laptop", "ann"), put(store, "phone", "bob")
    store.queues.erase(NamedOwner("ann"))
    tokens = StoredTokens(store)
    assert tokens.find(anns) is None
    assert tokens.find(bobs) is not None


def test_a_name_that_no_list_can_show_is_refused(store: MemoryStore) -> None:
    for name in ("", " x", "a\nb", "x" * 101):
        with pytest.raises(UsageError):
            put(store, name)
    assert not StoredTokens(store).are_needed()


def test_tokens_are_bounded(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    assert TOKENS_MAX == 1_000
    monkeypatch.setattr("holdfast.engine.access_tokens.TOKENS_MAX", 2)
    put(store, "a")
    put(store, "b")
    with pytest.raises(UsageError, match="no room"):
        put(store, "c")


def test_the_operations_show_a_token_once_and_leave_lines_in_the_audit_log(
    store: MemoryStore,
) -> None:
    """Made, listed and revoked: the token is in no later answer, and nowhere in the store."""
    workspace = CallerWorkspace(store, OPERATOR)
    made = CreateToken(name="laptop", owner="ann", days=1).call(workspace)
    assert made.row.expires == pytest.approx(made.row.created + 86_400, abs=5)
    listed = ListTokens().call(workspace)
    assert [row.name for row in listed.tokens] == ["laptop"]
    assert made.token not in repr(listed)
    stored = [*store.queues.messages("tokens", owner=NamedOwner("ann"))]
    assert made.token not in repr(stored)
    with pytest.raises(RequestRefused, match="already"):
        CreateToken(name="laptop").call(workspace)
    RevokeToken(name="laptop").call(workspace)
    lines = store.audit.entries().accesses
    assert [(line.action, line.target, line.is_allowed) for line in lines] == [
        ("token", "laptop", True),
        ("list", "", True),
        ("token", "laptop", False),
        ("token", "laptop", True),
    ]
    assert made.token not in repr(lines)
