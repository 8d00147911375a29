"""Record the terminal session of the proxy's page: a real agent, wrapped and unchanged.

    python scripts/proxy_session.py [--claude .clients/node_modules/.bin/claude]

Runs `holdfast wrap claude -p …` against a provider on this machine whose window is small, then
`holdfast context` on what it did. Draws what they print into
`docs/images/proxy-session.svg`, with the folder that they ran in as `~/project`. `make clients`
installs Claude Code.
"""

from __future__ import annotations

import argparse
import os
import pty
import re
import shlex
import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.testing import Answer, Call, Loopback

if TYPE_CHECKING:
    from holdfast.testing.loopback import Asked

FOLDER = Path(__file__).parents[1]
PICTURE = FOLDER / "docs" / "images" / "proxy-session.svg"
LIMIT = 60_000
"""Tokens of the provider, which counts the reply into its window."""
STEPS = 14
COLUMNS = 100
ASK = "Which module is the longest?"
_COMMANDS = re.compile(
    r"\x1b\[[0-9;?<>=]*[a-ln-zA-Z]|\x1b\[[<>?=][0-9;]*m|\x1b\][^\x07\x1b]*(\x07|\x1b\\)"
    r"|\x1b[()][A-Z0-9]|\x1b[78=>]|\r"
)
"""Codes of a terminal that are no colours."""
_SPINNER = tuple("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")
"""How a line begins that the next one overwrites."""
_COLOURS = re.compile(r"\x1b\[([0-9;]*)m")
_STYLE = """
text { font: 13px ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace; fill: #e4e4e7;
white-space: pre; } .back { fill: #18181b; } .typed { fill: #2dd4bf; font-weight: 600; }
.dim { fill: #a1a1aa; } .bold { font-weight: 600; }
"""


def think(asked: Asked) -> Answer:
    """Let the agent read file after file, and answer then."""
    done = [int(step) for step in re.findall(r"module_(\d+)\.py", str(asked.messages))]
    step = max(done, default=0) + 1
    thinking = "I read the next one." if asked.thinks else ""
    if step > STEPS:
        return Answer("module_7.py is the longest, with 900 lines.", thinking=thinking)
    command = f"yes 'def work(): ...  # module_{step}.py' | head -n 400"
    return Answer(
        "", (Call("Bash", {"command": command, "description": f"Read {step}"}),), thinking=thinking
    )


def run(command: list[str], folder: Path, environment: dict[str, str]) -> str:
    """Run a command in a terminal of its own, and return all that it prints."""
    leader, follower = pty.openpty()
    known = {**environment, "COLUMNS": str(COLUMNS), "LINES": "50", "TERM": "xterm-256color"}
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=follower,
        stderr=follower,
        cwd=folder,
        env=known,
    )
    os.close(follower)
    printed = b""
    while True:
        try:
            piece = os.read(leader, 65_536)
        except OSError:  # the terminal is gone with its last program
            break
        if not piece:
            break
        printed += piece
    os.close(leader)
    if process.wait():
        raise SystemExit(printed.decode(errors="replace"))
    plain = _COMMANDS.sub("", printed.decode(errors="replace")).replace(str(folder), "~/project")
    lines = [line.rstrip() for line in plain.split("\n")]
    kept = [line for line in lines if not _COLOURS.sub("", line).startswith(_SPINNER)]
    return "\n".join(kept).strip("\n")


def record(claude: str, folder: Path) -> list[tuple[str, str]]:
    """Run the session; returns each command as it is typed, and what it printed."""
    with Loopback(think, limit=LIMIT) as loopback:
        environment = {
            "PATH": os.pathsep.join([str(Path(claude).parent), os.environ["PATH"]]),
            "HOME": str(folder),
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            "ANTHROPIC_BASE_URL": loopback.url,
            "ANTHROPIC_API_KEY": "sk-ant-test",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
        }
        holdfast = [sys.executable, "-m", "holdfast"]
        agent = ["claude", "-p", ASK, "--model", "claude-sonnet-4-5", "--allowedTools", "Bash"]
        wrapped = run([*holdfast, "wrap", *agent], folder, environment)
        listed = run([*holdfast, "sessions", "--json"], folder, environment)
        session = re.findall(r"proxy-[0-9a-f-]{36}", listed)[0]
        context = run([*holdfast, "context", session], folder, environment)
        return [
            (shlex.join(["holdfast", "wrap", *agent]), wrapped),
            (f"holdfast context {session}", context),
        ]


def draw(shown: list[tuple[str, str]]) -> str:
    """The picture of a terminal session."""
    lines: list[str] = []
    for typed, printed in shown:
        lines += [f'<tspan class="typed">$ {escape(typed)}</tspan>']
        lines += [_draw_line(line) for line in printed.split("\n")]
        lines.append("")
    height = 24 + 18 * len(lines)
    rows = [
        f'<text x="16" y="{32 + 18 * place}" xml:space="preserve">{line}</text>'
        for place, line in enumerate(lines)
        if line
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 {height}" role="img" '
        'aria-label="A terminal: holdfast wrap around Claude Code, then holdfast context">'
        f'<style>{_STYLE}</style><rect class="back" width="900" height="{height}" rx="8"/>'
        + "\n".join(rows)
        + "</svg>\n"
    )


def _draw_line(line: str) -> str:
    drawn, style = "", ""
    for place, part in enumerate(_COLOURS.split(line[: 4 * COLUMNS])):
        if place % 2:
            codes = part.split(";")
            style = "dim" if "2" in codes else "bold" if "1" in codes else ""
        elif part:
            drawn += f'<tspan class="{style}">{escape(part)}</tspan>' if style else escape(part)
    return drawn


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    default = FOLDER / ".clients" / "node_modules" / ".bin" / "claude"
    options.add_argument("--claude", type=Path, default=default)
    given = options.parse_args()
    if not given.claude.exists():
        raise SystemExit(f"`{given.claude}` does not exist: `make clients` installs it")
    with tempfile.TemporaryDirectory() as folder:
        shown = record(str(given.claude), Path(folder))
    PICTURE.write_text(draw(shown), "utf-8")
    for typed, printed in shown:
        print(f"$ {typed}\n{_COLOURS.sub('', printed)}\n")


if __name__ == "__main__":
    main()
