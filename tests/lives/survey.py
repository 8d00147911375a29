"""Count which laws random lives break: `python -m tests.lives.survey [lives per pair]`."""

from __future__ import annotations

import sys
from collections import defaultdict
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, Phase, given, seed, settings
from tests.lives.lives import DIALECTS, SURFACES, lives
from tests.lives.living import live

if TYPE_CHECKING:
    from tests.lives.lives import Life, Surface


def survey(surface: Surface, dialect: str, count: int) -> dict[str, list[tuple[Life, str]]]:
    """Live so many lives; returns by law those that broke it, with the first detail."""
    found: dict[str, list[tuple[Life, str]]] = defaultdict(list)
    checks = list(HealthCheck)

    @seed(31)
    @settings(
        max_examples=count,
        phases=[Phase.generate],
        deadline=None,
        database=None,
        suppress_health_check=checks,
    )
    @given(life=lives(dialect))
    def run(life: Life) -> None:
        try:
            faults = live(life, surface)
        except Exception as error:
            found[f"raised: {type(error).__name__}"].append((life, str(error)[:300]))
            return
        for law in dict.fromkeys(fault.law for fault in faults):
            first = next(fault for fault in faults if fault.law == law)
            found[law].append((life, first.detail))
        if not faults:
            found["(kept all laws)"].append((life, ""))

    run()
    return found


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    surfaces = sys.argv[2].split(",") if len(sys.argv) > 2 else SURFACES
    for surface in surfaces:
        for dialect in DIALECTS:
            print(f"\n## {surface} × {dialect}, {count} lives", flush=True)
            found = survey(surface, dialect, count)  # type: ignore[arg-type]
            for law, cases in sorted(found.items(), key=lambda one: -len(one[1])):
                life, detail = min(cases, key=lambda one: len(one[0].steps))
                print(f"- {law}: {len(cases)} of {count}. {detail}")
                del life


if __name__ == "__main__":
    main()
