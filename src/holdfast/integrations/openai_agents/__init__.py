"""Sessions of the OpenAI Agents SDK, kept by Holdfast, and requests that fit.

    from agents import Agent, Runner
    from holdfast.integrations.openai_agents import HoldfastSession

    session = HoldfastSession("thread-1", root=".sessions")
    await Runner.run(Agent(name="helper"), "Hello", session=session)

`BoundedInput` keeps requests within a window, and `recover_overflow` sends a refused one again,
smaller.
"""

from holdfast.integrations.openai_agents.bounded_input import BoundedInput, recover_overflow
from holdfast.integrations.openai_agents.session import HoldfastSession

__all__ = ["BoundedInput", "HoldfastSession", "recover_overflow"]
