"""Cases of BoundaryMax."""

from pate.aggregators import BoundaryMax
from pate.array_types import IntArray
from tests.contract.case import SESSION_DELTA, TARGET_HITS, Case
from tests.privacy.case import Case as LawCase
from tests.privacy.case import Distribution, SmallInstance, rename_set

CONTRACT = (
    Case(
        name="boundary_max",
        aggregator=BoundaryMax(
            selection_scale=6.0, target_hits=TARGET_HITS, session_delta=SESSION_DELTA
        ),
        halts=True,
    ),
)


def _distribution(aggregator: BoundaryMax, histogram: IntArray, _: SmallInstance) -> Distribution:
    """Returns the probability of each released set: one label, or the empty set."""
    *label_probs, empty_set_prob = aggregator.distribution(histogram).tolist()
    set_probs = {(label,): prob for label, prob in enumerate(label_probs)}
    return set_probs | {(): empty_set_prob}


DISTRIBUTIONS = (
    LawCase(
        name="BoundaryMax",
        mechanism_for=lambda small_instance: BoundaryMax(
            selection_scale=2.0, target_hits=1, adjacency=small_instance.adjacency
        ),
        distribution=_distribution,
        tightness=0.7,
        relabel_outcome=rename_set,
    ),
)
