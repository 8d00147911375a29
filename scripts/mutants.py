"""Test the tests: break the core in many small ways and count how often a test notices.

    python scripts/mutants.py              # 300 mutants, 50 from each package, always the same ones
    python scripts/mutants.py --sample 600
    python scripts/mutants.py --all        # every mutant: hours

Mutants are made and run by mutmut (`[tool.mutmut]` in pyproject.toml), each against the quick tests
of the core that reach the mutated function. Those that survive are run once more, in a process that
is mutated from its start (mutmut forks after the imports, and patterns are built by imports),
against the tests of their package and those of the session, which run the turn.
The sample is chosen by a hash of the mutant's name.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGES = ("compaction", "extract", "projection", "secrets", "tokens", "turn")
ALIVE = (0, 33, None)
"""Exit codes of mutmut: no test failed, no test reaches the function, not run. Others are kills."""
_FAILED = (1, 2)
"""Exit codes of pytest: a test failed, or could not even be imported."""
_PROCESSES = 2
_SECONDS = 1_800
"""A mutant whose tests take longer does not come to an end, and is noticed by that."""
_FIRST = "holdfast.core.tokens.images.x_image_rule__mutmut_1"


def results() -> dict[str, int | None]:
    """Return the exit code of each mutant; None for those not run yet."""
    found: dict[str, int | None] = {}
    for path in sorted((ROOT / "mutants").rglob("*.meta")):
        found |= json.loads(path.read_text("utf-8"))["exit_code_by_key"]
    return found


def package_of(mutant: str) -> str:
    """Return the package of the core that a mutant is in."""
    return mutant.split(".")[2]


def sample(mutants: list[str], count: int) -> list[str]:
    """Return `count` mutants, the same number from each package, chosen by a hash."""
    by_package: dict[str, list[str]] = defaultdict(list)
    for mutant in sorted(mutants, key=lambda name: hashlib.sha256(name.encode()).digest()):
        by_package[package_of(mutant)].append(mutant)
    share = count // len(by_package)
    return [mutant for names in by_package.values() for mutant in names[:share]]


def run(mutants: list[str]) -> None:
    """Run mutants, and make them first where the code has changed."""
    command = [str(Path(sys.executable).parent / "mutmut"), "run", "--max-children", "2", *mutants]
    subprocess.run(command, cwd=ROOT, env={**os.environ, "HOLDFAST_TESTS": "quick"}, check=True)


def look_again(survivors: list[str]) -> set[str]:
    """Return those of the survivors that tests notice in a process of their own."""
    with ThreadPoolExecutor(_PROCESSES) as pool:
        noticed = pool.map(_is_noticed, survivors)
        return {mutant for mutant, found in zip(survivors, noticed, strict=True) if found}


def _is_noticed(mutant: str) -> bool:
    tests = (f"tests/core/{package_of(mutant)}", "tests/engine/session")
    options = ("-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-W", "ignore")
    folder = ROOT / "mutants"
    environment = {
        **os.environ,
        "HOLDFAST_TESTS": "test",  # the quick run has a quarter of the tests of each file
        "MUTANT_UNDER_TEST": mutant,
        "PYTHONPATH": f"{folder / 'src'}{os.pathsep}{folder}",
    }
    command = (sys.executable, "-m", "pytest", *options, "-m", "not nightly", *tests)
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return True
    return done.returncode in _FAILED


def report(chosen: list[str], codes: dict[str, int | None], noticed: set[str]) -> str:
    """Return the score of each package, and the survivors."""
    killed: Counter[str] = Counter()
    total: Counter[str] = Counter()
    survivors = []
    for mutant in chosen:
        total[package_of(mutant)] += 1
        if mutant not in noticed and codes.get(mutant) in ALIVE:
            survivors.append(mutant)
        else:
            killed[package_of(mutant)] += 1
    rows = [
        f"{name:12} {killed[name]:5} of {total[name]:5}  {killed[name] / total[name]:6.1%}"
        for name in sorted(total)
    ]
    whole = f"{'all':12} {killed.total():5} of {total.total():5}  "
    return "\n".join([*rows, f"{whole}{killed.total() / total.total():6.1%}", "", *survivors])


def main(arguments: list[str]) -> int:
    """Make the mutants, run a sample and print the scores."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sample", type=int, default=300, metavar="N", help="how many (300)")
    parser.add_argument("--all", action="store_true", help="run every mutant")
    options = parser.parse_args(arguments)
    run([_FIRST])
    mutants = list(results())
    chosen = mutants if options.all else sample(mutants, options.sample)
    run(chosen)
    codes = results()
    noticed = look_again([mutant for mutant in chosen if codes.get(mutant) in ALIVE])
    print(report(chosen, codes, noticed))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
