"""For all tests: no test remembers the private records of another, and none finds a GPU unless it is shown one."""

from __future__ import annotations

import os
import sys

import pytest

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")  # equal bytes are promised on a processor; before torch is loaded


@pytest.fixture(autouse=True)
def _no_earlier_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Warnings are errors, and a second fit on the same records in one process warns."""
    if (repeats := sys.modules.get("pate.classifier.repeats")) is not None:
        monkeypatch.setattr(repeats, "_MEMORY", repeats.RecordMemory())
