"""Check the built wheel: its files, and a base install of it in an empty environment.

    make package

builds `dist/`, installs the wheel without extras, and runs the command line, the demo and a session
with the offline model there. Then it goes the way of a new user: `uvx holdfast inspect` in a home
without transcripts, and in one with those of every agent that is looked for; and the program of the
README, twice. Last, the wheel of 0.1 makes a home; this one is installed over it and goes on there:
nothing is lost, and the next message is answered. No step after an installation needs a network.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.importers.planted_homes import plant_every_agent  # noqa: E402

from holdfast.importers.places import AGENTS, VARIABLES  # noqa: E402

SOURCE = ROOT / "src" / "holdfast"
DATA = {".css", ".gz", ".js", ".json", ".pyi", ".svg", ".toml", ".typed"}
SESSION = """
import holdfast

for name in holdfast.__all__:
    getattr(holdfast, name)

def add(a: int, b: int) -> int:
    '''Add two numbers.

    Args:
        a: the first
        b: the second
    '''
    return a + b

with holdfast.Session.open("check", model="offline", tools=[add]) as session:
    assert "5" in session.say("add(a=2, b=3)").text
"""

FIRST = "caf2051"
"""The commit that is 0.1.0."""
OLD = """
from holdfast import Session
with Session.open("trip", model="offline", label="A trip") as session:
    for number in range(3):
        session.say(f"Remember stop {number}: Lisbon.")
    print(sum(1 for _ in session.store.read(session.key)))
"""
NEW = """
import sys
from holdfast import Session
with Session.open("trip", model="offline") as session:
    found = list(session.store.read(session.key))
    assert len(found) >= int(sys.argv[1]), (len(found), sys.argv)
    assert "stop 1: Lisbon" in str(found)
    assert session.say("And now?").text
