"""`classify`: classifies provider errors, one JSON line each."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.failures.classify import Failure, Symptoms
from holdfast.providers.failures import name_failure, symptoms_of
from holdfast.surfaces.cli.app import App, Verb

if TYPE_CHECKING:
    import argparse

_EXAMPLE = """example:
  echo '{"status":400,"message":"prompt is too long: 207791 tokens > 200000 maximum"}' |
      holdfast classify"""
_FIELDS = frozenset(("status", "code", "type", "message", "retry_after"))


def _add_classify(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--why", action="store_true", help="add the rule that matched, its subclass and the wait"
    )


def _classify(args: argparse.Namespace, app: App) -> int:
    if sys.stdin.isatty():
        app.out.note("reading errors from the terminal, one JSON object per line; end with Ctrl-D")
    bad = 0
    for number, line in enumerate(sys.stdin.buffer, 1):
        if not line.strip():
            continue
        answer = _answer(line, number, is_why=args.why)
        bad += "error" in answer
        app.out.json(answer)
        sys.stdout.flush()  # a program may wait for each answer before it sends the next line
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
    return Symptoms(
        status=int(status) if status not in (None, "") else None,
        code=_text(asked.get("code")),
        type=_text(asked.get("type")),
        message=_text(asked.get("message")),
    )


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
    answer: dict[str, Any] = {
        "class": failure.kind,
        "action": failure.action,
        "limit": failure.limit,
        "input": failure.input,
        "output": failure.output,
    }
    if is_why:
        answer |= {
            "subclass": failure.subclass,
            "rule": failure.rule,
            "retry_after": failure.retry_after,
        }
    return answer


VERBS = {
    "classify": Verb(_add_classify, _classify, _EXAMPLE),
}
