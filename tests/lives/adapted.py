"""Lives of agents of other frameworks: their own loops, with our adapter before each request."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, ClassVar

from tests.lives.lives import FAULTS, MODELS, Fail, Fork, Life, Pause, Resume, Rewind, Say, Switch
from tests.lives.living import Provider, fetch, words
from tests.lives.oracle import Fault, Sent, epochs_of, judge

from holdfast.integrations.common.bounded import BoundedView, ListBounds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lives.lives import Step

ROOM = 100_000_000
SYSTEM = "You are an agent."


def _reasons(model: str) -> bool:
    """Return whether a model is asked to reason: an agent's settings say so beforehand."""
    return not model.startswith("gpt-4")


class Driver(ABC):
    """An agent of a framework, and its conversation."""

    package: ClassVar[str]
    """What has to be installed."""
    adapter: ClassVar[str]
    """The package of our integrations that bounds its requests."""
    dialects: ClassVar[tuple[str, ...]]
    can_switch: ClassVar[bool] = True
    """False where the framework itself writes another system prompt for another model."""
    edits_history: ClassVar[bool] = False
    """True where a cut is made in the framework's own list, so that no later request makes it."""

    def __init__(self, life: Life, url: str, *, is_direct: bool) -> None:
        self.life = life
        self.url = url
        self.window = None if is_direct else life.window
        """None without the adapter."""
        self.model = MODELS[life.dialect][life.model]
        self.history: Any = []

    @abstractmethod
    def open(self) -> None:
        """Make the agent and its adapter, as a new process does."""

    @abstractmethod
    def say(self, text: str) -> None:
        """One turn."""

    def close(self) -> None:  # noqa: B027 - most have nothing open
        """Give back what is open."""


class AsyncDriver(Driver):
    """One whose framework is asynchronous."""

    def __init__(self, life: Life, url: str, *, is_direct: bool) -> None:
        super().__init__(life, url, is_direct=is_direct)
        self.loop = asyncio.new_event_loop()
        self.clients: list[Any] = []

    def say(self, text: str) -> None:
        self.loop.run_until_complete(self.turn(text))

    @abstractmethod
    async def turn(self, text: str) -> None:
        """One turn."""

    def openai_client(self) -> Any:
        import openai

        client = openai.AsyncOpenAI(base_url=f"{self.url}/v1", api_key="any", max_retries=0)
        self.clients.append(client)
        return client

    def anthropic_client(self) -> Any:
        import anthropic

        client = anthropic.AsyncAnthropic(base_url=self.url, api_key="any", max_retries=0)
        self.clients.append(client)
        return client

    def close(self) -> None:
        for client in self.clients:
            with suppress(RuntimeError):
                self.loop.run_until_complete(client.close())
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()


class LangChainAgent(Driver):
    """`create_agent` with `HoldfastMiddleware`."""

    package = "langchain"
    adapter = "langchain"
    dialects = ("anthropic",)

    def open(self) -> None:
        from langchain.agents import create_agent
        from langchain_anthropic import ChatAnthropic

        from holdfast.integrations.langchain import HoldfastMiddleware

        chat: Any = ChatAnthropic
        model = chat(
            model=self.model, base_url=self.url, api_key="any", max_retries=0, max_tokens=1_000
        )
        bounded: Any = HoldfastMiddleware
        self.agent: Any = create_agent(
            model,
            [fetch],
            system_prompt=SYSTEM,
            middleware=[bounded(window=self.window)] if self.window else [],
            checkpointer=self.checkpointer(),
        )

    def checkpointer(self) -> Any:
        return None

    def say(self, text: str) -> None:
        asked = {"messages": [*self.history, {"role": "user", "content": text}]}
        self.history = self.agent.invoke(asked, {"recursion_limit": 80})["messages"]


class LangGraphAgent(LangChainAgent):
    """The same over `HoldfastSaver`, with its threads rewound and forked by their checkpoints."""

    package = "langgraph"

    def checkpointer(self) -> Any:
        from holdfast.integrations.langgraph import HoldfastSaver
        from holdfast.stores.in_memory import MemoryStore

        if not hasattr(self, "store"):
            self.store = MemoryStore()
            self.history = {"configurable": {"thread_id": "life", "checkpoint_ns": ""}}
        saver: Any = HoldfastSaver
        return saver(store=self.store)

    def say(self, text: str) -> None:
        asked = {"messages": [{"role": "user", "content": text}]}
        self.agent.invoke(asked, {**self.history, "recursion_limit": 80})
        config = {"configurable": {"thread_id": "life", "checkpoint_ns": ""}}
        found = self.agent.get_state(config).config
        self.history = {"configurable": dict(found["configurable"])}


