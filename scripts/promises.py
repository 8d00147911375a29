"""Break each promise of the docs once, and see its test fail.

    python scripts/promises.py              # all of them: some minutes
    python scripts/promises.py durable fits # those whose title has one of these words

`docs/promises.md` names a test for each promise, and a change to the source that breaks it. Each
change is made in a copy of the source; the test has to fail there, and to pass without it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "promises.md"
_TEST = re.compile(r"^Test: `(?P<test>[^`]+)`$", re.MULTILINE)
_MUTATION = re.compile(
    r"^Mutation in `(?P<file>[^`]+)`:\n\n```diff\n(?P<diff>.*?)^```$", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Promise:
    """A promise, the test that holds it, and a change that breaks it."""

    title: str
    test: str
    file: str
    before: str
    after: str

    def mutate(self, text: str) -> str:
        """Return the source with the promise broken."""
        if text.count(self.before) != 1:
            raise LookupError(
                f"{self.file}: {text.count(self.before)} places have the lines that the mutation "
                f"of “{self.title}” removes; exactly one is needed"
            )
        return text.replace(self.before, self.after)


def read(page: str) -> list[Promise]:
    """Return the promises of a page."""
    found = []
    for section in re.split(r"^## ", page, flags=re.MULTILINE)[1:]:
        title = section.partition("\n")[0].strip()
        test, mutation = _TEST.search(section), _MUTATION.search(section)
        if test is None or mutation is None:
            raise LookupError(f"“{title}” names no test or no mutation")
        lines = mutation["diff"].splitlines(keepends=True)
        before = "".join(line[1:] for line in lines if line[0] != "+")
        after = "".join(line[1:] for line in lines if line[0] != "-")
        found.append(Promise(title, test["test"], mutation["file"], before, after))
    return found


def run_test(test: str, source: Path) -> int:
    """Return the exit code of pytest for one test, with the package from a folder."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider", test],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    return done.returncode


def main(words: list[str]) -> int:
    """Break the promises one by one; return 1 if a test did not notice."""
    promises = [
        promise
        for promise in read(PAGE.read_text("utf-8"))
        if not words or any(word.lower() in promise.title.lower() for word in words)
    ]
    unnoticed = 0
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "src"
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        for promise in promises:
            whole = run_test(promise.test, source)
            place = source / "holdfast" / promise.file
            text = place.read_text("utf-8")
            place.write_text(promise.mutate(text), "utf-8")
            broken = run_test(promise.test, source)
            place.write_text(text, "utf-8")
            is_held = (whole, broken) == (0, 1)
            unnoticed += not is_held
            said = "held" if is_held else f"NOT HELD (exit {whole} whole, {broken} broken)"
            print(f"{said:8}  {promise.title}  [{promise.test}]", flush=True)
    print(f"{len(promises) - unnoticed} of {len(promises)} promises are held by a test that fails")
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
