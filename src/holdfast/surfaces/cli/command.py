"""Commands as structs: the fields are the arguments, and one reader makes every parser of them.

A field has its help, its bounds and its default, as the parameters of an operation have. A field
that is a struct itself, such as an operation, adds the arguments that `takes` names.
"""

from __future__ import annotations

import argparse
import math
from abc import abstractmethod
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Final,
    Literal,
    Union,
    get_args,
    get_origin,
)

import msgspec

from holdfast.core.window import WINDOW, Window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from msgspec.structs import FieldInfo

    from holdfast.surfaces.cli.app import App

_UNITS: Final = {"k": 1_000, "m": 1_000_000}


class Argument(msgspec.Struct, frozen=True):
    """An argument as its command declares it, beside the type and default of its field."""

    help: str = ""
    """Empty for the description that a parameter of an operation has."""
    metavar: str | None = None
    names: tuple[str, ...] = ()
    """The options, where they are not the name of the field alone."""
    is_place: bool = False
    """It is named by its place, without an option."""
    is_rest: bool = False
    """It takes everything that follows."""
    group: str = ""
    """Of the options in a group, one may be given."""
    bare: str | None = None
    """The value of an option that is given without one."""
    read: Callable[[str], Any] | None = None
    """Reads a value that is more than a text or a number."""


class Takes(msgspec.Struct, frozen=True):
    """The parameters that a command takes from a struct, and how it spells some of them."""

    names: tuple[str, ...]
    spelled: dict[str, Argument]

    def of(self, fields: Iterable[FieldInfo]) -> Iterator[tuple[FieldInfo, Argument]]:
        """Yield each field that is taken with its argument; one without a default is a place."""
        known = {field.name: field for field in fields}
        for name in dict.fromkeys((*self.names, *self.spelled)):
            field, is_session = known[name], name == "session_key"
            metavar = {int: "N", float: "N", str: name.upper()}.get(_unwrap(field.type)[0])
            derived = SESSION if is_session else Argument(metavar=metavar, is_place=field.required)
            yield field, self.spelled.get(name, derived)


def option(help_: str = "", metavar: str | None = None, *names: str, **more: Any) -> Argument:
    """Declare an option; its name is that of the field unless others are given."""
    return Argument(help_, metavar, names, **more)


def place(help_: str = "", metavar: str | None = None, **more: Any) -> Argument:
    """Declare an argument that is named by its place."""
    return Argument(help_, metavar, is_place=True, **more)


def takes(*names: str, **spelled: Argument) -> Takes:
    """Take these parameters from a struct, with its help, bounds and defaults."""
    return Takes(names, spelled)


SESSION: Final = place("its id, its label, or a unique start of one", "SESSION")
SessionPlace = Annotated[str, SESSION]
RawOption = Annotated[bool, option("do not mask secrets")]
WindowOption = Annotated[Window | None, WINDOW, option("", "N")]


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """A command with its arguments; its name and one line of help are in `cli.COMMANDS`."""

    example: ClassVar[str] = ""
    """Shown below its help."""
    verbs: ClassVar[dict[str, type[Command]]] = {}
    """The commands inside it, by name; the docstring of each is its help."""

    @property
    def root(self) -> str | None:
        """The store that is named without `--root`."""
        return None

    @abstractmethod
    def run(self, app: App) -> Any:
        """Do it and write what there is to see; returns the exit status, None for success."""

    def perform(self, app: App) -> int:
        """Run the command; returns the exit status."""
        return self.run(app) or 0


class ResultCommand(Command, frozen=True, kw_only=True):
    """A command with a result, printed for programs or for people."""

    @abstractmethod
    def run(self, app: App) -> Any:
        """Return the result, or an exit status or None where all is written already."""

    def plain(self, found: Any) -> Any:
        """Return a result as it is printed for programs."""
        return found

    @abstractmethod
    def show(self, found: Any, app: App) -> None:
        """Print a result for people."""

    def status(self, found: Any) -> int:  # noqa: ARG002 - of those that can fail
        """Return the exit status of a result."""
        return 0

    def perform(self, app: App) -> int:
        found = self.run(app)
        if found is None or isinstance(found, int):
            return found or 0
        if app.out.is_json:
            app.out.json(self.plain(found))
        else:
            self.show(found, app)
        return self.status(found)


def pick(value: Any, *names: str, **renamed: str) -> dict[str, Any]:
    """Return fields of a result for programs, some under other names; a key is in two of them."""
    found: dict[str, Any] = {}
    for name in names:
        part = getattr(value, name)
        found |= {"session": part.session, "agent": part.agent} if name == "key" else {name: part}
    return found | {name: getattr(value, field) for name, field in renamed.items()}


# The reader