class OpenAIAgent(AsyncDriver):
    """`Runner.run` with `BoundedInput`."""

    package = "openai-agents"
    adapter = "openai_agents"
    dialects = ("openai-responses", "openai-chat")

    def open(self) -> None:
        import agents
        import openai

        agents.set_tracing_disabled(disabled=True)
        is_chat = self.life.dialect == "openai-chat"
        kind: Any = agents.OpenAIChatCompletionsModel if is_chat else agents.OpenAIResponsesModel
        settings: Any = {}
        if not is_chat:
            settings = {"store": False, "response_include": ["reasoning.encrypted_content"]}
            if _reasons(self.model):
                settings["reasoning"] = openai.types.Reasoning(effort="low")
        tool: Any = agents.function_tool
        self.agent: Any = agents.Agent(
            name="life",
            instructions=SYSTEM,
            model=self.bound(kind(model=self.model, openai_client=self.openai_client())),
            model_settings=agents.ModelSettings(**settings),
            tools=[tool(fetch)],
        )

    def bound(self, model: Any) -> Any:
        import agents

        from holdfast.integrations.openai_agents import BoundedInput

        bounded: Any = BoundedInput
        bounds = bounded(self.model, window=self.window, session=self.session())
        filters = {"call_model_input_filter": bounds}
        self.config = agents.RunConfig(**(filters if self.window else {}))
        return model

    def session(self) -> Any:
        """The session that keeps the cuts; the driver hands the items over itself."""
        from holdfast.integrations.openai_agents import HoldfastSession
        from holdfast.stores.in_memory import MemoryStore

        if not hasattr(self, "store"):
            self.store = MemoryStore()
        return HoldfastSession("life", store=self.store)

    async def turn(self, text: str) -> None:
        import agents

        asked: Any = [*self.history, {"role": "user", "content": text}]
        done = await agents.Runner.run(self.agent, asked, run_config=self.config, max_turns=40)
        self.history = done.to_input_list()


class RecoveringOpenAIAgent(OpenAIAgent):
    """`Runner.run` with a model of `recover_overflow`, which learns the window by refusals."""

    def bound(self, model: Any) -> Any:
        import agents

        from holdfast.integrations.openai_agents import recover_overflow

        self.config = agents.RunConfig()
        if not self.window:
            return model
        return recover_overflow(model, window=self.window, session=self.session())


class PydanticAgent(AsyncDriver):
    """`Agent.run` with `BoundedRequests`."""

    package = "pydantic-ai-slim"
    adapter = "pydantic_ai"
    can_switch = False
    dialects = ("anthropic", "openai-responses", "openai-chat", "gemini")

    def open(self) -> None:
        from pydantic_ai import Agent

        from holdfast.integrations.pydantic_ai import BoundedRequests

        bounded: Any = BoundedRequests
        kind: Any = Agent
        self.agent: Any = kind(
            self.make_model(),
            instructions=SYSTEM,
            tools=[fetch],
            capabilities=[bounded(window=self.window)] if self.window else [],
            model_settings={"max_tokens": 1_000},
        )

    def make_model(self) -> Any:
        match self.life.dialect:
            case "anthropic":
                from pydantic_ai.models.anthropic import AnthropicModel
                from pydantic_ai.providers.anthropic import AnthropicProvider

                claude = AnthropicProvider(anthropic_client=self.anthropic_client())
                return AnthropicModel(self.model, provider=claude)
            case "openai-responses":
                from pydantic_ai.models.openai import OpenAIResponsesModel
                from pydantic_ai.providers.openai import OpenAIProvider

                gpt = OpenAIProvider(openai_client=self.openai_client())
                wanted: Any = {"openai_store": False}
                # This release does not know gpt-6.2, and would leave its reasoning out.
                is_known = _reasons(self.model)
                profile: Any = {"openai_supports_encrypted_reasoning_content": is_known}
                return OpenAIResponsesModel(
                    self.model, provider=gpt, settings=wanted, profile=profile
                )
            case "openai-chat":
                from pydantic_ai.models.openai import OpenAIChatModel
                from pydantic_ai.providers.deepseek import DeepSeekProvider

                deepseek = DeepSeekProvider(openai_client=self.openai_client())
                return OpenAIChatModel(self.model, provider=deepseek)
            case _:
                from google import genai
                from pydantic_ai.models.google import GoogleModel
                from pydantic_ai.providers.google import GoogleProvider

                options: Any = {"base_url": self.url}
                google: Any = genai.Client(api_key="any", http_options=options)
                return GoogleModel(self.model, provider=GoogleProvider(client=google))

    async def turn(self, text: str) -> None:
        done = await self.agent.run(text, message_history=self.history or None)
        self.history = done.all_messages()


