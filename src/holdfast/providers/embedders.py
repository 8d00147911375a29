"""Embedders by name, by function, or as they are."""

from __future__ import annotations

import base64
import importlib.util
import json
import os
import struct
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from holdfast.core.failures.classify import Failure, Symptoms, classify
from holdfast.core.text.cut import cut
from holdfast.errors import BadSetting, ModelError
from holdfast.providers.failures import symptoms_of

if TYPE_CHECKING:
    from http.client import HTTPResponse

    from holdfast.providers.embeddings import Embedder


EmbedTexts = Callable[[Sequence[str]], Sequence[Sequence[float]]]
"""Returns a vector for each text: numbers of any size, of one length."""
BATCH_SIZE: Final = 32
"""Texts that are given to a function, or sent, at once."""
_SCALE: Final = 127
_DIMENSIONS_MAX: Final = 8_192
"""Numbers of a longer vector are too small for a signed byte each."""


class CallableEmbedder:
    """An embedding model behind a function, which may be called from several threads.

    The vectors of an index are those of one `name`: give another model, or another version of it,
    a name of its own, and the vectors are made again.
    """

    def __init__(self, call: EmbedTexts, name: str, *, batch_size: int = BATCH_SIZE) -> None:
        if not name.strip():
            raise BadSetting("an embedding model needs a name", hint="say which model it is")
        if batch_size < 1:
            raise BadSetting(f"a batch cannot have {batch_size} texts", hint="give 1 or more")
        self.name = name
        self.batch_size = batch_size
        self._call = call
        self._size: int | None = None
        self._mutex = threading.Lock()

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """One vector for each text. Raises `BadSetting` where the function gives others."""
        found: list[bytes] = []
        for start in range(0, len(texts), self.batch_size):
            some = list(texts[start : start + self.batch_size])
            made = normalise(self._call(some), len(some), self.name)
            with self._mutex:
                size = self._size = self._size or len(made[0])
            if len(made[0]) != size:
                raise _refusal(
                    self.name, f"gave vectors of {len(made[0]):,} and of {size:,} numbers"
                )
            found += made
        return found


def normalise(vectors: Any, count: int, name: str) -> list[bytes]:
    """Return vectors of any scale as unit vectors, one signed byte for each number.

    Raises `BadSetting` for anything that is not `count` vectors of one length, of finite
    numbers that are not all 0.
    """
    import numpy

    try:
        rows = numpy.asarray(vectors, dtype=numpy.float64)
    except (TypeError, ValueError):
        raise _refusal(name, "gave something other than lists of numbers of one length") from None
    if rows.ndim != 2 or not rows.shape[1]:
        raise _refusal(name, "gave something other than lists of numbers of one length")
    if len(rows) != count:
        raise _refusal(name, f"gave {len(rows):,} vectors for {count:,} texts")
    if rows.shape[1] > _DIMENSIONS_MAX:
        raise _refusal(
            name, f"gave vectors of {rows.shape[1]:,} numbers, and at most {_DIMENSIONS_MAX:,} fit"
        )
    if not numpy.isfinite(rows).all():
        raise _refusal(name, "gave a number that is infinite or not a number")
    largest = numpy.abs(rows).max(axis=1, keepdims=True)
    if not largest.all():
        raise _refusal(name, "gave a vector of nothing but 0, which has no direction")
    rows = rows / largest  # squares of very large or small numbers would not be numbers
    rows /= numpy.linalg.norm(rows, axis=1, keepdims=True)
    return [row.tobytes() for row in numpy.rint(rows * _SCALE).astype(numpy.int8)]


def _refusal(name: str, what: str) -> BadSetting:
    return BadSetting(f"the embedding model `{name}` {what}")


FASTEMBED_MODEL: Final = "sentence-transformers/all-MiniLM-L6-v2"
"""Apache-2.0, 384 dimensions, English first."""
_THREADS: Final = 2
"""Memory is indexed beside other work: it does not take the whole machine."""
_RETRY_SECONDS: Final = 300.0
"""After weights could not be loaded: a search does not wait for them each time."""


