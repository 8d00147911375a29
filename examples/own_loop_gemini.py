"""Your own agent loop with the `google-genai` package; Holdfast stores and guards the calls.

    python examples/own_loop_gemini.py

It talks to a provider on this machine and needs no key. For the real API, create the client with
`genai.Client()`.
"""

from typing import Any

from google import genai

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
        genai.Client(api_key="any", http_options={"base_url": loopback.url}) as client,
        Session.open("weather", model="gemini:gemini-3-pro", tools=[get_weather]) as session,
    ):

        def send(request: dict[str, Any]) -> Any:
            # The package takes everything but the contents as one flat `config`.
            config: Any = {**request, **request.get("generationConfig", {})}
            contents = config.pop("contents")
            config.pop("generationConfig", None)
            return client.models.generate_content(
                model="gemini-3-pro", contents=contents, config=config
            )

        session.own_loop.add_user("What is the weather in Rome?")
        # `call` sends a request that fits the window, stores the reply, and retries a refusal.
        while (reply := session.own_loop.call(send)).calls:
            for call in reply.calls:
                print(f"{call.name}({call.arguments})")
                session.own_loop.add_result(call.id, get_weather(**call.arguments))
        print(reply.text)


if __name__ == "__main__":
    main()
