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


def _rename(outcome: Any, label_of_rank: list[int]) -> Any:
    """Returns an outcome, the stable set and the sequence of peeled labels, as labels instead of ranks."""
    stable_set, picks = outcome
    return rename_set(stable_set, label_of_rank), rename_indices(picks, label_of_rank)


SMALL_SIZE = Size(num_labels=3, num_teachers=5)


def _law_case(
    name_suffix: str,
    aggregator: StableFixedTopK,
    tightness: float = 0.0,
    largest_size: Size = SMALL_SIZE,
    *,
    is_failure_reached: bool = False,
    is_curve_attained: bool = False,
) -> LawCase:
    """Returns the case of an aggregator, which is made for the adjacency and the labels of each small instance.

    Args:
        name_suffix: what the name of the case has after the class and k.
        aggregator: the aggregator; `adjacency`, and a k above the number of labels, are replaced.
        tightness: as in `LawCase`: the share of the price that some exact divergence reaches.
        largest_size: as in `LawCase`: the labels and teachers of the largest instance.
        is_failure_reached: whether a delta over 90% of the failure probability is tested to be reached.
        is_curve_attained: as in `LawCase`: whether a Renyi divergence exceeds 90% of the price.
    """
    k = aggregator.k
    is_refuted = not aggregator.padded or aggregator.penalty != 0
    refuted_at_size = Size(
        num_labels=min(largest_size.num_labels, 4), num_teachers=4 if k == 1 else 3
    )
    return LawCase(
        name=f"StableFixedTopK-{k}{name_suffix}",
        mechanism_for=lambda small_instance: replace(
            aggregator, k=min(k, small_instance.num_labels), adjacency=small_instance.adjacency
        ),
        distribution=stable_fixed_top_k_distribution,
        tightness=tightness,
        largest_size=largest_size,
        min_labels=k + 1,
        replace_one_refuted_at_size=refuted_at_size if is_refuted else None,
        relabel_outcome=_rename,
        failure_reached_at_size=Size(num_labels=2, num_teachers=6) if is_failure_reached else None,
        has_stability_test=True,
        is_curve_attained=is_curve_attained,
    )


USUAL_AGGREGATOR = StableFixedTopK(
    k=1,
    selection_scale=1.0,
    peel_scale=1.5,
    penalty=0.5,
    test="gaussian",
    test_std=2.0,
    failure_prob=0.3,
)
AGGREGATOR_WITH_TABLE = replace(
    USUAL_AGGREGATOR, test="table", table_order=4.0, table_budget=0.2, failure_prob=0.05
)
AGGREGATOR_WITH_NARROW_TEST = replace(USUAL_AGGREGATOR, test_std=0.5, failure_prob=1e-3)
# Aggregators with a Gaussian test or a table, by the test and its parameters.
AGGREGATORS = {
    "gaussian-2.0-0.3": USUAL_AGGREGATOR,
    "table-4.0-0.2-0.05": AGGREGATOR_WITH_TABLE,
    "gaussian-0.5-0.001": AGGREGATOR_WITH_NARROW_TEST,
}

# The test has so much noise that its bit reveals almost nothing about the votes.
AGGREGATOR_WITH_VAGUE_TEST = replace(
    USUAL_AGGREGATOR, test_std=1e4, failure_prob=1e-3, peel_scale=4.0
)

DISTRIBUTIONS = (
    *(
        _law_case(
            name_suffix=f"-{padded}-{test}",
            aggregator=replace(AGGREGATORS[test], k=k, padded=padded),
            is_failure_reached=k == 1 and not padded,
        )
        for k in (1, 2)
        for padded in (False, True)
        for test in AGGREGATORS
    ),
    *(
        _law_case(
            name_suffix=f"-{padded}-{test}-4.0-6.0-0.0",
            aggregator=replace(
                AGGREGATORS[test],
                k=k,
                padded=padded,
                selection_scale=4.0,
                peel_scale=6.0,
                penalty=0.0,
            ),
            is_failure_reached=k == 1 and not padded,
        )
        for k in (1, 2)
        for padded in (False, True)
        for test in AGGREGATORS
    ),
    *(
        _law_case(
            name_suffix="-table-4.0-0.2-0.05",
            aggregator=replace(AGGREGATOR_WITH_TABLE, k=k),
            largest_size=Size(num_labels=4, num_teachers=6),
        )
        for k in (1, 2)
    ),
    _law_case(
        name_suffix="-True-2-table-4.0-0.2-0.05",
        aggregator=replace(AGGREGATOR_WITH_TABLE, k=3, padded=True, max_k=2),
        largest_size=Size(num_labels=4, num_teachers=3),
    ),
    *(
        _law_case(
            name_suffix=f"-{noise}-{max_k}",
            aggregator=replace(USUAL_AGGREGATOR, selection_noise=noise, max_k=max_k),
        )
        for noise in ("gaussian", "exponential", "laplace")
        for max_k in (None, 1)
    ),
    # With two tied labels and an uninformative test, the outcome depends on the peel alone.
    _law_case(
        name_suffix="-gaussian-10000.0-0.001-4.0",
        aggregator=AGGREGATOR_WITH_VAGUE_TEST,
        tightness=0.9,
        largest_size=Size(num_labels=2, num_teachers=6),
        is_curve_attained=True,
    ),
    # With so much noise in the selection, too, the outcome depends on the peel alone, which picks two of four labels.
    _law_case(
        name_suffix="-gaussian-10000.0-0.001-4.0-10000.0",
        aggregator=replace(AGGREGATOR_WITH_VAGUE_TEST, k=2, selection_scale=1e4),
        tightness=0.9,
        largest_size=Size(num_labels=4, num_teachers=4),
        is_curve_attained=True,
    ),
)