class StrandsAgent(AsyncDriver):
    """An `Agent` with `HoldfastConversationManager`, taken up again by its manager's state."""

    package = "strands-agents"
    adapter = "strands"
    dialects = ("anthropic",)
    edits_history = True

    def open(self) -> None:
        from strands import Agent, tool
        from strands.agent.conversation_manager import NullConversationManager
        from strands.models.anthropic import AnthropicModel

        from holdfast.integrations.strands import HoldfastConversationManager

        arguments = {"api_key": "any", "base_url": self.url, "max_retries": 0}
        model: Any = AnthropicModel(client_args=arguments, model_id=self.model, max_tokens=1_000)
        self.clients.append(model.client)
        kind: Any = HoldfastConversationManager
        manager = kind(window=self.window) if self.window else NullConversationManager()
        made: Any = tool
        self.agent: Any = Agent(
            model=model,
            system_prompt=SYSTEM,
            tools=[made(fetch)],
            callback_handler=None,
            conversation_manager=manager,
            retry_strategy=None,
        )

    async def turn(self, text: str) -> None:
        self.agent.messages[:] = self.history
        await self.agent.invoke_async(text)
        self.history = list(self.agent.messages)


class AdkAgent(AsyncDriver):
    """A `Runner` of an app with the plugin `BoundedRequests`."""

    package = "google-adk"
    adapter = "google_adk"
    dialects = ("gemini", "anthropic")

    def open(self) -> None:
        from google.adk.agents import LlmAgent
        from google.adk.apps import App
        from google.adk.runners import Runner
        from google.adk.sessions import InMemorySessionService

        from holdfast.integrations.google_adk import BoundedRequests

        bounded: Any = BoundedRequests
        agent = LlmAgent(name="life", model=self.make_model(), instruction=SYSTEM, tools=[fetch])
        plugins = [bounded(self.model, window=self.window)] if self.window else []
        app = App(name="life", root_agent=agent, plugins=plugins)
        self.sessions: Any = InMemorySessionService()
        self.runner: Any = Runner(app=app, session_service=self.sessions)

    def make_model(self) -> Any:
        if self.life.dialect == "gemini":
            from google.adk.models import Gemini

            return Gemini(model=self.model, base_url=self.url)
        from google.adk.models.anthropic_llm import AnthropicLlm

        client = self.anthropic_client()

        class Claude(AnthropicLlm):  # type: ignore[misc, unused-ignore]
            """Anthropic's models with a client that leads here."""

            @property
            def _anthropic_client(self) -> Any:
                return client

        return Claude(model=self.model, max_tokens=1_000)

    async def turn(self, text: str) -> None:
        from google.genai import types

        session = await self.sessions.create_session(app_name="life", user_id="ann")
        for event in self.history:
            await self.sessions.append_event(session, event.model_copy(deep=True))
        who = {"user_id": "ann", "session_id": session.id}
        words = types.Content(role="user", parts=[types.Part(text=text)])
        failed = ""
        async for event in self.runner.run_async(**who, new_message=words):
            failed = failed or event.error_code or ""
        found = await self.sessions.get_session(app_name="life", **who)
        if failed and failed not in ("MAX_TOKENS", "SAFETY"):
            raise RuntimeError(failed)
        self.history = list(found.events)


