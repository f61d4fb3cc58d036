"""A plugin of pytest, which gives tests of any project the replay, the verifier and the attack of `pate.testing`.

pytest loads the plugin if `pate-multilabel` is installed. The plugin imports neither numpy nor `pate.testing` before a
test uses one of its fixtures:

* `pate_replay` runs a function on data and on a neighbor with the same releases, and fails if anything else differs;
* `pate_verify` compares exact distributions on all neighboring histograms with a price, and fails if it is refuted;
* `pate_attack` tells draws on two neighbors apart, and fails if that refutes a claimed epsilon.

`-p no:pate` turns the plugin off.
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
    """Returns a function that calls `pate.testing.replay` and raises `Leaked` if the two runs have leaks.

    A leak is a difference between the runs that their releases do not explain.
    """
    from pate.testing import replay

    def check(
        run: Callable[[Any, ReleaseTape], Any],
        data: Any,
        neighbor: Any,
        *,
        hidden: Callable[[str], bool] | None = None,
    ) -> Replay[Any]:
        """Returns the result of `replay`, with the same arguments; raises `Leaked` if the two runs have leaks."""
        is_line_left_out = hidden
        result = replay(run, data, neighbor, hidden=is_line_left_out)
        result.require_sound()
        return result

    return check


@pytest.fixture(scope="session")
def pate_verify() -> Callable[..., Verdict]:
    """Returns a function that calls `pate.testing.verify` and raises `PriceRefuted` if the price is refuted."""
    from pate.testing import verify

    def check(outcome_probs_of: Callable[[Any], Any], **verify_arguments: Any) -> Verdict:
        """Returns the verdict of `verify`, with the same arguments; raises `PriceRefuted` if the price is refuted."""
        verdict = verify(outcome_probs_of, **verify_arguments)
        verdict.require()
        return verdict

    return check


@pytest.fixture(scope="session")
def pate_attack() -> Callable[..., DrawAttack]:
    """Returns a function that calls `pate.testing.attack_draws` and raises `PriceRefuted` if `epsilon` is refuted.

    `epsilon` is the claimed price. The draws have the seed 0, unless the test passes `rng=`.
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
        **attack_arguments: Any,
    ) -> DrawAttack:
        """Returns the result of `attack_draws`; raises `PriceRefuted` if it refutes `epsilon`, the claimed epsilon."""
        generator = default_rng(0) if rng is None else rng
        attack = attack_draws(
            mechanism, data, neighbor, delta=delta, rng=generator, **attack_arguments
        )
        attack.require(epsilon)
        return attack

    return check
