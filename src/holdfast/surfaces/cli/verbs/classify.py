"""`classify`: classifies provider errors, one JSON line each."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from holdfast.core.failures.classify import Failure, Symptoms
from holdfast.providers.failures import name_failure, symptoms_of
from holdfast.surfaces.cli.command import Command, option, pick
from holdfast.surfaces.cli.verbs.append import note_terminal

if TYPE_CHECKING:
    from holdfast.surfaces.cli.app import App

_FIELDS = frozenset(("status", "code", "type", "message", "retry_after"))


class ClassifyCommand(Command, frozen=True, kw_only=True):
    """Classifies errors, a line each."""

    example = """example:
  echo '{"status":400,"message":"prompt is too long: 207791 tokens > 200000 maximum"}' |
      holdfast classify"""
    why: Annotated[bool, option("add the rule that matched, its subclass and the wait")] = False

    def run(self, app: App) -> int:
        note_terminal(app, "errors")
        bad = 0
        for number, line in enumerate(sys.stdin.buffer, 1):
            if line.strip():
                answer = _answer(line, number, is_why=self.why)
                bad += "error" in answer
                app.out.json(answer)
                sys.stdout.flush()  # a program may wait for it before it sends the next line
        return 1 if bad else 0


def _answer(line: bytes, number: int, *, is_why: bool) -> dict[str, Any]:
    try:
        asked = msgspec.json.decode(line.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return _refusal(number, f"line {number} is not JSON: {error}")
    if not isinstance(asked, dict | str):
        return _refusal(number, f"line {number} is neither an object nor a string")
    return _as_json(name_failure(_symptoms(asked)), is_why=is_why)


def _refusal(number: int, what: str) -> dict[str, Any]:
    hint = 'pass one error per line: {"status": 400, "code": "", "type": "", "message": "…"}'
    return {"error": {"type": "bad-line", "message": what, "hint": hint, "line": number}}


def _symptoms(asked: dict[str, Any] | str) -> Symptoms:
    """Read the four fields; anything else is read as the body of a response."""
    if isinstance(asked, str) or not _is_plain(asked):
        return symptoms_of(asked)
    status = asked.get("status")
    code, kind, message = (_text(asked.get(name)) for name in ("code", "type", "message"))
    given = int(status) if status not in (None, "") else None
    return Symptoms(status=given, code=code, type=kind, message=message)


def _is_plain(asked: dict[str, Any]) -> bool:
    status = asked.get("status")
    is_status = status in (None, "") or str(status).isdecimal()
    texts = (asked.get(name) for name in ("code", "type", "message"))
    return (
        is_status
        and all(text is None or isinstance(text, str | int) for text in texts)
        and ("message" in asked or not asked.keys() - _FIELDS)
    )


def _text(value: str | int | None) -> str:
    return "" if value is None else str(value)


def _as_json(failure: Failure, *, is_why: bool) -> dict[str, Any]:
    why = ("subclass", "rule", "retry_after") if is_why else ()
    found = pick(failure, "action", "limit", "input", "output", *why)
    return {"class": failure.kind, **found}