DRIVERS: dict[str, type[Driver]] = {
    "LangChain": LangChainAgent,
    "LangGraph": LangGraphAgent,
    "OpenAI Agents": OpenAIAgent,
    "OpenAI Agents, recovering": RecoveringOpenAIAgent,
    "Pydantic AI": PydanticAgent,
    "Strands": StrandsAgent,
    "Google ADK": AdkAgent,
}


class Adapted:
    """A life of an agent with an adapter, or without: then the framework alone can break a law."""

    def __init__(self, life: Life, name: str, *, is_direct: bool = False) -> None:
        self.life = life
        self.provider = Provider(life, ROOM if is_direct else 0)
        self.provider.epochs = lambda: self.epochs
        self.is_direct = is_direct
        self.kind = DRIVERS[name]
        self.turns = 0
        self.epochs: tuple[str, ...] = ()
        """Those of the view that was made last."""
        self.states: list[Any] = []
        """The conversation, its last request and its epochs, before each turn."""
        self.faults: list[Fault] = []
        self.views: list[BoundedView] = []

    def run(self) -> list[Fault]:
        loopback = self.provider.loopback
        answer = loopback._answer

        def noting(method: str, path: str, headers: dict[str, str], raw: bytes) -> Any:
            epochs = self.epochs
            reply = answer(method, path, headers, raw)
            provider = self.provider
            sent = Sent(loopback.requests[-1], epochs, provider.tip, False, provider.step)
            provider.sent.append(sent)
            provider.tip = len(provider.sent) - 1
            return reply

        loopback._answer = noting  # type: ignore[method-assign]
        with loopback, self._watched():
            self.driver = self.kind(self.life, loopback.url, is_direct=self.is_direct)
            try:
                self.driver.open()
                for step in self.life.steps:
                    self.provider.step = repr(step)
                    self._take(step)
            finally:
                self.driver.close()
        return [*self.faults, *judge(self.provider.sent)]

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Note the epochs of each view that the adapter makes."""
        fit = ListBounds.fit

        def watched(bounds: ListBounds, *args: Any, **options: Any) -> BoundedView:
            view = fit(bounds, *args, **options)
            self.views.append(view)
            standing = epochs_of(bounds._decisions_about(view.plan)[1])
            if not self.kind.edits_history:
                self.epochs = standing
            elif standing:
                self.epochs = (*self.epochs, f"edit {len(self.views)}")
            return view

        ListBounds.fit = watched  # type: ignore[method-assign, assignment]
        try:
            yield
        finally:
            ListBounds.fit = fit  # type: ignore[method-assign]

    def _state(self) -> Any:
        return (self.driver.history, self.provider.tip, self.epochs)

    def _restore(self, state: Any) -> None:
        self.driver.history, self.provider.tip, self.epochs = state

    def _take(self, step: Step) -> None:
        match step:
            case Say():
                self._say(step)
            case Rewind(turns=turns):
                for _ in range(min(turns, len(self.states))):
                    self._restore(self.states.pop())
            case Fork():
                before, states = self._state(), list(self.states)
                self._say(Say(5, ((5,),)))
                self._restore(before)
                self.states = states
            case Resume():
                self.driver.open()
            case Switch() if self.life.dialect == "gemini" or not self.kind.can_switch:
                pass  # a client that keeps another model's signatures is refused without us
            case Switch(model=place):
                reasons = _reasons(self.driver.model)
                models = [one for one in MODELS[self.life.dialect] if _reasons(one) == reasons]
                self.driver.model = models[place % len(models)]
                self.driver.open()
            case Pause(seconds=seconds):
                self.provider.now += seconds
            case Fail(name=name):
                self.provider.loopback.fail_next(FAULTS[name])
            case _:
                pass  # what no framework lets its user do

    def _say(self, step: Say) -> None:
        self.turns += 1
        before = self._state()
        self.provider.plan = list(step.rounds)
        sent = len(self.provider.sent)
        try:
            self.driver.say(words(step.words, f"turn{self.turns}"))
        except Exception as error:
            struck = [one.received.fault for one in self.provider.sent[sent:]]
            if not any(struck):
                said = f"{type(error).__name__}: {error}"
                self.faults.append(Fault(f"died: {type(error).__name__}", said[:400]))
            self._restore(before)
        else:
            self.states.append(before)
        self.provider.loopback.heal()
