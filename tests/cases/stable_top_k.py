"""Cases of StableTopK."""

from itertools import product
from typing import Any

from pate.aggregators import StableTopK
from pate.mechanisms.gap_selection import SELECTION_NOISES
from tests.contract.case import Case
from tests.privacy.case import Case as LawCase
from tests.privacy.case import rename_set
from tests.privacy.rival_distributions import stable_top_k_distribution

CONTRACT = (
    Case("gumbel", StableTopK(selection_scale=2.0, test_std=1.0)),
    Case("gaussian", StableTopK(selection_noise="gaussian", selection_scale=2.0, test_std=1.0)),
    Case(
        "laplace",
        StableTopK(selection_noise="laplace", selection_scale=2.0, test="laplace", test_std=0.4),
    ),
    Case(
        "exponential", StableTopK(selection_noise="exponential", selection_scale=2.0, test_std=1.0)
    ),
    Case("table", StableTopK(selection_scale=2.0, test="table", table_order=3.0, table_budget=4.0)),
    Case("padded", StableTopK(selection_scale=2.0, test_std=1.0, padded=True)),
    Case(
        "regularized", StableTopK(selection_scale=2.0, test_std=1.0, regularizer=lambda k: -0.5 * k)
    ),
    Case("numbers", StableTopK(selection_scale=2.0, test_std=1.0, regularizer=[0.0, -1.0, 0.5])),
    Case("restricted", StableTopK(selection_scale=2.0, test_std=1.0, max_k=2)),
)


def _distribution(noise: str, tightness: float = 0.0, **options: Any) -> LawCase:
    settings = {"test_std": 1.0, "failure_prob": 0.05, "selection_scale": 1.0} | options
    return LawCase(
        "-".join(["StableTopK", noise, *map(str, options.values())]),
        lambda shape: StableTopK(selection_noise=noise, adjacency=shape.adjacency, **settings),
        stable_top_k_distribution,
        tightness=tightness,
        min_labels=1 if settings.get("padded") else 2,
        refuted_on=None
        if settings.get("padded") and settings["selection_scale"] == 3.0
        else (3, 4),
        rename=rename_set,
    )


TESTS: tuple[dict[str, Any], ...] = (
    {"test": "gaussian", "test_std": 2.0, "failure_prob": 0.3},
    {"test": "laplace", "test_std": 1.0, "failure_prob": 0.05},
    {"test": "table", "table_order": 4.0, "table_budget": 0.2, "failure_prob": 0.3},
    {"test": "gaussian", "test_std": 0.5, "failure_prob": 1e-3},
)
DISTRIBUTIONS = (
    _distribution("gumbel", 0.9),
    *(
        _distribution(noise, 0.0, selection_scale=scale, padded=padded, **test)
        for noise, scale, padded, test in product(
            SELECTION_NOISES, (0.5, 3.0), (False, True), TESTS
        )
    ),
    *(
        _distribution(noise, 0.0, selection_scale=0.5, max_k=max_k, **test)
        for noise, max_k, test in product(SELECTION_NOISES, (1, 2), TESTS[1:3])
    ),
)
