"""Stores and blobs, opened from one address: a folder, `memory:`, `postgresql://…`, `s3://…`."""

from __future__ import annotations

import os
import random
import time
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from holdfast.core.secrets.addresses import FOLDER, MEMORY, address_kind, describe_address
from holdfast.errors import UsageError

if TYPE_CHECKING:
    from holdfast.ports import BlobStore, Clock, Entropy, SessionStore


class _Driver(NamedTuple):
    """A class that opens addresses of one kind, and the extra that it needs."""

    module: str
    name: str
    extra: str


_POSTGRES: Final = _Driver("holdfast.stores.postgres.store", "PostgresStore", "postgres")
_STORES: Final = {"postgresql": _POSTGRES, "postgres": _POSTGRES}
"""The kinds of stores on other machines. Each takes the address, `blobs`, `clock`
and `entropy`."""
_BLOBS: Final = {"s3": _Driver("holdfast.stores.s3", "S3Blobs", "s3")}
"""The kinds of blobs on other machines. Each takes the address."""


def open_store(
    address: str | os.PathLike[str],
    *,
    blobs: str | os.PathLike[str] | BlobStore | None = None,
    clock: Clock = time.time,
    entropy: Entropy = random.getrandbits,
) -> SessionStore:
    """Open the store at an address: everything of its sessions is there.

    A path is a folder, made when something is stored. `memory:` is a store that is lost with the
    object. `postgresql://user@host/database` is a database, for agents on many machines (extra
    `postgres`). With `blobs`, payloads are kept elsewhere: at another address, which `open_blobs`
    opens, or in a `BlobStore` of your own.

    Raises `UsageError` for an address of another kind; no error shows a password.
    """
    kind, text = _read(address, "a store")
    if kind != FOLDER and kind != MEMORY and kind not in _STORES:
        raise _unknown(text, "a store", "a folder, `memory:` or `postgresql://user@host/database`")
    elsewhere = open_blobs(blobs) if isinstance(blobs, str | os.PathLike) else blobs
    if kind == FOLDER:
        from holdfast.stores.jsonl.store import JsonlStore

        return JsonlStore(text, blobs=elsewhere, clock=clock, entropy=entropy)
    if kind == MEMORY:
        from holdfast.stores.in_memory import MemoryStore

        return MemoryStore(blobs=elsewhere, clock=clock, entropy=entropy)
    driver = _load(_STORES[kind], text)
    store: SessionStore = driver(text, blobs=elsewhere, clock=clock, entropy=entropy)
    return store


def open_blobs(address: str | os.PathLike[str]) -> BlobStore:
    """Open the blobs at an address: a folder, `memory:`, or `s3://bucket/prefix` (extra `s3`)."""
    kind, text = _read(address, "blobs")
    if kind == FOLDER:
        from holdfast.stores.blobs import FileBlobs

        return FileBlobs(text)
    if kind == MEMORY:
        from holdfast.stores.in_memory import MemoryBlobs

        return MemoryBlobs()
    if kind not in _BLOBS:
        raise _unknown(text, "blobs", "a folder, or `s3://bucket/prefix`")
    blobs: BlobStore = _load(_BLOBS[kind], text)(text)
    return blobs


def _read(address: str | os.PathLike[str], what: str) -> tuple[str, str]:
    """Return the kind and the text of an address that can be one."""
    text = os.fspath(address)
    if not isinstance(text, str) or not text.strip() or "\0" in text:
        raise UsageError(
            f"cannot open {what}: {ascii(describe_address(str(text)))[:80]} is not an address",
            hint="pass the path of a folder, or an address such as `memory:`",
        )
    kind = address_kind(text)
    if kind == FOLDER:
        return kind, text
    text = text.strip()
    is_whole = text.lower() == f"{MEMORY}:" if kind == MEMORY else "://" in text
    if not isinstance(address, str) or not is_whole:
        raise UsageError(
            f"cannot open {what} at `{describe_address(text)}`: it is half an address",
            hint=f"write `{MEMORY}:` or `{kind}://…` as a text; a folder of that name is `./NAME`"
            if kind == MEMORY
            else f"write `{kind}://…`, as a text and not a path; a folder of that name is `./NAME`",
        )
    return kind, text


def _load(driver: _Driver, address: str) -> Any:
    """Return the class that opens an address."""
    try:
        return getattr(import_module(driver.module), driver.name)
    except ModuleNotFoundError as error:
        raise UsageError(
            f"cannot open `{describe_address(address)}`: {error.name} is not installed",
            hint=f"install it with `pip install 'holdfast[{driver.extra}]'`",
        ) from None


def _unknown(address: str, what: str, known: str) -> UsageError:
    return UsageError(
        f"cannot open {what} at `{describe_address(address)}`: no such kind of address",
        hint=f"use {known}",
    )
