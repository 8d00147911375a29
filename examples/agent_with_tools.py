"""An agent with two tools; Holdfast runs the loop and stores every step.

    python examples/agent_with_tools.py

The offline model needs no key: it runs the tools that a message names. For a real model, set
HOLDFAST_MODEL, for example to `anthropic:claude-sonnet-5`, and the key of its provider.
Run the example again: it continues the same session.
"""

import os
from pathlib import Path

from holdfast import Session


def read_file(path: str) -> str:
    """Read a text file.

    Args:
        path: the file, relative to the working directory
    """
    return Path(path).read_text()


def count_words(text: str) -> int:
    """Count the words of a text.

    Args:
        text: the text
    """
    return len(text.split())


def main() -> None:
    Path("notes.txt").write_text("Releases go out on Tuesdays.\n")
    model = os.environ.get("HOLDFAST_MODEL", "offline")
    with Session.open("notes", model=model, tools=[read_file, count_words]) as session:
        print(session.say("Please call read_file(path='notes.txt')").text)
        print(session.say("Please call count_words(text='one two three')").text)
        status = session.status()
        print(f"{status.messages} messages, about {status.tokens} tokens of {status.window.tokens}")


if __name__ == "__main__":
    main()
