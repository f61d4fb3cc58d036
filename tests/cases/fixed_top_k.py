"""Cases of FixedTopK."""

from pate.aggregators import FixedTopK
from tests.contract.case import Case
from tests.privacy.case import Case as LawCase
from tests.privacy.case import rename_set

CONTRACT = tuple(
    Case(name=mechanism, aggregator=FixedTopK(k=2, epsilon=1.5, mechanism=mechanism), refuses=False)
    for mechanism in (
        "peeling",
        "joint",
        "canonical",
        "permute_and_flip",
        "permute_and_flip_joint",
        "lipschitz",
    )
)
DISTRIBUTIONS = tuple(
    LawCase(
        name=f"FixedTopK-{mechanism}",
        mechanism_for=lambda small_instance, mechanism=mechanism: FixedTopK(
            k=min(2, small_instance.num_labels),
            epsilon=2.0,
            mechanism=mechanism,
            adjacency=small_instance.adjacency,
        ),
        tightness=0.4,
        relabel_outcome=rename_set,
    )
    for mechanism in ("peeling", "joint")
)
