"""Cases of StableFixedTopK."""

from itertools import product
from typing import Any

from pate.aggregators import StableFixedTopK
from tests.contract.case import Case
from tests.privacy.case import Case as LawCase
from tests.privacy.case import rename_indices, rename_set
from tests.privacy.rival_distributions import stable_fixed_top_k_distribution

TABLE = {"test": "table", "table_order": 3.0, "table_budget": 4.0}

CONTRACT = (
    Case(
        "fixed",
        StableFixedTopK(k=2, selection_scale=2.0, test_std=1.0, peel_scale=6.0),
        refuses=False,
    ),
    Case(
        "fixed_table",
        StableFixedTopK(k=3, selection_scale=2.0, peel_scale=6.0, penalty=1.0, **TABLE),
        refuses=False,
    ),
)


def _rename(step: Any, order: list[int]) -> Any:
    return rename_set(step[0], order), rename_indices(step[1], order)


def _distribution(
    k: int, tightness: float = 0.0, largest: tuple[int, int] = (3, 5), **options: Any
) -> LawCase:
    settings = {"selection_scale": 1.0, "peel_scale": 1.5, "penalty": 0.5} | TESTS[0] | options
    return LawCase(
        "-".join(["StableFixedTopK", str(k), *map(str, options.values())]),
        lambda shape: StableFixedTopK(
            k=min(k, shape.num_labels), adjacency=shape.adjacency, **settings
        ),
        stable_fixed_top_k_distribution,
        tightness=tightness,
        largest=largest,
        min_labels=k + 1,
        refuted_on=None
        if settings.get("padded") and settings["penalty"] == 0
        else (min(largest[0], 4), 3 + (k == 1)),
        rename=_rename,
    )


TESTS: tuple[dict[str, Any], ...] = (
    {"test": "gaussian", "test_std": 2.0, "failure_prob": 0.3},
    {"test": "table", "table_order": 4.0, "table_budget": 0.2, "failure_prob": 0.05},
    {"test": "gaussian", "test_std": 0.5, "failure_prob": 1e-3},
)
WIDE = {"selection_scale": 4.0, "peel_scale": 6.0, "penalty": 0.0}
DISTRIBUTIONS = (
    *(
        _distribution(k, padded=padded, **test, **scales)
        for k, padded, test, scales in product((1, 2), (False, True), TESTS, ({}, WIDE))
    ),
    *(_distribution(k, largest=(4, 6), **TESTS[1]) for k in (1, 2)),
    _distribution(3, largest=(4, 3), padded=True, max_k=2, **TESTS[1]),
    *(
        _distribution(1, selection_noise=noise, max_k=max_k)
        for noise in ("gaussian", "exponential", "laplace")
        for max_k in (None, 1)
    ),
    # two tied labels and a test that says nothing: the peel is all there is; and two picks of it
    _distribution(1, 0.9, (2, 6), **TESTS[2] | {"test_std": 1e4, "peel_scale": 4.0}),
    _distribution(
        2, 0.9, (4, 4), **TESTS[2] | {"test_std": 1e4, "peel_scale": 4.0, "selection_scale": 1e4}
    ),
)
