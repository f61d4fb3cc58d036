"""`DistributedVotes` passes the tests that every aggregator passes."""

from collections.abc import Callable
from typing import Any

import pytest

from pate_federated.distributed_votes import DistributedVotes
from tests.contract.case import Case
from tests.contract.promises import promises, run_promise

PLAIN = Case(
    name="distributed", aggregator=DistributedVotes(noise_std=3.0, num_holders=4), refuses=False
)
WITH_DROPOUTS = Case(
    name="distributed_with_dropouts",
    aggregator=DistributedVotes(noise_std=3.0, num_holders=5, max_dropouts=1, max_colluders=2),
    refuses=False,
)


@pytest.mark.parametrize(("promise_test", "values"), list(promises(PLAIN)))
def test_promises_are_kept(
    promise_test: Callable[..., None], values: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    """Each contract test passes for `DistributedVotes` without dropouts and colluders."""
    run_promise(promise_test, case=PLAIN, values=values, request=request)


@pytest.mark.parametrize(("promise_test", "values"), list(promises(WITH_DROPOUTS)))
def test_promises_are_kept_with_dropouts_and_colluders(
    promise_test: Callable[..., None], values: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    """Each contract test passes for `DistributedVotes` with one dropout and two colluders among five holders."""
    run_promise(promise_test, case=WITH_DROPOUTS, values=values, request=request)
