"""`HoldfastStore`: a store of LangGraph over the notes of Holdfast, found by its memory."""

from __future__ import annotations

import operator
import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, Final, Unpack

from holdfast.core.history.access import Caller
from holdfast.core.limits import RECALL_LIMIT_MAX
from holdfast.engine.memory.search import Memory
from holdfast.engine.redactor import redactor
from holdfast.integrations.common.home import (
    StoreAdapter,
    StoreOptions,
    read_in_thread,
    write_in_thread,
)
from holdfast.integrations.common.originals import spell_item
from holdfast.integrations.langgraph.items import NotedItem, NotedItems, whole_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from holdfast.integrations.common.home import PeerName
    from holdfast.providers.embedders import EmbedTexts
    from holdfast.providers.embeddings import Embedder


_ORDERS: Final[dict[str, Callable[[float, float], bool]]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


class BaseStoreMethods(StoreAdapter):
    """Keeps items by namespace and key in any store. A `BaseStore` of LangGraph.

    `root` is the address of a store, `store` an open one. `fields` are the fields of a value that
    a search looks at, all by default. `embedder` is that of `Memory.open`: without one, words
    alone count.
    """

    framework_base: ClassVar = "langgraph.store.base:BaseStore"

    def __init__(
        self,
        *,
        fields: Sequence[str] | None = None,
        embedder: Embedder | EmbedTexts | str | None = None,
        **where: Unpack[StoreOptions],
    ) -> None:
        super().__init__(**where)
        self._fields = fields
        self._mutex = threading.RLock()
        agent, owner = self._home.agent, self._home.owner
        masks = redactor()
        notes = self._home.store.notes(agent, owner, redactor=masks)
        self._items = NotedItems(notes)
        self._memory = Memory(
            self._home.store,
            notes,
            embedder=embedder,
            redactor=masks,
            caller=Caller(agent, None, owner=owner, visibility="agent"),
        )

    def batch(self, ops: Iterable[Any]) -> list[Any]:
        """Carry out operations: what is read is as it was before them, and of several puts to one
        key the last counts."""
        return self._run(list(ops))

    async def abatch(self, ops: Iterable[Any]) -> list[Any]:
        """Carry out operations, as `batch` does."""
        from langgraph.store.base import PutOp

        found = list(ops)
        if any(isinstance(op, PutOp) for op in found):
            return await write_in_thread(lambda: self._run(found))
        return await read_in_thread(lambda: self._run(found))

    def _run(self, ops: list[Any]) -> list[Any]:
        from langgraph.store.base import GetOp, Item, ListNamespacesOp, PutOp, SearchOp

        self._home.store  # noqa: B018 - refuses a closed one
        results: list[Any] = []
        puts: dict[tuple[PeerName, str], Any] = {}
        with self._mutex:
            items: list[NotedItem] | None = None
            for op in ops:
                match op:
                    case GetOp():
                        found = self._items.get(tuple(op.namespace), op.key)
                        results.append(None if found is None else Item(**_fields_of(found)))
                    case SearchOp() | ListNamespacesOp():
                        items = self._items.all() if items is None else items
                        is_search = isinstance(op, SearchOp)
                        results.append(self._search(op, items) if is_search else _names(op, items))
                    case PutOp():
                        puts[tuple(op.namespace), op.key] = op
                        results.append(None)
                    case _:
                        raise ValueError(f"Unknown operation type: {type(op)}")
            # All are looked at before one is stored.
            made = [(place, self._prepare(op)) for place, op in puts.items()]
            for (namespace, key), stored in made:
                if stored is None:
                    self._items.delete(namespace, key)
                else:
                    self._items.put(namespace, key, *stored)
        return results

    def _prepare(self, op: Any) -> tuple[dict[str, Any], list[str]] | None:
        """Return the value of a put and its texts to search; None for a deletion."""
        if op.value is None:
            return None
        value = dict(op.value)
        spell_item(value)
        fields = self._fields if op.index is None else op.index
        if fields is False:
            return value, []
        if fields is None:
            return value, [whole_text(value)]
        from langgraph.store.base import get_text_at_path

        texts = [text for path in fields if path != "$" for text in get_text_at_path(value, path)]
        return value, [*texts, whole_text(value)] if "$" in fields else texts

    def _search(self, op: Any, items: list[NotedItem]) -> list[Any]:
        from langgraph.store.base import SearchItem

        prefix = tuple(op.namespace_prefix)
        found = [
            item
            for item in items
            if item.namespace[: len(prefix)] == prefix
            and all(matches(item.value.get(name), want) for name, want in (op.filter or {}).items())
        ]
        scores: dict[str, float] = {}
        if op.query and op.query.strip() and found:
            scores = self._scores(op.query, found)
            # Best first; what the query does not find comes after it, as in LangGraph's own.
            found.sort(key=lambda item: -scores.get(item.path, float("-inf")))
        return [
            SearchItem(**_fields_of(item), score=scores.get(item.path))
            for item in found[op.offset : op.offset + op.limit]
        ]

    def _scores(self, query: str, items: list[NotedItem]) -> dict[str, float]:
        """Return the score of each item that memory finds, by its path."""
        by_path = {item.path: item for item in items}
        same: dict[str, list[str]] = {}
        for path, item in by_path.items():
            for text in item.texts:
                same.setdefault(text, []).append(path)
        hits = self._memory.search(query, scope="notes", limit=RECALL_LIMIT_MAX, paths=by_path)
        scores: dict[str, float] = {}
        for hit in hits:
            if hit.path in by_path and hit.lines is not None:
                text = by_path[hit.path].text_at(hit.lines[0])
                for path in (hit.path, *same.get(text, ())):  # memory gives a text once
                    scores.setdefault(path, hit.score)
        return scores


def _fields_of(item: NotedItem) -> dict[str, Any]:
    return {
        "namespace": item.namespace,
        "key": item.key,
        "value": item.value,
        "created_at": datetime.fromtimestamp(item.created, UTC),
        "updated_at": datetime.fromtimestamp(item.updated, UTC),
    }


def _names(op: Any, items: list[NotedItem]) -> list[PeerName]:
    """Return the namespaces that have items and that an operation asks for, in order."""
    found = {
        item.namespace[: op.max_depth]
        for item in items
        if all(_is_at(match, item.namespace) for match in op.match_conditions or ())
    }
    return sorted(found)[op.offset : op.offset + op.limit]


def _is_at(match: Any, namespace: PeerName) -> bool:
    path: PeerName = tuple(match.path)
    if match.match_type not in ("prefix", "suffix"):
        raise ValueError(f"Unsupported match type: {match.match_type}")
    if len(namespace) < len(path):
        return False
    part = namespace[: len(path)]
    if match.match_type == "suffix":
        part = namespace[len(namespace) - len(path) :]
    return all(want in ("*", label) for want, label in zip(path, part, strict=True))


def matches(value: Any, wanted: Any) -> bool:
    """Return whether a field of a value is as a filter wants it, by the rules of LangGraph."""
    if isinstance(wanted, dict):
        if any(name.startswith("$") for name in wanted):
            return all(_compare(value, name, other) for name, other in wanted.items())
        return isinstance(value, dict) and all(
            matches(value.get(name), other) for name, other in wanted.items()
        )
    if isinstance(wanted, list | tuple):
        return (
            isinstance(value, list | tuple)
            and len(value) == len(wanted)
            and all(matches(*pair) for pair in zip(value, wanted, strict=True))
        )
    return bool(value == wanted)


def _compare(value: Any, sign: str, other: Any) -> bool:
    if sign == "$eq":
        return bool(value == other)
    if sign == "$ne":
        return bool(value != other)
    compare = _ORDERS.get(sign)
    if compare is None:
        raise ValueError(f"Unsupported operator: {sign}")
    try:
        return compare(float(value), float(other))
    except (TypeError, ValueError):
        return False  # an item without that number
