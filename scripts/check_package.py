"""Check the built wheel: its files, and a base install of it in an empty environment.

    make package

builds `dist/`, installs the wheel without extras, and runs the command line, the demo and a session
with the offline model there. No step after the installation needs a network.
"""

import json
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
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


def run(*command: str, cwd: Path | None = None) -> str:
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=cwd, env=variables, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command[:3])} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
