"""Files that earlier code wrote, read by the code of today: nothing of them is ever lost.

To see how today's code reads a log, as JSON: python tests/stores/test_corpus.py LOG
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import BY_TYPE, Header, OutputRef, ToolResult, User, to_json
from holdfast.core.owners import ANY_OWNER, owner_of
from holdfast.ports import ANY_HEAD
from holdfast.stores.blobs import FileBlobs
from holdfast.stores.jsonl.store import JsonlStore

if TYPE_CHECKING:
    from collections.abc import Iterator

CORPUS = Path(__file__).parents[1] / "corpus"
SHA256 = """
4bbabf22760f6ed0d654822860a25fc4b68c3a83c22f95c69c11037334df1a49  seed/two-tools.expected.json
5dab92adf2117b8d4dcb84997a48fce9f94c421f7a0bac59e79879841d63fd8d  seed/two-tools.jsonl
5d0ea029edaefb84b8b9b8c9b55827e06ed3d11c8e418655fc850f29cbad2ae1  v1/added.expected.json
13b8d87817b60c02ed93d7b63a0429885e76ef9bcbf76092d02b4ae0703b3a5f  v1/added.jsonl
c8b9c5cd17aa3156b6405ed7cab50ac1ae1b75d21417d734b4993bdccc5f4102  v1/branches.expected.json
f193d1d28f880f6b6a3635ef3fabe9697db2a70ce3c6fc5c1e5764c8b38ca5ee  v1/branches.jsonl
9304fb8829fe68961967e07200ad5b9dfbc180bc4f836dfc9a8df007216ba484  v1/continued.expected.json
7b62132bcb91595832e81f02fcd7f7c9c9a47b9849cdb096d2d4a83c1c597cf6  v1/continued.jsonl
ab81edacdf0b982fc52d623a5d1c58548909cf9b07480bf6c2a5138dcedda1fe  v1/damaged.expected.json
9f33a7d26afa317a9e70ff8ab99405423e6b29edec4652548b8893305b8583dd  v1/damaged.jsonl
e41c40eadd78c644c2542c9bf34913e5caaa7d4f6b2eb0054575e24da0ae9c2b  v1/every-type.blob.zst
b7fe1df837c6f38c63e72a35a4a162e94faa0882cbf530d67b7a1dd96f496acf  v1/every-type.expected.json
1ec66e7f849772b497ec8546b707e2934ebff7c1aedced152b09fd1e595b9650  v1/every-type.jsonl
e419114ec2eb0476d9317ef7c373aff3d3a788e330c9e5366c91473c355fca5c  v1/failed.expected.json
4420f475c9214862d887c6f54f0dff29828093bebcd48eefe1673dcb589e974c  v1/failed.jsonl
a484cb5c99ecec8b6b3191ffc13d940a809f4fdd2b83000cd04e39bdcd8f247d  v1/informed.expected.json
27eeb24653b78b05140141782c391374c92f29c09c8a21ae919785d9dcf619b4  v1/informed.jsonl
f9e6b5d1113797fbfefe4326cae9180d6685599b152989532d46f4f68bd73995  v1/owned.expected.json
9200632361af4d79ba55fef89644d4a784b03cd422e5a6256dfa716fa8f99399  v1/owned.jsonl
003649d0b64cd98da16c06bc6b5efbfdc678c92a8642ee589ef35a873bc2ef52  v1/parked.expected.json
cf4ddb8e474ff8f1ed9d8fc43343045df7f86dfe1e99062df74a9e77fa34500f  v1/parked.jsonl
ecfa407a7bf05186b138296890f2f5a193f4b29e828b5d19b6626c626ac753c1  v1/renewed.expected.json
cba0464e87fd56253d6007ab4792467f84cb061587b14315ba248f646eaa1581  v1/renewed.jsonl
07bf2505461483a42cceb4dc044eb2ed8c97ee4403d035444e79d0cb754eb225  v1/torn.expected.json
5dab91fe95f24da205ba479a5199caed49ccc164ac4a565444ccd18b76d5c73e  v1/torn.jsonl
433c05b8d67ac25d071f2d9387c029f39872c0764bfe14aad0d0e0c894b4cce8  v1/undone.expected.json
cadfd777a777d37deade676ab972862dbac715e8c5d7ab02975091f1e5ebc294  v1/undone.jsonl
33218c0aaf541e6edbc8fecb5ec59be1aedf3eb1f04ce0b7c6e56700d5457787  v1/unknown.expected.json
89328b25a393c8c053f2930b590ba2cc84d61af6c773533f89c5fcd1be584c15  v1/unknown.jsonl
"""
FROZEN = {name: sha256 for sha256, name in (line.split() for line in SHA256.strip().split("\n"))}
LOGS = sorted(name for name in FROZEN if name.endswith(".jsonl"))


def placed(root: Path, log: Path) -> SessionKey:
    """Put a copy of a log where a store looks for it."""
    key = SessionKey("main", log.stem)
    path = root / "agents" / key.agent / "sessions" / log.name
    path.parent.mkdir(parents=True)
    shutil.copyfile(log, path)
    return key


def described(store: JsonlStore, key: SessionKey) -> dict[str, Any]:
    """Everything a reader can get out of a log."""
    live, report = store.live(key), store.verify(key)
    [info] = store.sessions(owner=ANY_OWNER)
    return {
        "head": store.head(key),
        "label": info.label,
        "title": info.title,
        "read": [record.id for record in store.read(key)],
        "all": [[entry.standing, to_json(entry.record)] for entry in store.read_all(key)],
        "live": {
            "boundary": live.boundary and live.boundary.id,
            "records": [record.id for record in live.records],
        },
        "branches": [
            {"head": branch.head, "from": branch.forked_from, "is_current": branch.is_current}
            for branch in store.branches(key)
        ],
        "findings": [[one.kind, one.position, one.size] for one in report.findings],
    }


@pytest.fixture(params=LOGS)
def log(request: pytest.FixtureRequest) -> Path:
    return CORPUS / str(request.param)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[JsonlStore]:
    with JsonlStore(tmp_path) as opened:
        yield opened


def test_corpus_files_are_as_they_were() -> None:
    """Not one frozen file was changed, added or removed without saying so here."""
    found = {
        str(path.relative_to(CORPUS)): hashlib.sha256(path.read_bytes()).hexdigest()
        for folder in CORPUS.iterdir()
        if folder.is_dir() and folder.name != "__pycache__"
        for path in folder.rglob("*")
        if path.is_file()
    }
    assert found == FROZEN


def test_corpus_is_read_as_it_always_was(log: Path, tmp_path: Path, store: JsonlStore) -> None:
    """Every reader gives what was expected on the day the file was frozen."""
    key = placed(tmp_path, log)
    expected = json.loads(log.with_suffix(".expected.json").read_text())
    assert json.loads(json.dumps(described(store, key))) == expected


def test_corpus_is_read_without_being_changed(log: Path, tmp_path: Path, store: JsonlStore) -> None:
    """Reading, verifying and listing leave every byte where it was."""
    key = placed(tmp_path, log)
    described(store, key)
    assert b"".join(store.export(key)) == log.read_bytes()


def test_corpus_can_be_appended_to(log: Path, tmp_path: Path, store: JsonlStore) -> None:
    """An old log goes on as a log of today: its bytes stay, and the new record follows its head."""
    key = placed(tmp_path, log)
    before = [to_json(record) for record in store.read(key)]
    done = store.append(key, [User(content="years later")], expect=store.head(key))
    after = [to_json(record) for record in store.read(key)]
    assert after[:-1] == before
    assert (after[-1]["id"], after[-1]["content"]) == (done.head, "years later")
    assert b"".join(store.export(key)).startswith(log.read_bytes())


def test_corpus_survives_a_fork_and_a_repair(log: Path, tmp_path: Path, store: JsonlStore) -> None:
    """Copies written by today's code hold the same records, whatever the old log looked like."""
    key = placed(tmp_path, log)

    def content(of: SessionKey) -> list[tuple[str, object]]:
        records = [one for one in store.read(of) if not isinstance(one, Header)]
        return [(one.kind, getattr(one, "content", None)) for one in records]

    before = content(key)
    store.fork(key, SessionKey("main", "copy"), at=None)
    assert content(SessionKey("main", "copy")) == before
    assert store.verify(SessionKey("main", "copy")).is_sound
    mended = store.repair(key)
    assert content(mended.key) == before
    assert store.verify(mended.key).is_sound


