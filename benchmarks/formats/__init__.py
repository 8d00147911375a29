"""Formats of benchmarks, for `holdfast.importers`: `read(data, name, formats=WITH_BENCHMARKS)`.

They stand here, and not in the package: nobody goes on with a session of a benchmark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.importers import FORMATS

from . import dialogues, runs

if TYPE_CHECKING:
    from holdfast.importers.common.base import Importer

WITH_BENCHMARKS: Final[dict[str, Importer]] = {
    **{importer.name: importer for importer in (*runs.IMPORTERS, *dialogues.IMPORTERS)},
    **FORMATS,
}
"""Theirs first: detection asks in this order, and lists of bare messages come last."""
