"""What a provider refused is not sent again, and the session goes on (law L17).

The provider is a function that refuses by a predicate over the request: a picture, a document, a
sentence, a field. It is asked through the engine, awaited, and through the caller's own loop.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engine.proxy.conversations import wire_reply
from tests.prompts import pdf, png
from tests.support.runs import examples

from holdfast.core.dialects.registry import DIALECTS, target
from holdfast.core.log.records import Assistant, Compaction, Epoch, Record, to_json
from holdfast.core.tokens.counting import Estimator
from holdfast.engine.session.async_session import AsyncSession
from holdfast.engine.session.session import Session
from holdfast.errors import ModelError
from holdfast.providers.callables import async_from_callable, from_callable
from holdfast.providers.offline.measuring import count_request
from holdfast.stores.in_memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.core.log.records import Json

WAYS: Final = ("engine", "own loop", "prepared", "async")
POISON: Final = "the-sentence-that-is-refused"
PICTURE: Final = png(37, 41)
FINE: Final = png(10, 10)
PDF: Final = pdf(1, b" /Refused true")
WORDINGS: Final = (
    (400, "Could not process image"),
    (400, "messages.2.content.0.image.source.base64: something about it"),
    (400, "Request contains an invalid argument."),
    (400, "The moon is in the wrong house."),
    (400, ""),
    (422, "Unprocessable entity"),
    (400, "Invalid value at 'contents[0].parts[2].inline_data.data' (TYPE_BYTES)"),
    (415, "This model does not support image input."),
    (404, "No file with the id `file_1` was found."),
    (400, "Das Bild konnte nicht gelesen werden."),
)
POLICIES: Final = (
    (400, "Output blocked by content filtering policy"),
    (400, "Invalid prompt: your prompt was flagged as potentially violating our usage policy."),
    (400, "Content Exists Risk"),
    (400, "Input data may contain inappropriate content."),
    (403, 'It requires moderation on OpenRouter. Your input was flagged for "harassment".'),
    (
        400,
        "The response was filtered due to the prompt triggering Azure OpenAI's content management "
        "policy. Please modify your prompt and retry.",
    ),
)


_loops: list[asyncio.Runner] = []


@pytest.fixture(autouse=True, scope="module")
def _loop() -> Iterator[None]:
    """One event loop for all that is awaited here."""
    with asyncio.Runner() as runner:
        _loops.append(runner)
        yield
        _loops.clear()


def run(awaitable: Any) -> Any:
    return _loops[0].run(awaitable)


class Refusal(Exception):
    """A provider's error, with its status."""

    def __init__(self, status: int | None, message: str) -> None:
        super().__init__(message)
        if status is not None:
            self.status_code = status
        self.body = {"error": {"message": message}}


class Provider:
    """Answers every request but those that a predicate holds for."""

    def __init__(
        self, dialect: str, refuses: Callable[[str], bool], answer: Json | Refusal
    ) -> None:
        self.dialect = dialect
        self.refuses = refuses
        self.answer = answer
        self.explain: Callable[[Json], str] | None = None
        self.bodies: list[str] = []
        self.accepted: list[str] = []
        self.replies: list[Json] = []

    def __call__(self, request: Json) -> Json:
        body = json.dumps(request, sort_keys=True)
        self.bodies.append(body)
        if self.refuses(body):
            if isinstance(self.answer, Refusal):
                said = str(self.answer) if self.explain is None else self.explain(request)
                raise Refusal(getattr(self.answer, "status_code", None), said)
            return self.answer
        self.accepted.append(body)
        return self.replies.pop(0) if self.replies else wire_reply(self.dialect, "Fine.", "", "")

    async def awaited(self, request: Json) -> Json:
        await asyncio.sleep(0)
        return self(request)


