"""`--duration-budget SECONDS`: every test that is not marked `slow` or `process` keeps to so much processor time."""

from __future__ import annotations

import time
from collections.abc import Generator

import pytest


class DurationBudget:
    """Asked for by a person, never by `make`: whether the suite passes does not depend on a machine's speed.

    Attributes:
        seconds: of the processor, in all threads, for a test without its fixtures; others at work do not count.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Fails a test that took longer."""
        before = time.process_time()
        result = yield
        taken = time.process_time() - before
        if taken > self.seconds and not (item.get_closest_marker("slow") or item.get_closest_marker("process")):
            pytest.fail(f"took {taken:.1f} s of the processor: expected <= {self.seconds}, or the marker `slow`")
        return result
