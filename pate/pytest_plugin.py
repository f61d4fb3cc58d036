"""A plugin of pytest, which gives tests of any project the replay, the verifier and the attack of `pate.testing`.

pytest loads it where `pate-multilabel` is installed. It imports nothing before a test asks for one of its fixtures:

* `pate_replay` runs a function on data and on a neighbor with the same releases, and fails where anything else differs;
* `pate_verify` compares exact distributions on all neighboring histograms with a price, and fails where it is refuted;
* `pate_attack` tells draws on two neighbors apart, and fails where that refutes a claimed epsilon.

`-p no:pate` leaves it out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import numpy as np

    from pate.testing import DrawAttack, ReleaseTape, Replay, Verdict


@pytest.fixture(scope="session")
def pate_replay() -> Callable[..., Replay[Any]]:
    """Returns `pate.testing.replay`, which raises `Leaked` where two runs differ in more than their releases."""
    from pate.testing import replay

    def check(
        run: Callable[[Any, ReleaseTape], Any],
        data: Any,
        neighbor: Any,
        *,
        hidden: Callable[[str], bool] | None = None,
    ) -> Replay[Any]:
        result = replay(run, data, neighbor, hidden=hidden)
        result.require_sound()
        return result

    return check


@pytest.fixture(scope="session")
def pate_verify() -> Callable[..., Verdict]:
    """Returns `pate.testing.verify`, which raises `PriceRefuted` where a price is refuted."""
    from pate.testing import verify

    def check(distribution: Callable[[Any], Any], **arguments: Any) -> Verdict:
        verdict = verify(distribution, **arguments)
        verdict.require()
        return verdict

    return check


@pytest.fixture(scope="session")
def pate_attack() -> Callable[..., DrawAttack]:
    """Returns `pate.testing.attack_draws`, which raises `PriceRefuted` where a claimed epsilon is refuted.

    The draws have the seed 0, unless `rng=` is given.
    """
    from numpy.random import default_rng

    from pate.testing import attack_draws

    def check(
        mechanism: Callable[[Any, np.random.Generator], Any],
        data: Any,
        neighbor: Any,
        *,
        epsilon: float,
        delta: float = 0.0,
        rng: np.random.Generator | None = None,
        **arguments: Any,
    ) -> DrawAttack:
        generator = default_rng(0) if rng is None else rng
        attack = attack_draws(mechanism, data, neighbor, delta=delta, rng=generator, **arguments)
        attack.require(epsilon)
        return attack

    return check
