"""Needs are read from what the user said, and what replies use."""

from __future__ import annotations

import pytest
from tests.support.planted import PLANTED, planted_session

from holdfast.core.evaluation.needs import NeedCatalog, fact_kind
from holdfast.core.log.records import Assistant, Record, User


def test_every_kind_is_found_in_the_planted_session() -> None:
    found = {need.kind: need.text for need in NeedCatalog(planted_session()).needs}
    assert PLANTED.items() <= found.items()


@pytest.mark.parametrize(
    ("fact", "kind"),
    [
        ("src/app/main.py", "file"),
        ("main.py", "file"),
        ("./run", "file"),
        ("get_user", "name"),
        ("HttpClient", "name"),
        ("a.dotted.name", "name"),
        ("48151623", "value"),
        ("7f3a9c2e41", "value"),
        ("no such table: users", "value"),
    ],
)
def test_facts_have_a_kind(fact: str, kind: str) -> None:
    assert fact_kind(fact) == kind


def test_a_finished_task_is_no_longer_needed() -> None:
    def todo(number: int, status: str) -> Record:
        use = {"type": "tool_use", "id": str(number), "name": "todo_write"}
        listed = {"todos": [{"content": "Rotate the keys", "status": status}]}
        return Assistant(id=f"a{number}", content=[{**use, "input": listed}])

    records = [User(id="u", content="go"), todo(1, "pending"), todo(2, "done"), todo(3, "done")]
    catalog = NeedCatalog(records)
    task = catalog.names.index("Rotate the keys")
    assert [task in each.begun for each in catalog.standing] == [False, True, False]
    assert [task in each.ended for each in catalog.standing] == [False, False, True]


@pytest.mark.parametrize(
    "said",
    [
        "Never push to main.",
        "Nunca subas nada a main.",
        "\u6c38\u8fdc\u4e0d\u8981\u76f4\u63a5\u63a8\u9001\u5230 main\u3002",
        "Glavnen plim ort wozzle.",
    ],
)
def test_what_the_user_says_is_needed_in_every_language(said: str) -> None:
    """From the next reply on; a question, a credential and what a program put in are not."""
    records: list[Record] = [
        User(id="u", content=f"{said}\nWhy?\nThe password is hunter2!Xy\n<log>\nall fine\n</log>"),
        Assistant(id="a", content="ok"),
    ]
    catalog = NeedCatalog(records)
    assert [(need.kind, need.text) for need in catalog.needs] == [("instruction", said)]
    assert catalog.standing[0].begun == (0,)
