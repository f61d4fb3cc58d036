"""The example's aggregator keeps the contract, as those of the package do."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from tests.contract.case import Case
from tests.contract.promises import keep, promises

EXAMPLE = Path(__file__).parents[2] / "examples" / "custom_aggregator.py"
CASE = Case("quorum", runpy.run_path(str(EXAMPLE))["LaplaceQuorum"](noise_scale=1.0), refuses=False)


@pytest.mark.parametrize(("promise", "values"), list(promises(CASE)))
def test_the_example_keeps_what_every_aggregator_promises(
    promise: Any, values: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    keep(promise, CASE, values, request)


def test_the_suite_was_found() -> None:
    assert len(list(promises(CASE))) > 30


def test_the_example_is_short() -> None:
    source = EXAMPLE.read_text()
    body = source[source.index("@dataclass") : source.index('if __name__ == "__main__"')]
    assert len([line for line in body.splitlines() if line.strip()]) <= 30
