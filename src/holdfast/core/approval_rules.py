"""Rules that say which calls need whose approval: by tool, arguments and owner.

A rule asks for more, and never for less: what it cannot compare counts as a reason to ask.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from holdfast.core.owners import row_text
from holdfast.core.text.cut import cut
from holdfast.core.text.strings import is_like
from holdfast.core.text.typed import convert_typed
from holdfast.core.turn.calls import ApprovalNeed
from holdfast.errors import BadSetting

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from holdfast.core.owners import FoundOwner

T = TypeVar("T")
_SHOWN_CHARS: Final = 80
"""Of a name, where an error quotes it."""
_TESTS_CHARS: Final = 200
"""Of the tests of a rule, where a reason has them."""

PlainValue = str | int | float | bool


class ArgumentTest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A test of an argument. Everything that is stated has to hold; of a list, for one of its
    items."""

    above: float | None = None
    """It is a larger number."""
    below: float | None = None
    """It is a smaller number."""
    one_of: tuple[PlainValue, ...] = ()
    """It is one of these values."""
    none_of: tuple[PlainValue, ...] = ()
    """It is any other value."""
    inside: str = ""
    """It is the path of this folder, or of something in it."""
    outside: str = ""
    """It is any other path."""

    def conditions(self) -> dict[str, Any]:
        """Return what is asked, by name."""
        given = {name: getattr(self, name) for name in self.__struct_fields__}
        return {name: value for name, value in given.items() if value not in (None, (), "")}

    def holds(self, value: Any) -> bool:
        """Return whether it holds of a value. What cannot be compared counts as a yes."""
        if isinstance(value, list | tuple | set | frozenset):
            return any(self.holds(item) for item in value)
        return all(self._answers(value.value if isinstance(value, Enum) else value))

    def _answers(self, value: Any) -> Iterator[bool]:
        if self.above is not None or self.below is not None:
            number = _number(value)
            yield number is None or self.above is None or number > self.above
            yield number is None or self.below is None or number < self.below
        if self.one_of:
            yield not _is_comparable(value, self.one_of) or _is_among(value, self.one_of)
        if self.none_of:
            yield not _is_among(value, self.none_of)
        if self.inside or self.outside:
            path = _path(value)
            yield path is None or not self.inside or _is_in(path, self.inside)
            yield path is None or not self.outside or not _is_in(path, self.outside)


class ApprovalRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A rule: calls of these tools, with such arguments, for such owners need approval."""

    tools: tuple[str, ...]
    """The names of tools, as patterns with `*` and `?`."""
    when: dict[str, ArgumentTest] = {}
    """Tests of arguments, by name: all of them have to hold. Without any, every call is meant."""
    owners: tuple[str, ...] = ("*",)
    """The owners of sessions, in the same way; `""` means no owner."""
    approvers: tuple[str, ...] = ()
    """The names of those who may decide; anyone who may use the session, where there are none."""
    expires: float | None = None
    """The seconds in which a call may be approved; without them it waits without end."""
    reason: str = ""
    """Why, for the person who decides."""

    def is_about(self, tool: str, owner: FoundOwner) -> bool:
        """Return whether it is about calls of a tool for an owner. One who is not known, as where
        the first line of a log is damaged, may be any."""
        name = row_text(owner)
        return is_like(tool, self.tools) and (name is None or is_like(name, self.owners))

    def applies(self, arguments: Mapping[str, Any]) -> bool:
        """Return whether it asks about a call with these arguments. One that is not there cannot
        be compared."""
        return all(
            name not in arguments or test.holds(arguments[name]) for name, test in self.when.items()
        )


def rule_need(
    rules: Sequence[ApprovalRule], tool: str, owner: FoundOwner, arguments: Mapping[str, Any]
) -> ApprovalNeed | None:
    """Return why a call needs approval by the first rule that asks for it."""
    for number, rule in enumerate(rules, 1):
        if rule.is_about(tool, owner) and rule.applies(arguments):
            return ApprovalNeed(_describe(rule, number), rule.expires, rule.approvers)
    return None


def both_needs(own: ApprovalNeed | None, ruled: ApprovalNeed | None) -> ApprovalNeed | None:
    """Return what a tool and a rule ask for together: the shorter time, and the approvers whom
    both name. `check_rules` sees to it that there are some."""
    if own is None or ruled is None:
        return own or ruled
    times = [need.seconds for need in (own, ruled) if need.seconds is not None]
    common = tuple(name for name in ruled.approvers if name in own.approvers)
    return ApprovalNeed(
        f"{ruled.reason}; {own.reason}",
        min(times, default=None),
        common or own.approvers or ruled.approvers,
    )


class GatedTool(msgspec.Struct, frozen=True):
    """A tool, as far as a check of rules has to know it."""

    name: str
    parameters: Collection[str] | None
    """Its arguments; None where they are not known."""
    approvers: tuple[str, ...] = ()
    """Those who may decide about its calls, as the tool says."""


def check_rules(rules: Sequence[ApprovalRule], tools: Sequence[GatedTool], source: str) -> None:
    """Raise where a rule names a tool or an argument that there is not, so that it would never
    apply as it is meant, or where no one could decide."""
    known = ", ".join(tool.name for tool in tools) or "none"
    for number, rule in enumerate(rules, 1):
        for pattern in rule.tools:
            if not _is_glob(pattern) and not any(is_like(tool.name, [pattern]) for tool in tools):
                raise BadSetting(
                    f"{source}: rule {number} is about a tool `{_short(pattern)}`, "
                    "and there is none",
                    hint=f"tools: {known}",
                )
        for tool in tools:
            if is_like(tool.name, rule.tools):
                _check_rule(rule, f"{source}: rule {number}", tool)


def read_rules(given: Any, source: str) -> tuple[ApprovalRule, ...]:
    """Return rules from tables. Raises `BadSetting` that names the source, the rule and its key."""
    if not isinstance(given, list | tuple):
        raise BadSetting(
            f"{source}: approvals are a list of rules, and this is {_short(repr(given))}",
            hint=f"write tables `[[approvals]]`: {_KEYS}",
        )
    return tuple(_read_rule(table, f"{source}: rule {n}") for n, table in enumerate(given, 1))


def _read_rule(table: Any, place: str) -> ApprovalRule:
    if isinstance(table, Mapping | ApprovalRule):
        table = dict(table) if isinstance(table, Mapping) else msgspec.structs.asdict(table)
        when = table.get("when")
        if isinstance(when, Mapping):
            tests = {name: _read_test(test, place, name) for name, test in when.items()}
            table = {**table, "when": tests}
    rule = _convert(table, ApprovalRule, place, _KEYS)
    for key in ("tools", "owners"):
        if not getattr(rule, key):
            raise BadSetting(f"{place}: `{key}` is empty", hint=f'write names, or `{key} = ["*"]`')
    for key in ("tools", "approvers"):
        if not all(getattr(rule, key)):
            raise BadSetting(f"{place}: a name in `{key}` is empty", hint="write each with a name")
    if rule.expires is not None and not 0 < rule.expires < math.inf:
        raise BadSetting(
            f"{place}: `expires` cannot be {rule.expires}", hint="give seconds above 0"
        )
    return rule


def _read_test(table: Any, place: str, name: Any) -> ArgumentTest:
    place = f"{place}, `when.{_short(str(name))}`"
    if isinstance(table, ArgumentTest):
        table = msgspec.structs.asdict(table)
    test = _convert(table, ArgumentTest, place, _TESTS)
    if not test.conditions():
        raise BadSetting(f"{place}: nothing is asked of the argument", hint=_TESTS)
    for key in ("above", "below"):
        number = getattr(test, key)
        if number is not None and not math.isfinite(number):
            raise BadSetting(f"{place}: `{key}` cannot be {number}", hint="give a number")
    for key in ("inside", "outside"):
        folder = getattr(test, key)
        if folder and not folder.startswith("/"):
            raise BadSetting(
                f"{place}: the folder `{_short(folder)}` of `{key}` is relative",
                hint="write its whole path, from `/`",
            )
    for key in ("one_of", "none_of"):
        if any(_kind(value) is None for value in getattr(test, key)):
            raise BadSetting(
                f"{place}: `{key}` holds something other than a number", hint="give numbers"
            )
    return test


def _convert(table: Any, kind: type[T], place: str, hint: str) -> T:
    try:
        return convert_typed(table, kind)
    except (msgspec.ValidationError, TypeError) as error:
        raise BadSetting(f"{place}: {error}", hint=hint) from error


def _names_of(kind: type[msgspec.Struct]) -> str:
    return ", ".join(f"`{name}`" for name in kind.__struct_fields__)


_KEYS: Final = f"keys of a rule: {_names_of(ApprovalRule)}"
_TESTS: Final = f"tests of an argument: {_names_of(ArgumentTest)}"


def _check_rule(rule: ApprovalRule, place: str, tool: GatedTool) -> None:
    for argument in rule.when:
        if tool.parameters is not None and argument not in tool.parameters:
            raise BadSetting(
                f"{place} is about the argument `{_short(argument)}`, "
                f"which `{tool.name}` does not have",
                hint=f"its arguments: {', '.join(tool.parameters) or 'none'}",
            )
    if rule.approvers and tool.approvers and not set(rule.approvers) & set(tool.approvers):
        raise BadSetting(
            f"{place} shares no approver with `{tool.name}`, so no one could decide",
            hint=f"name one of: {', '.join(tool.approvers)}",
        )


def _describe(rule: ApprovalRule, number: int) -> str:
    """Return the reason by a rule: without values of the call, so that calls to which the rule
    applies in the same way have the same one, and with all that tells it from another."""
    tests = [
        f"`{name}` {test}"
        for name, asked in rule.when.items()
        for test in (f"{key} {_plain(value)}" for key, value in asked.conditions().items())
    ]
    known = [cut(", ".join(tests), _TESTS_CHARS).text] if tests else []
    known += [f"approvers: {', '.join(rule.approvers)}"] if rule.approvers else []
    told = f" ({'; '.join(known)})" if known else ""
    return f"rule {number} of the approvals{told}" + (f": {rule.reason}" if rule.reason else "")


def _plain(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(_plain, value))
    is_whole = isinstance(value, float) and value.is_integer()
    return str(int(value)) if is_whole else str(value)


def _short(text: str) -> str:
    return cut(text, _SHOWN_CHARS).text


def _is_glob(pattern: str) -> bool:
    return "*" in pattern or "?" in pattern


def _number(value: Any) -> int | float | Decimal | None:
    """Return a number that can be compared; None for a text, a truth value or `nan`."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    is_nan = (
        math.isnan(value)
        if isinstance(value, float)
        else (isinstance(value, Decimal) and value.is_nan())
    )
    return None if is_nan else value


def _kind(value: Any) -> type | None:
    """Return the kind of a plain value, which is compared with values of the same kind alone."""
    if isinstance(value, bool | str):
        return bool if isinstance(value, bool) else str
    return None if _number(value) is None else float


def _is_comparable(value: Any, values: tuple[PlainValue, ...]) -> bool:
    return (kind := _kind(value)) is not None and any(kind is _kind(each) for each in values)


def _is_among(value: Any, values: tuple[PlainValue, ...]) -> bool:
    kind = _kind(value)
    return kind is not None and any(kind is _kind(each) and value == each for each in values)


def _path(value: Any) -> str | None:
    """Return a whole path without its detours, as it is written: links are not followed. None for
    one that depends on something else."""
    text = value if isinstance(value, str) else str(value) if hasattr(value, "__fspath__") else ""
    if not text.startswith("/"):
        return None
    parts: list[str] = []
    for part in text.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "".join(f"{part}/" for part in parts)


def _is_in(path: str, folder: str) -> bool:
    return path.startswith(_path(folder) or "/")