"""


def main() -> None:
    uv = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder, "dist")
        run(uv, "build", "--quiet", "--out-dir", str(built), str(ROOT))
        wheel = next(built.glob("*.whl"))
        missing = missing_files(wheel)
        if missing:
            sys.exit(f"{wheel.name} lacks {', '.join(missing)}")
        try_install(uv, wheel, Path(folder, "env"))
        try_inspect(uv, wheel, Path(folder))
        try_readme(Path(folder, "env"), Path(folder, "project"))
        try_upgrade(uv, wheel, Path(folder, "old"))
        target = ROOT / "dist"
        target.mkdir(exist_ok=True)
        for file in built.iterdir():
            if file.name != ".gitignore":
                file.replace(target / file.name)
                print(f"dist/{file.name}: {(target / file.name).stat().st_size:,} bytes")


def missing_files(wheel: Path) -> list[str]:
    """Return the modules and data files of the source that are not in the wheel."""
    files = {
        f"holdfast/{path.relative_to(SOURCE)}"
        for path in SOURCE.rglob("*")
        if path.suffix in DATA | {".py"} or path.name == "py.typed"
    }
    return sorted({*files, "holdfast/py.typed"} - set(zipfile.ZipFile(wheel).namelist()))


def try_install(uv: str, wheel: Path, env: Path) -> None:
    """Use a base install as a user would."""
    run(uv, "venv", "--quiet", "--python", sys.executable, str(env))
    python = str(env / "bin" / "python")
    run(uv, "pip", "install", "--quiet", "--python", python, str(wheel))
    holdfast = str(env / "bin" / "holdfast")
    assert "Durable sessions" in run(holdfast, "--help", cwd=env)
    assert run(holdfast, "--version", cwd=env).startswith("holdfast ")
    report = json.loads(run(holdfast, "demo", "--fast", "--json", cwd=env))
    assert report["crash"]["lost"] == 0
    run(python, "-c", SESSION, cwd=env)
    assert "check" in run(holdfast, "sessions", cwd=env)


def try_inspect(uv: str, wheel: Path, folder: Path) -> None:
    """From nothing to the first answer with one command, as `uvx holdfast inspect` does it."""
    cache = run(uv, "cache", "dir").strip()
    uvx = [uv, "tool", "run", "--quiet", "--python", sys.executable, "--from", str(wheel)]
    empty, planted = folder / "empty", folder / "planted"
    empty.mkdir()
    plant_every_agent(planted)
    for home in (empty, planted):
        variables = {"HOME": str(home), "UV_CACHE_DIR": cache, "UV_TOOL_DIR": str(folder / "uv")}
        done = start(*uvx, "holdfast", "inspect", cwd=home, **variables)
        told = done.stdout + done.stderr
        if home == empty:
            assert done.returncode == 2, told
            assert "found no transcripts" in told, told
            assert "holdfast demo" in told, told
        else:
            assert done.returncode == 0, told
            missing = [agent for agent in AGENTS if agent not in told]
            assert not missing, f"{missing} in\n{told}"
            assert f"{len(AGENTS)} conversations" in told, told
        assert not (home / ".sessions").exists()


def try_readme(env: Path, folder: Path) -> None:
    """An agent with a durable session in five lines or fewer; run again, it goes on."""
    folder.mkdir()
    (program,) = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)
    assert sum(bool(line.strip()) for line in program.splitlines()) <= 5, program
    for turns in (1, 2):
        run(str(env / "bin" / "python"), "-c", program, cwd=folder)
        listed = run(str(env / "bin" / "holdfast"), "sessions", "--json", cwd=folder)
        (session,) = json.loads(listed)
        assert session["messages"] == 2 * turns, session


def try_upgrade(uv: str, wheel: Path, folder: Path) -> None:
    """A home of 0.1 opens as it is, whole, and goes on."""
    if start("git", "-C", str(ROOT), "cat-file", "-e", FIRST).returncode:
        print(f"NOT TESTED: the upgrade from 0.1, because this checkout has no commit {FIRST}")
        return
    source, built, env = folder / "source", folder / "dist", folder / "env"
    source.mkdir(parents=True)
    archive = str(folder / "source.tar")
    run("git", "-C", str(ROOT), "archive", "--output", archive, FIRST)
    run("tar", "-xf", archive, "-C", str(source))
    run(uv, "build", "--quiet", "--wheel", "--out-dir", str(built), str(source))
    run(uv, "venv", "--quiet", "--python", sys.executable, str(env))
    python, holdfast = str(env / "bin" / "python"), str(env / "bin" / "holdfast")
    first = str(next(built.glob("*.whl")))
    run(uv, "pip", "install", "--quiet", "--python", python, first)
    assert run(holdfast, "--version", cwd=folder).startswith("holdfast 0.1.0")
    records = run(python, "-c", OLD, cwd=folder).strip()
    run(uv, "pip", "install", "--quiet", "--python", python, str(wheel))
    assert run(holdfast, "--version", cwd=folder).startswith("holdfast 0.2")
    (before,) = json.loads(run(holdfast, "sessions", "--json", cwd=folder))
    assert before["label"] == "A trip", before
    run(holdfast, "verify", cwd=folder)
    run(python, "-c", NEW, records, cwd=folder)
    (after,) = json.loads(run(holdfast, "sessions", "--json", cwd=folder))
    assert after["messages"] == before["messages"] + 2, (before, after)
    print(f"0.1.0 to {wheel.name}: {records} records opened, and the next message answered")


def run(*command: str, cwd: Path | None = None) -> str:
    done = start(*command, cwd=cwd)
    if done.returncode:
        sys.exit(f"{' '.join(command[:3])} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def start(*command: str, cwd: Path | None = None, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a command outside of this checkout, and as no one who has set it up."""
    hidden = ("PYTHONPATH", "HOLDFAST_", "VIRTUAL_ENV", *VARIABLES)
    variables = {name: text for name, text in os.environ.items() if not name.startswith(hidden)}
    return subprocess.run(
        command, cwd=cwd, env={**variables, **more}, capture_output=True, text=True, check=False
    )


if __name__ == "__main__":
    main()
