"""Cases of StableFixedTopK."""

from dataclasses import replace
from typing import Any

from pate.aggregators import StableFixedTopK
from tests.contract.case import Case
from tests.privacy.case import Case as LawCase
from tests.privacy.case import Size, rename_indices, rename_set
from tests.privacy.rival_distributions import stable_fixed_top_k_distribution

CONTRACT = (
    Case(
        name="fixed",
        aggregator=StableFixedTopK(k=2, selection_scale=2.0, test_std=1.0, peel_scale=6.0),
        refuses=False,
    ),
    Case(
        name="fixed_table",
        aggregator=StableFixedTopK(
            k=3,
            selection_scale=2.0,
            peel_scale=6.0,
            penalty=1.0,
            test="table",
            table_order=3.0,
            table_budget=4.0,
        ),
        refuses=False,
    ),
)


def _rename(step: Any, label_of_rank: list[int]) -> Any:
    """Returns an outcome, which is a set of labels and a sequence of labels, after the labels are permuted."""
    return rename_set(step[0], label_of_rank), rename_indices(step[1], label_of_rank)


SMALL_SIZE = Size(num_labels=3, num_teachers=5)


def _distribution(
    name: str,
    aggregator: StableFixedTopK,
    tightness: float = 0.0,
    largest_size: Size = SMALL_SIZE,
) -> LawCase:
    """Returns the case of an aggregator, which is made for the adjacency and the labels of each small instance."""
    k = aggregator.k
    refuted_at_size = Size(min(largest_size.num_labels, 4), num_teachers=3 + (k == 1))
    return LawCase(
        f"StableFixedTopK-{k}{name}",
        mechanism_for=lambda small_instance: replace(
            aggregator, k=min(k, small_instance.num_labels), adjacency=small_instance.adjacency
        ),
        distribution=stable_fixed_top_k_distribution,
        tightness=tightness,
        largest_size=largest_size,
        min_labels=k + 1,
        replace_one_refuted_at_size=None
        if aggregator.padded and aggregator.penalty == 0
        else refuted_at_size,
        relabel_outcome=_rename,
    )


USUAL = StableFixedTopK(
    k=1,
    selection_scale=1.0,
    peel_scale=1.5,
    penalty=0.5,
    test="gaussian",
    test_std=2.0,
    failure_prob=0.3,
)
WITH_TABLE = replace(USUAL, test="table", table_order=4.0, table_budget=0.2, failure_prob=0.05)
NARROW_TEST = replace(USUAL, test_std=0.5, failure_prob=1e-3)
# Aggregators with each stability test, by the test and its parameters.
TESTS = {
    "gaussian-2.0-0.3": USUAL,
    "table-4.0-0.2-0.05": WITH_TABLE,
    "gaussian-0.5-0.001": NARROW_TEST,
}

# The test has so much noise that its bit reveals nothing about the votes.
UNINFORMATIVE_TEST = replace(USUAL, test_std=1e4, failure_prob=1e-3, peel_scale=4.0)

DISTRIBUTIONS = (
    *(
        _distribution(f"-{padded}-{test}", aggregator=replace(TESTS[test], k=k, padded=padded))
        for k in (1, 2)
        for padded in (False, True)
        for test in TESTS
    ),
    *(
        _distribution(
            f"-{padded}-{test}-4.0-6.0-0.0",
            aggregator=replace(
                TESTS[test],
                k=k,
                padded=padded,
                selection_scale=4.0,
                peel_scale=6.0,
                penalty=0.0,
            ),
        )
        for k in (1, 2)
        for padded in (False, True)
        for test in TESTS
    ),
    *(
        _distribution(
            name="-table-4.0-0.2-0.05",
            aggregator=replace(WITH_TABLE, k=k),
            largest_size=Size(num_labels=4, num_teachers=6),
        )
        for k in (1, 2)
    ),
    _distribution(
        name="-True-2-table-4.0-0.2-0.05",
        aggregator=replace(WITH_TABLE, k=3, padded=True, max_k=2),
        largest_size=Size(num_labels=4, num_teachers=3),
    ),
    *(
        _distribution(
            f"-{noise}-{max_k}", aggregator=replace(USUAL, selection_noise=noise, max_k=max_k)
        )
        for noise in ("gaussian", "exponential", "laplace")
        for max_k in (None, 1)
    ),
    # With two tied labels and an uninformative test, the outcome depends on the peel alone.
    _distribution(
        name="-gaussian-10000.0-0.001-4.0",
        aggregator=UNINFORMATIVE_TEST,
        tightness=0.9,
        largest_size=Size(num_labels=2, num_teachers=6),
    ),
    # In this case, too, but with two picks of the peel.
    _distribution(
        name="-gaussian-10000.0-0.001-4.0-10000.0",
        aggregator=replace(UNINFORMATIVE_TEST, k=2, selection_scale=1e4),
        tightness=0.9,
        largest_size=Size(num_labels=4, num_teachers=4),
    ),
)
