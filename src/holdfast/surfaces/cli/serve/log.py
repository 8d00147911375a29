"""Packages and log of every server of the command line."""

from __future__ import annotations

import importlib.util
import logging
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from holdfast.errors import UsageError
from holdfast.surfaces.cli.command import option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.surfaces.cli.app import App
    from holdfast.surfaces.cli.terminal import Output

LogKind = Literal["text", "json", "off"]
LogOption = Annotated[
    LogKind,
    option("what is logged to stderr: warnings as text (default), every request as JSON, nothing"),
]


def check_packages(what: str, extra: str, names: Sequence[str]) -> None:
    """Raise `UsageError` with the extra where a package is missing. It is asked before anything is
    read, opened or recorded."""
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(
            f"{what} needs a package that is not installed: {', '.join(missing)}",
            hint=f"pip install 'holdfast[{extra}]'",
        )


class _JsonLines(logging.Formatter):
    """One JSON object a line, with secrets masked."""

    def __init__(self, out: Output) -> None:
        super().__init__()
        self._out = out

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "ts": record.created,
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        fields = ("method", "route", "status", "seconds")
        line |= {name: value for name in fields if (value := getattr(record, name, None))}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return msgspec.json.encode(self._out.mask_value(line)).decode()


class _TextLines(logging.Formatter):
    """A sentence a line, with secrets masked."""

    def __init__(self, out: Output) -> None:
        super().__init__("%(levelname)s %(name)s: %(message)s")
        self._out = out

    def format(self, record: logging.LogRecord) -> str:
        return self._out.mask(super().format(record))


class _ThreadedHandler(logging.Handler):
    """Writes lines in a thread: the event loop never waits for the rules that mask them."""

    def __init__(self, formatter: logging.Formatter) -> None:
        super().__init__()
        self._writer = logging.StreamHandler()
        self._writer.setFormatter(formatter)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="holdfast-log")

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._thread.submit(self._writer.handle, record)
        except RuntimeError:  # the interpreter ends, and starts no more threads
            self._writer.handle(record)


def start_log(kind: LogKind, app: App) -> None:
    """Log to stderr: warnings as text, every request as JSON, or nothing."""
    log = logging.getLogger("holdfast")
    if kind == "off":
        log.disabled = True
        return
    log.handlers = [_ThreadedHandler((_JsonLines if kind == "json" else _TextLines)(app.out))]
    log.propagate = False
    log.setLevel(logging.INFO if kind == "json" else logging.WARNING)