def test_corpus_of_the_current_version_has_every_record_type(
    tmp_path: Path, store: JsonlStore
) -> None:
    """A new record type comes with a frozen log that holds it."""
    every = store.verify(placed(tmp_path, CORPUS / "v1" / "every-type.jsonl"))
    names = ("undone", "continued", "informed", "failed", "renewed", "added", "parked")
    later = [CORPUS / "v1" / f"{name}.jsonl" for name in names]
    lines = [line for path in later for line in path.read_text().splitlines()]
    types = {json.loads(line)["type"] for line in lines}
    assert set(every.counts) | types == set(BY_TYPE)


def test_corpus_blob_is_read_by_the_ref_in_its_log(tmp_path: Path, store: JsonlStore) -> None:
    """A payload stored by the first version is found and verified through the record's ref."""
    key = placed(tmp_path, CORPUS / "v1" / "every-type.jsonl")
    refs = [one.output_ref for one in store.read(key) if isinstance(one, ToolResult)]
    ref = next(ref for ref in refs if isinstance(ref, OutputRef))
    place = tmp_path / "blobs" / ref.sha256[:2] / f"{ref.sha256}.zst"
    place.parent.mkdir(parents=True)
    shutil.copyfile(CORPUS / "v1" / "every-type.blob.zst", place)
    assert FileBlobs(tmp_path).get(ref.sha256) == b"the whole output, line by line\n" * 40
    assert ref.sha256 in set(store.hash_candidates())


