"""Your own agent loop with the `anthropic` package; Holdfast stores, bounds and guards the calls.

    python examples/own_loop_anthropic.py

It talks to a provider on this machine and needs no key. For the real API, create the client with
`anthropic.Anthropic()`.
"""

import anthropic

from holdfast import Session
from holdfast.testing import Answer, Call, Loopback

SCRIPT: list[Answer | str] = [
    Answer("Let me look.", (Call("get_weather", {"city": "Rome"}),)),
    "It is sunny in Rome.",
]


def get_weather(city: str) -> str:
    """Return the weather of a city."""
    return f"sunny in {city}"


def main() -> None:
    with (
        Loopback(SCRIPT) as loopback,
        anthropic.Anthropic(base_url=loopback.url, api_key="any") as client,
        Session.open("weather", model="anthropic:claude-sonnet-5", tools=[get_weather]) as session,
    ):
        session.own_loop.add_user("What is the weather in Rome?")
        # `call` sends a request that fits the window, stores the reply, and retries a refusal.
        while (
            reply := session.own_loop.call(lambda request: client.messages.create(**request))
        ).calls:
            for call in reply.calls:
                print(f"{call.name}({call.arguments})")
                session.own_loop.add_result(call.id, get_weather(**call.arguments))
        print(reply.text)


if __name__ == "__main__":
    main()