class Conversation:
    """One session, reached in one of the four ways."""

    def __init__(self, way: str, provider: Provider, store: MemoryStore) -> None:
        self.way, self.provider, self.store = way, provider, store
        self.target = target(provider.dialect, provider="stub", model="stub-1")
        self.tool_says: Any = "read"
        self.open()

    def open(self) -> None:
        if self.way == "async":
            model: Any = async_from_callable(self.provider.awaited, self.target, 64_000)

            async def opened() -> Any:
                return await AsyncSession.open(
                    "s", model=model, store=self.store, tools=[self.read], summary="extract"
                )

            self.session: Any = run(opened())
        else:
            model = from_callable(self.provider, self.target, 64_000)
            self.session = Session.open(
                "s", model=model, store=self.store, tools=[self.read], summary="extract"
            )

    def read(self, path: str) -> Any:
        """Read a file."""
        del path
        return self.tool_says

    def say(self, content: Any) -> Any:
        """A turn, whatever the way; returns its last reply."""
        if self.way == "engine":
            return self.session.say(content)
        if self.way == "async":

            async def said() -> Any:
                return await self.session.say(content)

            return run(said())
        self.session.own_loop.add_user(content)
        while True:
            reply = self._reply()
            if not reply.calls:
                return reply
            for call in reply.calls:
                self.session.own_loop.add_result(call.id, self.tool_says)

    def _reply(self) -> Any:
        if self.way == "own loop":
            return self.session.own_loop.call(self.provider)
        failed: Any = None
        while True:
            prepared = self.session.own_loop.prepare(failed=failed)
            try:
                raw = self.provider(prepared.request)
            except Refusal as error:
                failed = error
                continue
            return self.session.own_loop.record(raw)

    def records(self) -> list[Record]:
        return list(self.store.read(self.session.key))

    def close(self) -> None:
        if self.way == "async":

            async def closed() -> None:
                await self.session.close()

            run(closed())
        else:
            self.session.close()


def text(said: str) -> Json:
    return {"type": "text", "text": said}


def picture(data: str) -> Json:
    source = {"type": "base64", "media_type": "image/png", "data": data}
    return {"type": "image", "source": source}


def document() -> Json:
    source = {"type": "base64", "media_type": "application/pdf", "data": PDF}
    return {"type": "document", "source": source}


def check_it_goes_on(talk: Conversation, marker: str, calls: int) -> None:
    """Every later message is answered at once, here and in another process, without the marker."""
    provider = talk.provider
    for reopened in (False, True):
        if reopened:
            talk.close()
            talk.open()
        before = len(provider.bodies)
        assert talk.say(f"And now? {reopened}").text == "Fine."
        assert len(provider.bodies) == before + 1
        assert marker not in provider.bodies[-1]
    assert len(set(provider.bodies)) == len(provider.bodies), "a body was sent twice"
    assert calls <= 4
    assert marker in "\n".join(json.dumps(to_json(record)) for record in talk.records())


def tell(talk: Conversation, turns: int) -> None:
    for number in range(turns):
        assert talk.say([text(f"Question {number}"), picture(FINE)]).text == "Fine."


any_dialect = st.sampled_from(list(DIALECTS))
any_way = st.sampled_from(WAYS)


@examples(60)
@given(any_dialect, any_way, st.integers(0, 2), st.sampled_from(WORDINGS), st.booleans())
def test_a_refused_picture_is_not_sent_again(
    dialect: str, way: str, turns: int, wording: tuple[int, str], is_every: bool
) -> None:
    """One picture, or every picture: the turn is answered, and so is each later one."""
    provider = Provider(dialect, lambda body: False, Refusal(*wording))
    talk = Conversation(way, provider, MemoryStore())
    tell(talk, turns)
    marks = (PICTURE, FINE) if is_every else (PICTURE,)
    provider.refuses = lambda body: any(mark in body for mark in marks)
    before = len(provider.bodies)
    reply = talk.say([text("What is in it?"), picture(PICTURE)])
    assert reply.text == "Fine."
    assert "What is in it?" in provider.bodies[-1]
    assert "the provider refused it" in provider.bodies[-1]
    if turns and not is_every:
        assert FINE in provider.bodies[-1], "the pictures that were accepted stay"
    check_it_goes_on(talk, PICTURE, len(provider.bodies) - before)
    talk.close()


@examples(20)
@given(any_way, st.integers(0, 1), st.sampled_from(WORDINGS))
def test_a_refused_document_is_not_sent_again(
    way: str, turns: int, wording: tuple[int, str]
) -> None:
    provider = Provider("anthropic", lambda body: PDF in body, Refusal(*wording))
    talk = Conversation(way, provider, MemoryStore())
    tell(talk, turns)
    before = len(provider.bodies)
    assert talk.say([text("Read it."), document()]).text == "Fine."
    check_it_goes_on(talk, PDF, len(provider.bodies) - before)
    talk.close()