class FastEmbedder(CallableEmbedder):
    """An open model on this machine, run by fastembed.

    Its weights are downloaded from their publisher when they are first needed, and kept in
    `folder`: by default that of FASTEMBED_CACHE_PATH, or `~/.cache/fastembed`.
    """

    def __init__(
        self,
        model: str = FASTEMBED_MODEL,
        *,
        folder: str | None = None,
        threads: int = _THREADS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(self._run, f"fastembed:{model}")
        self._model = model
        self._folder = folder
        self._threads = threads
        self._clock = clock
        self._loading = threading.Lock()
        self._loaded: Any = None
        self._failed: tuple[float, ModelError] | None = None

    def _run(self, texts: Sequence[str]) -> list[Any]:
        with self._loading:
            if self._loaded is None:
                self._loaded = self._load()
        return list(self._loaded.embed(texts, batch_size=self.batch_size))

    def _load(self) -> Any:
        if self._failed is not None and self._clock() < self._failed[0]:
            raise self._failed[1]
        from holdfast.config import weights_folder

        try:
            from fastembed import TextEmbedding

            return TextEmbedding(
                self._model,
                cache_dir=os.path.expanduser(self._folder or weights_folder()),
                threads=self._threads,
                enable_cpu_mem_arena=False,
            )
        except Exception as error:  # of fastembed, of the hub, of the runtime
            said = cut(" ".join(str(error).split()), _ERROR_CHARS).text
            failed = ModelError(
                f"the embedding model `{self.name}` could not be loaded: {said}",
                failure=classify(symptoms_of(error)),
                hint="its weights are downloaded once; look at its name and at the network",
            )
            self._failed = self._clock() + _RETRY_SECONDS, failed
            raise failed from error


BASE_URL: Final = "https://api.openai.com/v1"
_BATCH_SIZE: Final = 64
_TIMEOUT_SECONDS: Final = 20.0
_ATTEMPTS: Final = 3
_WAIT_SECONDS: Final = 0.5
"""Before the second attempt; twice as long before each further one."""
_WAITS: Final = frozenset({"wait_and_retry", "retry_with_backoff"})
"""Remedies of failures after which the same request may work."""
_REPLY_BYTES_MAX: Final = 256 * 2**20
"""Thousands of the longest vectors: no server fills the memory."""
_ERROR_CHARS: Final = 200
"""A sentence or two of the server's own words."""


class OpenAIEmbedder(CallableEmbedder):
    """An embedding model behind `POST …/embeddings`."""

    def __init__(
        self,
        model: str,
        *,
        base_url: str = BASE_URL,
        api_key: str = "",
        dimensions: int | None = None,
        batch_size: int = _BATCH_SIZE,
        timeout: float = _TIMEOUT_SECONDS,
        attempts: int = _ATTEMPTS,
        sleep: Callable[[float], object] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`timeout` is in seconds, for one batch with all its `attempts`; `dimensions` asks a model
        that can for shorter vectors. A server of your own may need no key."""
        address = urlsplit(base_url)
        if address.scheme not in ("http", "https") or not address.hostname:
            raise BadSetting(
                f"`{cut(base_url, 80).text}` is not the address of a server",
                hint="give one such as http://127.0.0.1:8080/v1",
            )
        if attempts < 1 or timeout <= 0 or (dimensions is not None and dimensions < 1):
            raise BadSetting(
                "an embedding model needs at least one attempt, some time and a dimension",
                hint="leave them out for the defaults",
            )
        place = f"{address.hostname}:{address.port}" if address.port else address.hostname
        size = f"/{dimensions}" if dimensions is not None else ""
        name = f"openai:{model}@{place}{address.path.rstrip('/')}{size}"
        super().__init__(self._ask, name, batch_size=batch_size)
        self._url = f"{base_url.rstrip('/')}/embeddings"
        self._model = model
        self._key = api_key
        self._dimensions = dimensions
        self._timeout = timeout
        self._attempts = attempts
        self._sleep = sleep
        self._clock = clock

    def _ask(self, texts: Sequence[str]) -> list[list[float]]:
        """Send a batch, again where that may help, and return its vectors."""
        request: dict[str, Any] = {"model": self._model, "input": list(texts)}
        if self._dimensions is not None:
            request["dimensions"] = self._dimensions
        body = json.dumps(request).encode()
        end = self._clock() + self._timeout
        attempt = 1
        while isinstance(reply := self._send(body, max(0.1, end - self._clock())), Failure):
            wait = reply.retry_after or _WAIT_SECONDS * 2 ** (attempt - 1)
            is_last = attempt >= self._attempts or self._clock() + wait >= end
            if is_last or reply.action not in _WAITS:
                raise self._error(reply)
            self._sleep(wait)
            attempt += 1
        return _vectors_in(reply, len(texts), self.name)

    def _error(self, failed: Failure) -> ModelError:
        said = cut(" ".join(failed.message.split()), _ERROR_CHARS).text
        return ModelError(
            f"the embedding model `{self.name}` did not answer ({failed.kind}): {said}",
            failure=failed,
            hint="check its address and key",
        )

    def _send(self, body: bytes, seconds: float) -> bytes | Failure:
        """Send a request once: the reply, or the class of the failure."""
        from urllib.error import HTTPError
        from urllib.request import HTTPRedirectHandler, Request, build_opener

        class NoRedirects(HTTPRedirectHandler):
            """A key is for the server that was named."""

            def redirect_request(self, *_: Any) -> None:
                return None

        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        request = Request(self._url, body, headers, method="POST")  # noqa: S310 - http, checked
        try:
            with build_opener(NoRedirects).open(request, timeout=seconds) as reply:
                return _read(reply)
        except HTTPError as error:
            with error:
                return classify(_symptoms(error))
        except OSError as error:
            return classify(symptoms_of(error))
        except BadSetting:
            raise
        except Exception as error:  # of http.client: a reply that is none
            return classify(symptoms_of(error))


def _read(reply: HTTPResponse) -> bytes:
    data = reply.read(_REPLY_BYTES_MAX + 1)
    if len(data) > _REPLY_BYTES_MAX:
        raise BadSetting(f"the reply has more than {_REPLY_BYTES_MAX:,} bytes")
    return data


def _symptoms(error: Any) -> Symptoms:
    """Return the facts of a refusal: its status, its words, and how long to wait."""
    found = symptoms_of(error.read(_REPLY_BYTES_MAX)[:100_000])
    try:
        waiting = float(error.headers.get("Retry-After", ""))
    except ValueError:
        waiting = None
    return Symptoms(
        status=error.code,
        code=found.code,
        type=found.type,
        message=found.message,
        retry_after=waiting if waiting is not None else found.retry_after,
    )


def _vectors_in(data: bytes, count: int, name: str) -> list[list[float]]:
    """Return the vectors of a reply in the order of the texts: lists of numbers, or base64."""
    try:
        rows = json.loads(data)["data"]
        placed = {int(row.get("index", place)): row["embedding"] for place, row in enumerate(rows)}
        return [_numbers(placed[place]) for place in range(len(rows))]
    except (ValueError, KeyError, TypeError, AttributeError, struct.error) as error:
        raise BadSetting(
            f"the embedding model `{name}` gave a reply without {count:,} embeddings"
        ) from error


def _numbers(embedding: Any) -> list[float]:
    if not isinstance(embedding, str):
        return list(embedding)
    data = base64.b64decode(embedding, validate=True)
    return list(struct.unpack(f"<{len(data) // 4}f", data))


EMBEDDERS: Final = ("off", "fastembed", "fastembed:NAME", "openai:NAME")
"""The names that `embedder` takes. `@http://host/v1` behind the last names another server."""


def embedder(name: str, *, api_key: str | None = None, **options: Any) -> Embedder | None:
    """Return an embedding model by name; None where words alone are to be compared.

    The key of `openai:NAME` is `api_key`, or that of OPENAI_API_KEY; `options` are those of
    `OpenAIEmbedder` or `FastEmbedder`.
    """
    from holdfast.config import provider_key
    from holdfast.providers.models import read_name

    kind = name.strip()
    if kind == "off":
        return None
    local, _, which = kind.partition(":")
    if local == "fastembed" and (which or kind == local):
        if importlib.util.find_spec("fastembed") is None:
            raise BadSetting(
                f"the embedding model `{kind}` needs a package that is not installed",
                hint="pip install 'holdfast[vectors]'",
            )
        return FastEmbedder(which or FASTEMBED_MODEL, **options)
    if not kind.startswith("openai:"):
        raise BadSetting(
            f"no embedding model `{cut(name, 80).text}`",
            hint=f"use one of {', '.join(EMBEDDERS)}; behind the last, `@http://host/v1` names "
            "a server",
        )
    named = read_name(kind)
    url = options.pop("base_url", None) or named.base_url or BASE_URL
    key = provider_key("OPENAI_API_KEY") if api_key is None else api_key
    if not key and url == BASE_URL:
        raise BadSetting(
            "there is no key for the embedding model", hint="set OPENAI_API_KEY, or pass `api_key`"
        )
    return OpenAIEmbedder(named.name, base_url=url, api_key=key, **options)


def as_embedder(given: Embedder | EmbedTexts | str | None) -> Embedder | None:
    """Return an embedder for a name or a function; an embedder as it is.

    The name of a function is that of its module and its own. One that has none is refused: vectors
    of two models must not have the same name.
    """
    if given is None or isinstance(given, str):
        return None if given is None else embedder(given)
    if callable(getattr(given, "embed", None)) and isinstance(getattr(given, "name", None), str):
        found: Embedder = given  # type: ignore[assignment]
        return found
    name = f"{getattr(given, '__module__', '')}.{getattr(given, '__qualname__', '')}"
    if not callable(given) or name.startswith((".", "None.")) or name.endswith("."):
        hint = "pass a function in CallableEmbedder(call, name), or an object with name and embed"
        raise BadSetting("this is not an embedder, or it has no name", hint=hint)
    if "<" in name:
        raise BadSetting(
            f"the embedder `{name}` has no name of its own",
            hint="pass CallableEmbedder(call, name=…), with the name and version of the model",
        )
    return CallableEmbedder(given, name)