def test_corpus_says_whose_a_session_is(log: Path, tmp_path: Path, store: JsonlStore) -> None:
    """The owner that was written down is found, and older logs belong to nobody."""
    key = placed(tmp_path, log)
    owner = "ann@example.org" if log.stem == "owned" else ""
    (info,) = store.sessions(owner=ANY_OWNER)
    assert store.header(key).owner == owner
    assert info.owner == owner_of(owner)
    assert store.header(key).reason == info.reason


def test_corpus_of_the_seed_has_each_call_once(tmp_path: Path, store: JsonlStore) -> None:
    """The doubled calls of the seed format are read once, and appending makes no header of it."""
    key = placed(tmp_path, CORPUS / "seed" / "two-tools.jsonl")
    kinds = [record.kind for record in store.read(key)]
    assert kinds == [
        *("user", "assistant", "tool_result", "tool_result", "assistant", "user", "assistant")
    ]
    store.append(key, [User(content="more")], expect=ANY_HEAD)
    assert [record.kind for record in store.read(key)] == [*kinds, "user"]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, JsonlStore(folder) as opened:
        key = placed(Path(folder), Path(sys.argv[1]))
        facts = described(opened, key)
    lines = [f"{json.dumps(name)}: {_in_lines(value)}" for name, value in facts.items()]
    print("{\n" + ",\n".join(lines) + "\n}")


def _in_lines(value: object) -> str:
    """A list with one item a line, so that a difference is easy to see."""
    if not isinstance(value, list) or not value:
        return json.dumps(value, ensure_ascii=False)
    return "[\n  " + ",\n  ".join(json.dumps(one, ensure_ascii=False) for one in value) + "\n]"


if __name__ == "__main__":
    main()