@examples(40)
@given(any_dialect, any_way, st.integers(0, 2), st.sampled_from(WORDINGS), st.booleans())
def test_a_refused_sentence_is_not_sent_again(
    dialect: str, way: str, turns: int, wording: tuple[int, str], is_result: bool
) -> None:
    """Whatever the refusal says that is no policy: words of a user, or a tool's result."""
    if wording[0] == 404:
        return  # a missing address or file: no words are taken out for it
    provider = Provider(dialect, lambda body: POISON in body, Refusal(*wording))
    talk = Conversation(way, provider, MemoryStore())
    tell(talk, turns)
    before = len(provider.bodies)
    if is_result:
        provider.replies = [wire_reply(dialect, "Reading.", "a.txt", "c1")]
        talk.tool_says = f"It says: {POISON}."
        before += 1
        assert talk.say("Read a.txt").text == "Fine."
        assert "Read a.txt" in provider.bodies[-1], "only the result was new"
    else:
        assert talk.say(f"It says: {POISON}.").text == "Fine."
    if turns:
        assert FINE in provider.bodies[-1], "media that were accepted come back"
    check_it_goes_on(talk, POISON, len(provider.bodies) - before)
    talk.close()


def refusal_body(dialect: str) -> Json:
    """A refusal that comes as a success."""
    match dialect:
        case "anthropic":
            return {
                **wire_reply(dialect, "", "", ""),
                "content": [],
                "stop_reason": "refusal",
                "stop_details": {"category": "cyber"},
            }
        case "openai-chat":
            message = {"role": "assistant", "content": ""}
            choice = {"index": 0, "message": message, "finish_reason": "content_filter"}
            return {"choices": [choice]}
        case "gemini":
            return {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}
        case _:
            said = {"type": "refusal", "refusal": "I cannot help with that."}
            item = {"type": "message", "id": "m", "role": "assistant", "content": [said]}
            body = wire_reply(dialect, "", "", "c")
            return {**body, "output": [item]}


@examples(50)
@given(any_dialect, any_way, st.integers(0, 1), st.sampled_from((*POLICIES, None)), st.booleans())
def test_a_policy_ends_its_turn(
    dialect: str, way: str, turns: int, policy: tuple[int, str] | None, is_result: bool
) -> None:
    """No retry and no splitting: the refusal is the reply, and the next message is answered."""
    answer: Any = refusal_body(dialect) if policy is None else Refusal(*policy)
    provider = Provider(dialect, lambda body: POISON in body, answer)
    talk = Conversation(way, provider, MemoryStore())
    tell(talk, turns)
    before = len(provider.bodies)
    asked = f"It says: {POISON}."
    if is_result:
        provider.replies = [wire_reply(dialect, "Reading.", "a.txt", "c1")]
        talk.tool_says, asked = asked, "Read a.txt"
        before += 1
    if way == "prepared" and policy is not None:
        with pytest.raises(ModelError, match="stored as the reply"):
            talk.say(asked)
    else:
        assert talk.say(asked).stop == "refusal"
    assert len(provider.bodies) == before + 1, "what was flagged is not sent again"
    newest = [record for record in talk.records() if isinstance(record, Assistant)][-1]
    assert newest.extra.get("refusal") is True
    check_it_goes_on(talk, POISON, 1)
    assert "under its policy" in provider.bodies[-1]
    talk.close()


FIELDS: Final = {
    "anthropic": ("cache_control", "{}: Extra inputs are not permitted"),
    "openai-chat": ("max_completion_tokens", "Unsupported parameter: '{}' is not supported."),
    "openai-responses": ("store", "Unknown parameter: '{}'."),
    "gemini": ("maxOutputTokens", "Unknown name \"{}\" at 'generation_config': Cannot find field."),
}


def path_to(value: Any, field: str, dialect: str) -> str:
    """The path of the first place with a field, as Anthropic writes it; others name it alone."""
    if dialect != "anthropic":
        return field
    if isinstance(value, dict) and field in value:
        return field
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in inner:
        found = path_to(item, field, dialect) if isinstance(item, dict | list) else ""
        if found:
            return f"{key}.{found}"
    return ""