class _Field(msgspec.Struct, frozen=True):
    """A field of a command: its type without what is said about it."""

    name: str
    kind: Any
    argument: Argument
    bounds: msgspec.Meta
    default: Any
    """`msgspec.NODEFAULT` where it has to be given."""

    @property
    def is_many(self) -> bool:
        return get_origin(self.kind) in (list, tuple)

    def add(self, parser: Any) -> None:
        """Add the argument to a parser."""
        known, is_needed = self.argument, self.default is msgspec.NODEFAULT
        options: dict[str, Any] = {"help": known.help or self._describe()}
        if known.metavar:
            options["metavar"] = known.metavar
        if get_origin(self.kind) is Literal:
            options["choices"] = get_args(self.kind)
        if self.kind is bool:
            options["action"] = "store_true"
        elif known.read or self.kind in _READERS:
            options["type"] = self.read
        if not self.is_many and not is_needed:
            options["default"] = self.default
        if known.bare is not None:
            options |= {"nargs": "?", "const": known.bare}
        if known.is_place:
            if known.is_rest:
                options["nargs"] = argparse.REMAINDER
            elif self.is_many:
                options["nargs"] = "+" if is_needed else "*"
            elif not is_needed:
                options["nargs"] = "?"
            parser.add_argument(self.name, **options)
            return
        if self.is_many:
            options["action"] = "append"
        flag = "--" + self.name.removeprefix("is_").rstrip("_").replace("_", "-")
        names = known.names if any(name[:2] == "--" for name in known.names) else ()
        names = names or (flag, *known.names)
        parser.add_argument(*names, dest=self.name, required=is_needed, **options)

    def _describe(self) -> str:
        """Return the description that a parameter of an operation has, as help is written here."""
        text = (self.bounds.description or "").rstrip(".")
        is_told = not isinstance(self.default, int) or not self.default or str(self.default) in text
        return text[:1].lower() + text[1:] + ("" if is_told else f" ({self.default:,})")

    def read(self, text: str) -> Any:
        """Read a value and hold it to its bounds."""
        read = self.argument.read or _READERS[self.kind]
        value, bounds = read(text), self.bounds
        if bounds.ge is not None and value < bounds.ge:
            raise argparse.ArgumentTypeError(f"`{text}` is too small: pass {bounds.ge:,} or more")
        if bounds.le is not None and value > bounds.le:
            raise argparse.ArgumentTypeError(f"`{text}` is too large: pass at most {bounds.le:,}")
        return value


def whole_number(text: str) -> int:
    """Read a whole number, or one with `k` (thousand) or `m` (million) behind it."""
    bare = text.strip().lower().replace("_", "").replace(",", "")
    unit = _UNITS.get(bare[-1:], 1)
    digits = bare[:-1] if unit > 1 else bare
    try:
        number = float(digits) * unit if unit > 1 else int(digits)
        if number == int(number):
            return int(number)
    except (ValueError, OverflowError):
        pass  # no number, or an endless one
    raise argparse.ArgumentTypeError(f"`{text}` is not a whole number: write 64000, 64k or 1m")


def _read_window(text: str) -> Window:
    """Read a context window."""
    return Window(whole_number(text), "--window")


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise argparse.ArgumentTypeError(f"`{text}` is not a number: write 60 or 0.5")
    return number


_READERS: Final[dict[Any, Callable[[str], Any]]] = {
    int: whole_number,
    float: _number,
    Window: _read_window,
}


def add_arguments(parser: argparse.ArgumentParser, kind: type[msgspec.Struct]) -> None:
    """Add the arguments of a command to its parser."""
    groups: dict[str, Any] = {}
    for _owner, field in _fields_of(kind):
        group = field.argument.group
        if group and group not in groups:
            groups[group] = parser.add_mutually_exclusive_group()
        field.add(groups.get(group, parser))


def read_command(kind: type[Command], given: argparse.Namespace) -> Command:
    """Make a command of its arguments; what was not given has the default of its field."""
    values: dict[str, dict[str, Any]] = {"": {}}
    for part, field in _fields_of(kind):
        value = getattr(given, field.name)
        into = values.setdefault(part, {})
        if value is not None:
            into[field.name] = tuple(value) if field.is_many else value
    types = {each.name: _unwrap(each.type)[0] for each in msgspec.structs.fields(kind)}
    own = values.pop("")
    return kind(**own, **{name: types[name](**value) for name, value in values.items()})


def _fields_of(kind: type[msgspec.Struct]) -> Iterator[tuple[str, _Field]]:
    """Yield the arguments of a command, each with the name of the part that it belongs to."""
    for field in msgspec.structs.fields(kind):
        inner, said = _unwrap(field.type)
        taken = next((each for each in said if isinstance(each, Takes)), None)
        if taken is None:
            yield "", _field_of(field, next(each for each in said if isinstance(each, Argument)))
            continue
        for each, argument in taken.of(msgspec.structs.fields(inner)):
            yield field.name, _field_of(each, argument)


def _field_of(field: FieldInfo, argument: Argument) -> _Field:
    inner, said = _unwrap(field.type)
    bounds: dict[str, Any] = {"ge": 0} if inner in (int, float) else {}
    for each in said:
        if isinstance(each, msgspec.Meta):
            names = ("description", "ge", "le")
            bounds |= {name: value for name in names if (value := getattr(each, name)) is not None}
    default = field.default
    if field.default_factory is not msgspec.NODEFAULT:
        default = field.default_factory()
    return _Field(field.name, inner, argument, msgspec.Meta(**bounds), default)


def _unwrap(kind: Any) -> tuple[Any, list[Any]]:
    """Return a type without `None`, and what is said about it."""
    said: list[Any] = []
    while True:
        if get_origin(kind) is Annotated:
            kind, *more = get_args(kind)
            said += more
        elif get_origin(kind) in (Union, UnionType):
            kind = next(each for each in get_args(kind) if each is not NoneType)
        else:
            return kind, said
