"""Make the catalog of models again, from the newest `genai-prices` that is installed.

    pip install -U genai-prices && python scripts/model_table.py

Writes `src/holdfast/providers/known_models/table.jsonl`, with today's date. The project is
https://github.com/pydantic/genai-prices, under the MIT licence.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

TABLE = Path(__file__).parents[1] / "src/holdfast/providers/known_models/table.jsonl"


def main() -> None:
    from holdfast.providers.known_models.package import read_package

    made = read_package(as_of=datetime.now(UTC).date().isoformat())
    TABLE.write_bytes(made.encode())
    sys.stdout.write(
        f"{TABLE}: {len(made.providers)} providers, {len(made.rows):,} models, "
        f"{TABLE.stat().st_size:,} bytes, from {made.source} {made.version}\n"
    )


if __name__ == "__main__":
    main()
