"""Your own streamed agent loop with the `openai` package; Holdfast stores, bounds and guards it.

    python examples/own_loop_openai.py

It talks to a provider on this machine and needs no key. For the real API, create the client with
`openai.OpenAI()`.
"""

import openai

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
        openai.OpenAI(base_url=loopback.openai_url, api_key="any") as client,
        Session.open("weather", model="openai:gpt-5.2", tools=[get_weather]) as session,
    ):
        session.own_loop.add_user("What is the weather in Rome?")
        while True:
            # The two halves of `call`: `prepare` returns a request that fits the window, `record`
            # stores the reply. After an error, `prepare(failed=error)` returns a smaller request.
            request = session.own_loop.prepare().request
            stream = client.responses.create(**request, stream=True)
            reply = session.own_loop.record(stream)
            if not reply.calls:
                break
            for call in reply.calls:
                print(f"{call.name}({call.arguments})")
                session.own_loop.add_result(call.id, get_weather(**call.arguments))
        print(reply.text)


if __name__ == "__main__":
    main()
