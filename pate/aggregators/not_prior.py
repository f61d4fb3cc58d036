"""Sessions in which a student predicts the labels of each query, and a contradicted prediction uses up a hit.

A session answers its queries in order. A student that has learned from earlier answers predicts the labels of the next
queries. The prediction, the *prior*, is public, as it is computed from the release and public inputs. For each query, a
noisy check decides whether the counts agree with the prior. If so, the query is answered with the prior and is free. If
not, the query is a *hit*, and stable top-k answers or refuses it. After `target_hits` hits, every query is refused.

At the beginning of a session no student has learned yet. So the first queries go through stable top-k without a check.
The price is charged before the first answer. It covers these first queries, the checks and `target_hits` hits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Budget, ComposedEvent, Event
from pate.accounting import target_charging as charging
from pate.aggregators.aggregator import Rng
from pate.aggregators.calibration import least_noise
from pate.aggregators.expectation import ExpectedRelease, expected_from_votes
from pate.aggregators.gap_tests import TableTest
from pate.aggregators.prior_rule import KnownPrior, PriorRule
from pate.aggregators.record import ReleaseRecord
from pate.aggregators.release import ChargedRelease
from pate.aggregators.session import Round, TargetChargedAggregator, expected_from_session
from pate.aggregators.session_event import bit_epsilon, session_event
from pate.aggregators.stable_top_k import StableTopK
from pate.array_types import BoolArray, FloatArray, IntArray
from pate.mechanisms.noise.lazy_uniforms import LazyUniforms
from pate.mechanisms.parameters import NATURAL, NOISE, PROBABILITY
from pate.mechanisms.stability_test import StabilityTest
from pate.mechanisms.vote_ranking import VoteRanking
from pate.validation import require, require_count
from pate.votes.made_up import MadeUpVotes
from pate.votes.shape import VoteShape
from pate.votes.source import VoteSource

# The probability that a check passes is a multiple of 1 / _GRID.
_GRID = 2**53
# It is in [2**-40, 1 - 2**-40]. Outside, the steps of the grid would be visible.
_SMALLEST_PROB = 2.0**-40
# So many noise scales away from `prior_margin`, a probability is within 2**-40 of 0 or 1.
_CERTAIN_SCALES = 28.0
# The length of the earlier rounds never limits a round to fewer queries.
_MIN_ROUND_SIZE = 25
# The table of a check has probabilities for margins up to at least the first number, if there are as many teachers, and
# up to at most the second. Larger margins have the probability of the largest margin in the table.
_MIN_TABLE_MARGIN = 1000
_MAX_TABLE_MARGIN = 250_000


@dataclass(frozen=True, kw_only=True)
class NotPriorTopK(TargetChargedAggregator):
    """Answers a query with its predicted labels if a noisy check confirms them, and else by stable top-k.

    The predicted labels are the prior. The margin of a set of labels is the smallest count inside the set minus the
    largest count outside. If the margin of the prior plus Laplace noise reaches `prior_margin`, the query is answered
    with the prior and is free. Otherwise the query is a hit, and `StableTopK` answers or refuses it. The check of a
    query whose prior names no label never passes, so the query is a hit. The first `first_queries` queries have no
    prior and go through `StableTopK` without a check. After `target_hits` hits every query is refused.

    Source: Cohen & Lyu 2023 (not-prior target), Zhu & Wang 2022 (release); docs/proofs/not_prior_top_k.md.

    Formal guarantees, with sens = 2 under replace-one and 1 under add/remove:
        * A check releases one bit and is e-DP, without a failure. e is sens / prior_scale, and slightly more where
          rounded probabilities need it. The checks together are a session with the target `not_prior`, charged by
          `session_event`.
        * At most `first_queries + target_hits` queries go through stable top-k. Their price, failures included, is
          composed with that of the session.
        * The prior may depend on anything public, and on the answers released so far.

    Attributes:
        prior_scale: scale of the check's Laplace noise in votes, > 0.
        prior_margin: the margin in votes that a prior must reach; it may be negative.
        first_queries: the number of queries at the beginning that are answered without a check, >= 0.
        selection_scale: beta of the Gumbel noise in votes of stable top-k, > 0.
        table_order: the Renyi order for which the stability table of stable top-k is made, > 1.
        table_budget: the Renyi divergence of one stability test at that order, > 0.
        failure_prob: probability that stable top-k releases an unstable set, per query; see `StableTopK`.
        padded: whether k = 0 and k = num_labels are possible answers of stable top-k.
        release_share: calibration gives stable top-k this part of the target epsilon, in (0, 1).
            `TargetChargedAggregator` has the other fields.

    >>> aggregator = NotPriorTopK(prior_scale=2.0, selection_scale=2.0, table_order=3.0, table_budget=4.0,
    ...     first_queries=0, target_hits=1)
    >>> votes, prior = np.array([[90, 5, 3], [80, 90, 1]]), np.array([[True, False, False], [False, False, True]])
    >>> session = aggregator.with_prior(prior)
    >>> release = session.aggregate(votes, num_teachers=100, rng=np.random.default_rng(0))
    >>> release.hits, release.labels
    (array([False,  True]), array([[ True, False, False],
           [ True,  True, False]]))
    """

    prior_scale: float = field(metadata=NOISE)
    prior_margin: float = 0.0
    first_queries: int = field(default=50, metadata=NATURAL)
    selection_scale: float = field(metadata=NOISE)
    table_order: float = field(metadata=NOISE)
    table_budget: float = field(metadata=NOISE)
    failure_prob: float | None = None
    padded: bool = False
    release_share: float = field(default=0.7, metadata=PROBABILITY)

    expects_prior: ClassVar[bool] = True
    # One number for the check, one for the choice of k, and one for the test, in this order (`_ask`).
    _uniforms_per_query: ClassVar[int] = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        self._validate()

    def _validate(self) -> None:
        """Raises `InvalidValue` for a `prior_margin` that is not finite, and for fields that `StableTopK` refuses."""
        is_finite = bool(np.isfinite(self.prior_margin))
        require(is_finite, "prior_margin", self.prior_margin, "a finite number")
        _ = self.release_step  # `StableTopK` validates its fields

    @property
    def never_empty(self) -> bool:
        """Whether every answer names at least one label, which holds if `padded` is False."""
        return not self.padded

    def with_prior(self, prior: BoolArray | PriorRule) -> NotPriorSession:
        """Returns a copy of the aggregator with predicted labels for its queries.

        Args:
            prior: bool `[num_queries, num_labels]`, or a rule, which is called for each round. The prior must be public
                or computed from the answers of earlier rounds.
        """
        if isinstance(prior, PriorRule):
            prior_rule: PriorRule = prior
        else:
            predicted_labels = np.asarray(prior)
            is_bool = predicted_labels.dtype == np.bool_
            require(is_bool, "prior.dtype", predicted_labels.dtype, "bool")
            prior_rule = KnownPrior(labels=predicted_labels)
        return self.convert_to(NotPriorSession, prior=prior_rule)

    @property
    def release_step(self) -> StableTopK:
        """The stable top-k aggregator that releases the labels of the first `first_queries` queries and of the hits.

        A hit is a later query whose predicted labels, its prior, did not pass the check.
        """
        return self.convert_to(StableTopK, test="table")

    def stability_test(self, *, num_teachers: int) -> StabilityTest:
        """Returns the test that a released set of labels has to pass, for votes of `num_teachers` teachers."""
        return self.release_step.stability_test(num_teachers=num_teachers)

    def check_probabilities(self, *, num_teachers: int) -> FloatArray:
        """Returns the probability that the check of a prior passes, for each margin from -R to R, float64 `[2 R + 1]`.

        R is chosen here: so large that the check is nearly certain beyond it, but at most `num_teachers` and at most
        250,000. A margin above R has the probability of R, and one below -R has that of -R.
        """
        require_count("num_teachers", num_teachers)
        certain_margin_in_votes = abs(self.prior_margin) + _CERTAIN_SCALES * self.prior_scale
        table_margin = max(math.ceil(min(certain_margin_in_votes, 1e300)), _MIN_TABLE_MARGIN)
        return _table_of_check_probabilities(
            self.prior_scale,
            self.prior_margin,
            largest_margin=min(table_margin, num_teachers, _MAX_TABLE_MARGIN),
        )

    def _pass_probabilities(
        self, counts: NDArray[np.integer], predicted_labels: BoolArray | None, num_teachers: int
    ) -> FloatArray:
        """Returns the probability that the check of each query's predicted labels passes, `[num_queries]`.

        The probability is 0 for a query whose prior names no label, and for all queries without a prior.

        Args:
            counts: `[num_queries, num_labels]`.
            predicted_labels: bool `[num_queries, num_labels]`, the predicted labels; None without a prior.
            num_teachers: the number of teachers.
        """
        if predicted_labels is None:
            return np.zeros(len(counts))
        check_probs_by_margin = self.check_probabilities(num_teachers=num_teachers)
        largest_margin = len(check_probs_by_margin) // 2
        vote_margins_of_priors = margins(counts, label_set_of_query=predicted_labels)
        table_margins = np.clip(vote_margins_of_priors, -largest_margin, largest_margin)
        check_pass_probs = check_probs_by_margin[table_margins + largest_margin]
        return np.where(predicted_labels.any(axis=1), check_pass_probs, 0.0)

    def num_tests(self, num_queries: int) -> int:
        """Returns the largest number of queries that go through stable top-k: the first queries and the hits."""
        return min(num_queries, self.first_queries + self.target_hits)

    def event(self, shape: VoteShape) -> Event:
        """Returns the price of the session of checks, composed with the price of the releases by stable top-k."""
        num_checks = shape.num_queries - min(shape.num_queries, self.first_queries)
        shape_of_releases = replace(shape, num_queries=self.num_tests(shape.num_queries))
        releases_event = self.release_step.event(shape_of_releases)
        check_probs_by_margin = self.check_probabilities(num_teachers=shape.num_teachers)
        check_epsilon = bit_epsilon(
            probabilities=check_probs_by_margin,
            sensitivity=self.adjacency.gap_sensitivity,
        )
        checks_event = session_event(
            make_q_target=charging.not_prior,
            call_epsilon=check_epsilon,
            target_hits=self.target_hits,
            num_calls=num_checks,
            session_delta=self.session_delta,
            other_releases_event=releases_event,
        )
        return ComposedEvent((checks_event, releases_event))

    def plain_event(self, shape: VoteShape) -> Event:
        """Returns the price if stable top-k released every query, without checks."""
        return self.release_step.event(shape)

    def scaled(self, noise_factor: float) -> NotPriorTopK:
        """Returns a copy of the aggregator with its noise multiplied by `noise_factor`.

        The budget of the table is divided by the square of `noise_factor`.
        """
        aggregator_with_scaled_releases = self._with_noise_of(
            self.release_step.scaled(noise_factor)
        )
        return replace(aggregator_with_scaled_releases, prior_scale=self.prior_scale * noise_factor)

    def fitted(self, budget: Budget, shape: VoteShape) -> NotPriorTopK:
        """Returns a copy of the aggregator with noise for which the session meets a budget; see `Aggregator.fitted`.

        The releases by stable top-k get the noise at which they alone cost `release_share` of the epsilon, or all of it
        if no query is checked. The checks then get the least noise that meets the budget. `session_delta` becomes the
        budget's delta.
        """
        has_checks = shape.num_queries > self.first_queries
        share_of_releases = self.release_share if has_checks else 1.0
        epsilon_of_releases = budget.required_epsilon() * share_of_releases
        release_step = self.release_step.fitted(
            replace(budget, epsilon=epsilon_of_releases),
            shape=replace(shape, num_queries=self.num_tests(shape.num_queries)),
        )
        aggregator_with_releases = replace(
            self._with_noise_of(release_step), session_delta=budget.delta
        )
        if not has_checks:
            return aggregator_with_releases

        def event_at_prior_scale(check_noise_scale: float) -> Event:
            return replace(aggregator_with_releases, prior_scale=check_noise_scale).event(shape)

        prior_scale = least_noise(event_at_prior_scale, budget, start_noise=self.prior_scale)
        return replace(aggregator_with_releases, prior_scale=prior_scale)

    def hit_probabilities(
        self, votes: IntArray, *, num_teachers: int, prior: BoolArray | None = None
    ) -> FloatArray:
        """Returns the probability that each query is a hit, `[num_queries]`. No epsilon covers the result.

        A query is a hit if it is checked and the check does not confirm its prior. The first `first_queries` queries
        are never checked, so their probability is 0. Without a prior, that of all other queries is 1.

        Args:
            votes: counts, `[num_queries, num_labels]`.
            num_teachers: the number of teachers.
            prior: bool `[num_queries, num_labels]`, the predicted labels; None without a prior.
        """
        has_check = np.arange(len(votes)) >= self.first_queries
        confirm_probs = self._pass_probabilities(
            counts=votes, predicted_labels=prior, num_teachers=num_teachers
        )
        return np.where(has_check, 1 - confirm_probs, 0.0)

    def _with_noise_of(self, release_step: StableTopK) -> NotPriorTopK:
        """Returns a copy with the selection noise, the table and the failure probability of a `StableTopK`.

        The gap test of `release_step` is a computed table. The noise of the check stays as it is.
        """
        gap_test = release_step.gap_test
        assert isinstance(gap_test, TableTest)  # the kind of test that `release_step` has
        return replace(
            self,
            failure_prob=release_step.failure_prob,
            selection_scale=release_step.selection_scale,
            table_order=gap_test.renyi_order,
            table_budget=gap_test.rdp_budget,
        )

    def _rounds(self, num_queries: int) -> Iterator[slice]:
        """Yields the range of queries of each round, as slices.

        The first `first_queries` queries, which are not checked, share no round with the others. A round is at most as
        long as all earlier rounds together, so a student that predicts has learned from at least half of the queries
        so far. This rule allows 25 queries in any case, since many short rounds would be slow. No round has more than
        `round_size` queries.
        """
        first_query = 0
        while first_query < num_queries:
            end_of_stage = self.first_queries if first_query < self.first_queries else num_queries
            max_queries = min(self.round_size, max(first_query, _MIN_ROUND_SIZE))
            end_query = min(end_of_stage, num_queries, first_query + max_queries)
            yield slice(first_query, end_query)
            first_query = end_query

    def _ask(
        self,
        counts: IntArray,
        lazy_uniforms: LazyUniforms,
        predicted_labels: BoolArray | None,
        *,
        first_query: int,
        num_teachers: int,
    ) -> Round:
        """Draws the check and the release of each query of a round; see `TargetChargedAggregator._ask`."""
        has_check = first_query + np.arange(len(counts)) >= self.first_queries
        confirm_probs = self._pass_probabilities(
            counts, predicted_labels=predicted_labels, num_teachers=num_teachers
        )
        agrees = has_check & (lazy_uniforms[:, 0].rounded_down() < confirm_probs)
        release_step = self.release_step
        vote_ranking = VoteRanking.from_counts(counts)
        selection = release_step.steps(
            num_labels=counts.shape[1], num_teachers=num_teachers
        ).selection
        selected_k = selection.select(vote_ranking, lazy_uniforms[:, 1])
        released_labels, answered = release_step.release_stable_sets(
            vote_ranking,
            selected_k=selected_k,
            uniforms=lazy_uniforms[:, 2].rounded_down(),
            num_teachers=num_teachers,
        )
        if predicted_labels is not None:
            released_labels = np.where(agrees[:, None], predicted_labels, released_labels)
        return Round(labels=released_labels, answered=agrees | answered, hits=has_check & ~agrees)


@dataclass(frozen=True, kw_only=True)
class NotPriorSession(NotPriorTopK):
    """A `NotPriorTopK` with a prior; `NotPriorTopK.with_prior` returns it. Its price does not depend on the prior.

    Attributes:
        prior: the rule that predicts the labels of each round.
    """

    prior: PriorRule = field(repr=False)

    def expected_labels(
        self, released_labels: BoolArray, answered: BoolArray, num_queries: int
    ) -> BoolArray:
        """Returns the labels that `prior` predicts for the next queries, bool `[num_queries, num_labels]`.

        A query whose noisy check confirms the prediction is free.

        Args:
            released_labels: bool `[num_released, num_labels]`, the labels released for all earlier queries.
            answered: bool `[num_released]`, whether each earlier query was answered.
            num_queries: the number of queries to predict.
        """
        return self.prior(released_labels, answered, num_queries)

    def release(self, votes: VoteSource, rng: Rng, record: ReleaseRecord) -> ChargedRelease:
        """Releases labels of the queries in order; see `TargetChargedAggregator.release`.

        Raises `InvalidValue`, before the charge, if the prior is an array of another shape than the votes.
        """
        if isinstance(self.prior, KnownPrior):
            priced_shape = (votes.num_queries, votes.num_labels)
            prior_shape = self.prior.labels.shape
            is_priced = prior_shape == priced_shape
            require(is_priced, "prior.shape", prior_shape, f"{priced_shape}, as the votes")
        return super().release(votes, rng, record)


def margins(counts: NDArray[np.integer], label_set_of_query: BoolArray) -> IntArray:
    """Returns the margin of a set of labels of each query, int `[num_queries]`.

    The margin is the smallest count inside the set minus the largest count outside. For the set of all labels, the
    largest count outside is taken as 0. An empty set gets the margin 0.

    Args:
        counts: `[num_queries, num_labels]`.
        label_set_of_query: bool `[num_queries, num_labels]`, the set of labels of each query.
    """
    smallest_inside = np.where(label_set_of_query, counts, np.iinfo(np.int64).max).min(axis=1)
    largest_outside = np.where(label_set_of_query, 0, counts).max(axis=1)
    differences = smallest_inside.astype(np.int64) - largest_outside.astype(np.int64)
    return np.where(label_set_of_query.any(axis=1), differences, 0)


# The price and each round of a session ask for the same table.
@lru_cache(maxsize=64)
def _table_of_check_probabilities(
    prior_scale: float, prior_margin: float, largest_margin: int
) -> FloatArray:
    """Returns the probability that the check of a prior passes, for each margin from -R to R, `[2 R + 1]`.

    R is `largest_margin`. The probability is P[margin + Laplace(prior_scale) >= prior_margin], cut to
    [2**-40, 1 - 2**-40] and rounded down to a multiple of 2**-53, so that the bit is drawn exactly.
    """
    all_margins = np.arange(-largest_margin, largest_margin + 1)
    excess_in_scales = (all_margins - prior_margin) / prior_scale
    tails = np.exp(-np.abs(excess_in_scales)) / 2
    # Probabilities above 1/2 are 1 - tail, computed by expm1, which loses no digits.
    complements = 0.5 - np.expm1(-np.abs(excess_in_scales)) / 2
    probs_by_margin = np.where(excess_in_scales < 0, tails, complements)
    clipped_probs_by_margin = np.clip(probs_by_margin, _SMALLEST_PROB, 1 - _SMALLEST_PROB)
    rounded_probs_by_margin = np.floor(clipped_probs_by_margin * float(_GRID)) / float(_GRID)
    rounded_probs_by_margin.setflags(write=False)  # all callers share the array in the cache
    return np.asarray(rounded_probs_by_margin)


@expected_from_votes.register(NotPriorTopK)
def _expected_from_not_prior(
    aggregator: NotPriorTopK, made_up_votes: MadeUpVotes, num_queries: int
) -> ExpectedRelease:
    """Returns the expected shares of right labels, over the first queries and the session together.

    The prior is assumed to name the right labels for a share of the queries, and no label for the others. The share is
    that of queries which stable top-k answers, times the share of present labels that its answers name.
    """
    num_first = min(num_queries, aggregator.first_queries)
    # The prior's share of right labels is that of the first queries, or of one query where no query is a first one.
    num_first_or_one = max(num_first, 1)
    expected_first = expected_from_votes(aggregator.release_step, made_up_votes, num_first_or_one)
    if num_first == num_queries:
        return expected_first
    num_right = expected_first.answered * expected_first.present * len(made_up_votes.labels)
    is_right = np.arange(len(made_up_votes.labels)) < num_right
    predicted_labels = made_up_votes.labels & is_right[:, None]
    num_later = num_queries - num_first
    expected_later = expected_from_session(
        replace(aggregator, first_queries=0),  # all later queries are checked
        made_up_votes,
        num_queries=num_later,
        predicted_labels=predicted_labels,
    )
    num_answered = np.array(
        [num_first * expected_first.answered, num_later * expected_later.answered]
    )
    if not num_answered.any():
        return ExpectedRelease(answered=0.0, present=0.0, absent=0.0)
    return ExpectedRelease(
        answered=float(num_answered.sum() / num_queries),
        present=float(
            np.average([expected_first.present, expected_later.present], weights=num_answered)
        ),
        absent=float(
            np.average([expected_first.absent, expected_later.absent], weights=num_answered)
        ),
    )
