"""Cases of StableTopK."""

from dataclasses import replace

from pate.accounting import AutoAccountant
from pate.aggregators import StableTopK
from pate.mechanisms.gap_selection import SELECTION_NOISES
from tests.contract.case import Case
from tests.privacy.case import REFUTED_AT_SIZE, Size, rename_set
from tests.privacy.case import Case as LawCase
from tests.privacy.rival_distributions import stable_top_k_distribution

CONTRACT = (
    Case(name="gumbel", aggregator=StableTopK(selection_scale=2.0, test_std=1.0)),
    Case(
        name="gaussian",
        aggregator=StableTopK(selection_noise="gaussian", selection_scale=2.0, test_std=1.0),
    ),
    Case(
        name="laplace",
        aggregator=StableTopK(
            selection_noise="laplace", selection_scale=2.0, test="laplace", test_std=0.4
        ),
    ),
    Case(
        name="exponential",
        aggregator=StableTopK(selection_noise="exponential", selection_scale=2.0, test_std=1.0),
    ),
    Case(
        name="table",
        aggregator=StableTopK(selection_scale=2.0, test="table", table_order=3.0, table_budget=4.0),
        accountant=AutoAccountant,
    ),
    Case(name="padded", aggregator=StableTopK(selection_scale=2.0, test_std=1.0, padded=True)),
    Case(
        name="regularized",
        aggregator=StableTopK(selection_scale=2.0, test_std=1.0, regularizer=lambda k: -0.5 * k),
    ),
    Case(
        name="numbers",
        aggregator=StableTopK(selection_scale=2.0, test_std=1.0, regularizer=[0.0, -1.0, 0.5]),
    ),
    Case(name="restricted", aggregator=StableTopK(selection_scale=2.0, test_std=1.0, max_k=2)),
)


def _law_case(
    name_suffix: str,
    aggregator: StableTopK,
    tightness: float = 0.0,
    *,
    is_curve_attained: bool = False,
    is_sharply_priced: bool = False,
) -> LawCase:
    """Returns the case of an aggregator, which is made for the adjacency of each small instance.

    Args:
        name_suffix: what the name of the case has after the class.
        aggregator: the aggregator; its `adjacency` is replaced.
        tightness: as in `LawCase`: the share of the price that some exact divergence reaches.
        is_curve_attained: as in `LawCase`: whether a Renyi divergence exceeds 90% of the price.
        is_sharply_priced: as in `LawCase`: whether deltas are tested to reach most of the accountants' prices.
    """
    is_wide = aggregator.selection_scale == 3.0
    is_wide_and_padded = aggregator.padded and is_wide
    is_failure_reached = (
        aggregator.selection_noise == "gumbel" and is_wide and not aggregator.padded
    )
    return LawCase(
        name=f"StableTopK-{name_suffix}",
        mechanism_for=lambda small_instance: replace(
            aggregator, adjacency=small_instance.adjacency
        ),
        distribution=stable_top_k_distribution,
        tightness=tightness,
        min_labels=1 if aggregator.padded else 2,
        replace_one_refuted_at_size=None if is_wide_and_padded else REFUTED_AT_SIZE,
        relabel_outcome=rename_set,
        failure_reached_at_size=Size(num_labels=2, num_teachers=6) if is_failure_reached else None,
        has_stability_test=True,
        is_curve_attained=is_curve_attained,
        is_sharply_priced=is_sharply_priced,
    )


# Aggregators with each stability test, by the test and its parameters.
AGGREGATORS = {
    "gaussian-2.0-0.3": StableTopK(
        selection_scale=1.0, test="gaussian", test_std=2.0, failure_prob=0.3
    ),
    "laplace-1.0-0.05": StableTopK(
        selection_scale=1.0, test="laplace", test_std=1.0, failure_prob=0.05
    ),
    "table-4.0-0.2-0.3": StableTopK(
        selection_scale=1.0, test="table", table_order=4.0, table_budget=0.2, failure_prob=0.3
    ),
    "gaussian-0.5-0.001": StableTopK(
        selection_scale=1.0, test="gaussian", test_std=0.5, failure_prob=1e-3
    ),
}

# The noise, scale, padding and test of aggregators that attain over 90% of their price without failures.
ATTAINED = (
    ("gumbel", 0.5, False, "table-4.0-0.2-0.3"),
    ("gumbel", 3.0, False, "laplace-1.0-0.05"),
)

DISTRIBUTIONS = (
    _law_case(
        name_suffix="gumbel",
        aggregator=StableTopK(selection_scale=1.0, test_std=1.0, failure_prob=0.05),
        tightness=0.9,
        is_sharply_priced=True,
    ),
    *(
        _law_case(
            name_suffix=f"{noise}-{scale}-{padded}-{test}",
            aggregator=replace(
                AGGREGATORS[test], selection_noise=noise, selection_scale=scale, padded=padded
            ),
            is_curve_attained=(noise, scale, padded, test) in ATTAINED,
        )
        for noise in SELECTION_NOISES
        for scale in (0.5, 3.0)
        for padded in (False, True)
        for test in AGGREGATORS
    ),
    *(
        _law_case(
            name_suffix=f"{noise}-0.5-{max_k}-{test}",
            aggregator=replace(
                AGGREGATORS[test], selection_noise=noise, selection_scale=0.5, max_k=max_k
            ),
            is_curve_attained=noise == "gumbel" and max_k == 1,
        )
        for noise in SELECTION_NOISES
        for max_k in (1, 2)
        for test in ("laplace-1.0-0.05", "table-4.0-0.2-0.3")
    ),
)
