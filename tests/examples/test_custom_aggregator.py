"""The contract suite on the example's aggregator, as it is run on those of the package."""

from __future__ import annotations

import inspect
import itertools
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract import test_aggregators as contract
from tests.contract.aggregator_cases import Case

EXAMPLE = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "custom_aggregator.py"))
CASE = Case("quorum", EXAMPLE["LaplaceQuorum"](noise_scale=1.0), refuses=False)
NOT_OURS = (contract.READING, contract.FIRST_OF_CLASS)  # for votes of each teacher; a million queries take long


def promises() -> Iterator[Any]:
    """Each test of the suite with each of its values, the case replaced by ours."""
    for name, function in vars(contract).items():
        if not name.startswith("test_") or "case" not in inspect.signature(function).parameters:
            continue
        marks = {mark.args[0]: mark.args[1] for mark in function.pytestmark if mark.name == "parametrize"}
        listed = marks.pop("case")
        if any(listed is cases for cases in NOT_OURS):
            continue
        keys = [(key,) if isinstance(key, str) else key for key in marks]
        rows = [[(value,) if isinstance(key, str) else value for value in marks[key]] for key in marks]
        for number, chosen in enumerate(itertools.product(*rows)):
            values = {
                name: value
                for names, row in zip(keys, chosen, strict=True)
                for name, value in zip(names, row, strict=True)
            }
            yield pytest.param(function, values, id=f"{name}-{number}")


@pytest.mark.parametrize(("promise", "values"), list(promises()))
def test_the_example_keeps_what_every_aggregator_promises(
    promise: Any, values: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    fixtures = inspect.signature(promise).parameters.keys() - values.keys() - {"case"}
    promise(case=CASE, **values, **{name: request.getfixturevalue(name) for name in fixtures})


def test_the_suite_was_found() -> None:
    assert len(list(promises())) > 30


def test_the_example_is_short() -> None:
    source = (Path(__file__).parents[2] / "examples" / "custom_aggregator.py").read_text()
    body = source[source.index("@dataclass") : source.index('if __name__ == "__main__"')]
    assert len([line for line in body.splitlines() if line.strip()]) <= 30