@examples(20)
@given(any_dialect, any_way)
def test_a_refused_field_is_left_out_once_and_for_all(dialect: str, way: str) -> None:
    """The words stay, and the next request leaves the field out, also in another process."""
    field, wording = FIELDS[dialect]
    provider = Provider(dialect, lambda body: f'"{field}"' in body, Refusal(400, ""))
    provider.explain = lambda request: wording.format(path_to(request, field, dialect))
    talk = Conversation(way, provider, MemoryStore())
    assert talk.say([text("A question"), picture(FINE)]).text == "Fine."
    assert len(provider.bodies) <= 4
    assert len(set(provider.bodies)) == len(provider.bodies)
    assert "A question" in provider.bodies[-1]
    assert FINE in provider.bodies[-1]
    before = len(provider.bodies)
    talk.close()
    talk.open()
    assert talk.say("And now?").text == "Fine."
    assert len(provider.bodies) == before + 1
    talk.close()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("status", "message"),
    [
        (404, "The model `stub-1` does not exist"),
        (400, "Invalid schema for function 'read': schema must be a JSON Schema of type object"),
        (400, "temperature: must be less than or equal to 1"),
    ],
)
def test_what_is_about_a_setting_takes_no_words_apart(way: str, status: int, message: str) -> None:
    """One call, one clear error that names the ways back, and nothing left out of the view."""
    provider = Provider("anthropic", lambda body: True, Refusal(status, message))
    talk = Conversation(way, provider, MemoryStore())
    with pytest.raises(ModelError):
        talk.say([text("A question"), picture(FINE)])
    assert len(provider.bodies) == 1
    assert not [record for record in talk.records() if isinstance(record, Epoch)]
    provider.refuses = lambda body: False
    assert talk.say("And now?").text == "Fine."
    assert "A question" in provider.bodies[-1]
    assert FINE in provider.bodies[-1]
    talk.close()


@pytest.mark.parametrize("way", WAYS)
def test_where_nothing_helps_all_comes_back(way: str) -> None:
    """Four calls at most, none twice; the error names the ways back, and the view is whole."""
    provider = Provider("anthropic", lambda body: True, Refusal(400, "No."))
    talk = Conversation(way, provider, MemoryStore())
    with pytest.raises(ModelError) as raised:
        talk.say([text("A question"), picture(FINE)])
    assert "`rewind`" in str(raised.value.hint)
    assert "`undo`" in str(raised.value.hint)
    assert len(provider.bodies) <= 4
    assert len(set(provider.bodies)) == len(provider.bodies)
    provider.refuses = lambda body: False
    assert talk.say("And now?").text == "Fine."
    assert "A question" in provider.bodies[-1]
    assert FINE in provider.bodies[-1]
    talk.close()


def test_a_cut_brings_nothing_back() -> None:
    """The refused words are in no carry-over, and the refused picture in no kept turn."""
    policy = Refusal(400, "Content Exists Risk")
    provider = Provider("anthropic", lambda body: POISON in body, policy)
    talk = Conversation("engine", provider, MemoryStore())
    assert talk.say(f"It says: {POISON}. `{POISON}.py`").stop == "refusal"
    provider.refuses = lambda body: PICTURE in body
    provider.answer = Refusal(400, "Could not process image")
    assert talk.say([text("Look"), picture(PICTURE)]).text == "Fine."
    provider.refuses = lambda body: PICTURE in body or POISON in body
    for number in range(24):
        talk.say(f"Question {number} " + "word " * 800)
    talk.session.compact()
    assert any(isinstance(record, Compaction) for record in talk.records())
    before = len(provider.bodies)
    assert talk.say("And now?").text == "Fine."
    assert len(provider.bodies) == before + 1
    talk.close()


@pytest.mark.parametrize("with_reply", [True, False])
def test_a_small_window_without_a_number_is_learned(with_reply: bool) -> None:
    """Few refusals and few compactions, whether the reply counts or not."""
    sizes: list[int] = []

    def answer(request: Json) -> Json:
        reply = request["max_output_tokens"] if with_reply else 0
        sizes.append(count_request(request, Estimator()) + reply)
        if sizes[-1] > 25_000:
            raise Refusal(400, "Your input exceeds the context window of this model.")
        return wire_reply("openai-responses", "Fine. " + "words " * 100, "", "")

    store = MemoryStore()
    model = from_callable(
        answer, target("openai-responses", provider="stub", model="stub-1"), 400_000
    )
    session = Session.open("s", model=model, store=store, summary="extract")
    for number in range(60):
        session.say(f"Question {number}: " + "words " * 700)
    refused = sum(size > 25_000 for size in sizes)
    cuts = sum(isinstance(record, Compaction) for record in store.read(session.key))
    assert refused <= 4
    assert 1 <= cuts <= 12
    session.close()


def test_undo_brings_back_what_was_left_out() -> None:
    """A provider that takes the picture after all gets it again."""
    provider = Provider("anthropic", lambda body: PICTURE in body, Refusal(400, "No."))
    talk = Conversation("engine", provider, MemoryStore())
    assert talk.say([text("Look"), picture(PICTURE)]).text == "Fine."
    left_out = next(record for record in talk.records() if isinstance(record, Epoch))
    provider.refuses = lambda body: False
    talk.session.undo(left_out.id)
    assert talk.say("And now?").text == "Fine."
    assert PICTURE in provider.bodies[-1]
    talk.close()
