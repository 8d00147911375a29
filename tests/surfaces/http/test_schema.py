"""The OpenAPI document is true: schemathesis sends what it allows and what it does not.

Every check of schemathesis is on: no 5xx, no status, type or body that the document does not have,
what it allows is taken, what it does not is refused.
"""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from typing import TYPE_CHECKING, get_args

import pytest
from hypothesis import given
from tests.strategies import records
from tests.support.runs import examples, is_whole
from tests.surfaces.http.real import ServeProcess, request

from holdfast.core.log.records import Record, Unknown, to_json
from holdfast.surfaces.http import events
from holdfast.surfaces.http.events import MEDIA_TYPE
from holdfast.surfaces.http.openapi import document
from holdfast.surfaces.http.server import ROUTES

if TYPE_CHECKING:
    from pathlib import Path

SCHEMAS = document(ROUTES)["components"]["schemas"]
SERVER = """
[server]
requests_burst = 1000000
requests_per_second = 100000.0
[agents.main]
system = "Be brief."
window = 150000
limits = { output_tokens = 900 }
"""
KNOWN = """
[parameters]
"query.cursor" = ""
"""
"""A cursor is a text of ours: another text fits its type, and is refused."""
WITHIN = """
"path.agent" = "main"
"path.session" = "a"
"query.after" = ""
"query.around" = ""
"query.policy" = ""
"query.dialect" = ""
"query.window" = 200000
"query.output" = 1000
"""
"""A session that exists, so that the routes do what they are for."""
LOOSE = ("--exclude-checks", "positive_data_acceptance")
"""What a session takes depends on what was said in it, which no schema knows."""


def run_schemathesis(server: ServeProcess, folder: Path, settings: str, *options: str) -> str:
    """Return what it reports; empty where all is well."""
    config = folder / "schemathesis.toml"
    config.write_text(settings)
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(config)),
        *("run", f"{server.url}/openapi.json", "--checks", "all", "--no-color"),
        *("--exclude-path-regex", "events$|/erase$", "--generation-database", "none"),
        *options,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    return "" if done.returncode == 0 else f"{done.stdout}\n{done.stderr}"[-6_000:]


@pytest.mark.files_only("it starts a process of its own on a folder")
def test_the_document_is_true(tmp_path: Path) -> None:
    examples, phases = ("100", "coverage,fuzzing") if is_whole() else ("2", "fuzzing")
    seed = () if is_whole() else ("--seed", "1")  # what is new is looked for at night
    with ServeProcess(str(tmp_path / "store"), SERVER, tmp_path) as server:
        made = server.send(request("PUT", "/v1/sessions/main/a", b'{"label": "x"}'))
        assert made[0] == 200
        sent = request("POST", "/v1/sessions/main/a/messages?wait=60", b'{"content": "x"}')
        assert server.send(sent)[0] == 200
        options = ("-n", examples, "--phases", phases, *seed)
        if is_whole():
            assert run_schemathesis(server, tmp_path, KNOWN, *options) == ""
        assert run_schemathesis(server, tmp_path, KNOWN + WITHIN, *options, *LOOSE) == ""
        assert "Traceback" not in server.log()


def test_everything_in_the_document_is_described() -> None:
    """Each operation, parameter and property has its words, nested ones too."""
    found = document(ROUTES)
    bare = [
        f"{name}.{field}"
        for name, schema in found["components"]["schemas"].items()
        for field, value in schema.get("properties", {}).items()
        if not value.get("description") and "$ref" not in value
    ]
    for path, operations in found["paths"].items():
        for method, operation in operations.items():
            assert operation["summary"]
            bare += [
                f"{method} {path} {each['name']}"
                for each in operation["parameters"]
                if not each.get("description")
            ]
    assert bare == []
    assert len(found["components"]["schemas"]) > 30


def test_answers_and_events_are_typed() -> None:
    """No answer is just an object but the document itself; each event of a stream has a type."""
    loose, streams = set(), {}
    for path, operations in document(ROUTES)["paths"].items():
        for operation in operations.values():
            for answer in operation["responses"].values():
                if "$ref" in answer:  # a problem
                    continue
                for media, shape in answer["content"].items():
                    if shape["schema"] == {"type": "object"}:
                        loose.add(path)
                    if media == MEDIA_TYPE:
                        streams[path] = set(shape["x-events"])
    assert loose == {"/openapi.json"}
    assert streams["/v1/events"] == {"message"}
    source = inspect.getsource(events)
    sent = set(re.findall(r'_event\("(\w+)"', source))
    assert streams["/v1/sessions/{agent}/{session}/events"] == sent
    named = {kind.__struct_config__.tag for kind in get_args(events.TurnEvent)}
    assert named == {kind.__name__ for kind in events._SHOWN}


@given(records())
@examples(200)
def test_records_are_typed_as_they_are_sent(record: Record) -> None:
    """Each type of record has its fields in the document, as a line of a log has them."""
    sent = to_json(record)
    if isinstance(record, Unknown):
        found = SCHEMAS["OtherLoggedRecord"]
    else:
        found = SCHEMAS[f"{type(record).__name__}Record"]
        assert found["properties"]["type"]["enum"] == [record.kind]
        assert sent.keys() - record.extra.keys() <= found["properties"].keys()
    assert {*found["required"]} - {"id"} <= sent.keys()  # the log gives each record its id
