"""Types are read by one thread at a time: msgspec alone crashes the process."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from scripts import house
from tests.support.runs import is_whole

import holdfast
from holdfast.core.text.typed import convert_typed, decode_typed, decoder_of

_RACE = """
import sys, threading
import msgspec
from typing import Annotated
from holdfast.core.text.typed import convert_typed, decode_typed, decoder_of

sys.setswitchinterval(1e-6)
ASK = [
    lambda kind: decode_typed(b'{"f7": 1}', kind),
    lambda kind: convert_typed({"f7": 1}, kind),
    lambda kind: decoder_of(kind).decode(b'{"f7": 1}'),
    lambda kind: decode_typed(b'[{"f7": 1}]', list[kind])[0],
]
fields = [(f"f{number}", "Annotated[int, msgspec.Meta(ge=0)] | None", None) for number in range(8)]
for number in range(int(sys.argv[1])):
    kind = msgspec.defstruct(f"S{number}", fields, module=__name__, kw_only=True)
    begun, found = threading.Barrier(len(ASK)), []
    def work(ask):
        begun.wait()
        found.append(ask(kind).f7)
    threads = [threading.Thread(target=work, args=(ask,)) for ask in ASK]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [1] * len(ASK), found
print("sound")
"""
SOURCE = Path(holdfast.__file__).parent


class _Pair(msgspec.Struct):
    left: int
    right: str = ""


def test_values_have_their_types() -> None:
    assert decode_typed(b'{"left": 1}', _Pair) == _Pair(1)
    assert convert_typed({"left": "2"}, _Pair, strict=False) == _Pair(2)
    assert decoder_of(_Pair).decode(b'{"left": 3}') == _Pair(3)
    assert decode_typed(b'[1, "a"]', tuple[float, str]) == (1.0, "a")
    with pytest.raises(msgspec.ValidationError):
        convert_typed({"left": "2"}, _Pair)


def test_threads_may_ask_for_a_new_type_at_once() -> None:
    """The process ends by itself, and not by a signal."""
    rounds = 2_000 if is_whole() else 100
    done = subprocess.run(
        [sys.executable, "-c", _RACE, str(rounds)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (0, "sound"), done.stderr[-2_000:]


def _asks_msgspec(node: ast.AST) -> bool:
    """Return whether a call gives a type to msgspec."""
    if not isinstance(node, ast.Call):
        return False
    name = ast.unparse(node.func)
    is_typed = len(node.args) > 1 or any(word.arg == "type" for word in node.keywords)
    return (
        name in ("msgspec.convert", "convert")
        or (name.endswith("json.Decoder") and bool(node.args))
        or (name.endswith("json.decode") and is_typed)
    )


def test_nothing_else_gives_types_to_msgspec() -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path in sorted(SOURCE.rglob("*.py"))
        if path.name != "typed.py" and "msgspec" in path.read_text("utf-8")
        for node in house.nodes_of(house.parse(path))
        if _asks_msgspec(node) and isinstance(node, ast.Call)
    ]
    assert found == [], "use `core/text/typed.py`: a type that two threads read crashes the process"
    typed = house.nodes_of(house.parse(SOURCE / "core/text/typed.py"))
    assert sum(map(_asks_msgspec, typed)) == 4, "the search finds what it looks for"
