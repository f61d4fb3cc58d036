"""For all tests: no test remembers the private records of another."""

from __future__ import annotations

import sys

import pytest


@pytest.fixture(autouse=True)
def _no_earlier_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Warnings are errors, and a second fit on the same records in one process warns."""
    if (repeats := sys.modules.get("pate.classifier.repeats")) is not None:
        monkeypatch.setattr(repeats, "_MEMORY", repeats.RecordMemory())
