"""The aggregators that run the contract suite: every class that `pate.aggregators` exports must be among them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.aggregators import (
    Aggregator,
    BoundaryMax,
    BoundaryTopK,
    CenteredVotes,
    ClippedVotes,
    ConfidentGNMax,
    ConfidentVotes,
    FixedTopK,
    GaussianVotes,
    GNMax,
    NotPriorTopK,
    PowersetGNMax,
    StableFixedTopK,
    StableTopK,
    TeacherVotesAggregator,
)

NUM_TEACHERS = 40
NUM_LABELS = 4


@dataclass(frozen=True)
class Case:
    """One aggregator, and how votes can be chosen so that each thing happens.

    Attributes:
        name: of the test.
        aggregator: under replace-one; calm on `CLEAR`, in doubt on `UNSURE`.
        refuses: whether it can abstain.
        halts: whether it refuses everything after some hits.
        any_real: whether votes may be any real numbers, not confidences alone.
        flat: whether all queries are one release, which costs the same however many they are.
    """

    name: str
    aggregator: Aggregator
    refuses: bool = True
    halts: bool = False
    any_real: bool = False
    flat: bool = False

    @property
    def reads_teachers(self) -> bool:
        """Whether it takes the votes of each teacher, not counts."""
        return isinstance(self.aggregator, TeacherVotesAggregator)

    def given(self, counts: NDArray[np.int64]) -> NDArray[Any]:
        """Votes that have these counts `[Q, L]`, in the form that the aggregator takes."""
        if not self.reads_teachers:
            return counts
        return np.arange(NUM_TEACHERS)[:, None, None] < counts


SESSION = {"target_hits": 400, "session_delta": 5e-5}

CASES = (
    Case("gumbel", StableTopK(selection_scale=2.0, test_std=1.0)),
    Case("gaussian", StableTopK(selection_noise="gaussian", selection_scale=2.0, test_std=1.0)),
    Case("laplace", StableTopK(selection_noise="laplace", selection_scale=2.0, test="laplace", test_std=0.4)),
    Case("exponential", StableTopK(selection_noise="exponential", selection_scale=2.0, test_std=1.0)),
    Case("table", StableTopK(selection_scale=2.0, test="table", table_order=3.0, table_budget=4.0)),
    Case("padded", StableTopK(selection_scale=2.0, test_std=1.0, padded=True)),
    Case("regularized", StableTopK(selection_scale=2.0, test_std=1.0, regularizer=lambda k: -0.5 * k)),
    Case("numbers", StableTopK(selection_scale=2.0, test_std=1.0, regularizer=[0.0, -1.0, 0.5])),
    Case("restricted", StableTopK(selection_scale=2.0, test_std=1.0, max_k=2)),
    Case("fixed", StableFixedTopK(k=2, selection_scale=2.0, test_std=1.0, peel_scale=6.0), refuses=False),
    Case(
        "fixed_table",
        StableFixedTopK(
            k=3, selection_scale=2.0, test="table", table_order=3.0, table_budget=4.0, peel_scale=6.0, penalty=1.0
        ),
        refuses=False,
    ),
    Case(
        "boundary",
        BoundaryTopK(selection_scale=2.0, test_std=0.3, failure_prob=1e-11, **SESSION),
        halts=True,
    ),
    Case("boundary_max", BoundaryMax(selection_scale=6.0, **SESSION), halts=True),
    Case(
        "not_prior",
        NotPriorTopK(prior_scale=2.0, selection_scale=2.0, table_order=3.0, table_budget=4.0, **SESSION),
        halts=True,
    ),
    *(
        Case(mechanism, FixedTopK(k=2, epsilon=1.5, mechanism=mechanism), refuses=False)
        for mechanism in ("peeling", "joint", "canonical", "permute_and_flip", "permute_and_flip_joint", "lipschitz")
    ),
    Case("votes", GaussianVotes(noise_std=3.0), refuses=False),
    Case("gnmax", GNMax(noise_std=6.0, max_votes=40), refuses=False),
    Case("confident_gnmax", ConfidentGNMax(screening_std=2.0, threshold_share=0.85, noise_std=6.0, max_votes=40)),
    Case("clipped_l1", ClippedVotes(noise_std=3.0, vote_clip=3), refuses=False),
    Case("clipped_l2", ClippedVotes(noise_std=3.0, vote_clip=3, norm="l2"), refuses=False),
    Case(
        "centered", CenteredVotes(noise_multiplier=2.0, prevalence_share=0.0), refuses=False, any_real=True, flat=True
    ),
    Case("powerset", PowersetGNMax(noise_std=6.0), refuses=False),
    Case("powerset_of_few", PowersetGNMax(noise_std=6.0, max_size=2), refuses=False),
    Case("confident_votes", ConfidentVotes(screening_std=2.0, threshold_share=0.55, noise_std=3.0)),
)

CLEAR = np.array([[40, 40, 0, 0]])
UNSURE = np.array([[34, 26, 18, 10]])
TIED = np.array([[20, 20, 20, 20]])


def rows(votes: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """The same histogram many times: `[count, L]`."""
    return np.repeat(votes, count, axis=0)
