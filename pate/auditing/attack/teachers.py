"""An attack on releases of labels, whose canaries are teachers with artificial votes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import cast

import numpy as np

from pate.aggregators import Aggregator
from pate.aggregators.record import MemoryRecord
from pate.array_types import BoolArray, FloatArray, IntArray
from pate.auditing.attack.records import Signs
from pate.validation import InvalidValue
from pate.votes.shape import VoteShape
from pate.votes.source import TeacherVotes

# The gaps between counts in the patterns that are tried, as shares of the teachers that are no canaries.
_GAP_SHARES_OF_TEACHERS = (0.0, *np.geomspace(0.004, 0.6, 15), 0.2, 1 / 3)
# The gaps that are tried for an aggregator that reads the votes of each teacher.
_FEW_GAP_SHARES_OF_TEACHERS = (0.0, 0.1, 0.2)
# The numbers of labels with equal counts in these patterns.
_LABELS_PER_COUNT = (1, 4)
# The numbers of equal gaps between falling counts in these patterns.
_NUMBERS_OF_GAPS = (1, 2, 4, 7)
# A smaller number of canaries is chosen only if its score is larger by this factor.
_MIN_SCORE_RATIO = 1.25
# The smallest number of queries by which each pattern is judged, and by which the best pattern is judged again.
_NUM_QUERIES = 500
_NUM_FINAL_QUERIES = 4000
# The number of teachers whose votes are made at a time.
_BLOCK_SIZE = 64


@dataclass(frozen=True)
class VotePattern:
    """A pattern of artificial votes, in which the votes of canaries decide the answers.

    Each canary has a sign, 1 or -1, for each query, or for each label of each query. With a coin of 1 the canary votes
    by its signs, with a coin of -1 by the opposite signs.

    Attributes:
        side_of_label: 1, -1 or 0 for each of the first labels, and 0 for all further labels. A canary votes for the
            labels whose side is its coin times its sign in the query. Empty if a canary has a sign for each label; then
            it votes for the labels whose sign is its coin.
        votes_of_others: for each of the first labels, the number of teachers that vote for it and are no canaries; 0
            for all further labels. Empty if a canary has a sign for each label; then half of these teachers vote for
            it.
    """

    side_of_label: tuple[int, ...] = ()
    votes_of_others: tuple[int, ...] = ()

    @property
    def is_by_bit(self) -> bool:
        """Whether canaries have a sign for each label of a query, and not one sign for each query."""
        return not self.side_of_label


class PatternVotes(TeacherVotes):
    """The votes of m canaries and of all other teachers, by the pattern of a `VotePattern`.

    Attributes:
        signed_coins: the coin times the sign of each canary, 1 or -1, for each query, `[m, Q]`, or for each label of
            each query, `[m, Q * L]`.
        teachers_per_canary: the number of teachers that cast the votes of each canary.
        num_other_teachers: the number of all other teachers.
    """

    records_per_teacher = 1.0

    def __init__(
        self,
        vote_pattern: VotePattern,
        signed_coins: Signs,
        *,
        teachers_per_canary: int,
        shape: VoteShape,
    ) -> None:
        """Makes the votes of all teachers of a shape; the attributes explain the other arguments."""
        self.signed_coins = signed_coins
        self.teachers_per_canary = teachers_per_canary
        self.num_teachers = shape.num_teachers
        self.num_queries = shape.num_queries
        self.num_labels = shape.num_labels
        self.num_other_teachers = shape.num_teachers - teachers_per_canary * len(signed_coins)
        self.side_of_label = np.zeros(shape.num_labels, dtype=np.int64)
        self.votes_of_others = np.zeros(shape.num_labels, dtype=np.int64)
        self.side_of_label[: len(vote_pattern.side_of_label)] = vote_pattern.side_of_label
        self.votes_of_others[: len(vote_pattern.votes_of_others)] = vote_pattern.votes_of_others
        self.by_bit = vote_pattern.is_by_bit

    def bits(self) -> Iterator[BoolArray]:
        """Yields the votes of all teachers in blocks of c teachers, bool `[c, Q, L]`.

        Canaries come first; the votes of each are repeated for `teachers_per_canary` teachers.
        """
        for start in range(0, len(self.signed_coins), _BLOCK_SIZE):
            coins_of_block = self.signed_coins[start : start + _BLOCK_SIZE]
            yield self._votes_by(voting_signs=coins_of_block).repeat(
                self.teachers_per_canary, axis=0
            )
        # Each other teacher has a position, and those with small positions vote for a label. The positions move on from
        # query to query, so that no teacher always votes alike.
        signs_per_canary = self.signed_coins.shape[1]
        position_shifts = 7 * np.arange(signs_per_canary)
        for start in range(0, self.num_other_teachers, _BLOCK_SIZE):
            teacher_indices = np.arange(start, min(start + _BLOCK_SIZE, self.num_other_teachers))
            positions = (teacher_indices[:, None] + position_shifts) % self.num_other_teachers
            if self.by_bit:
                teacher_signs = np.where(positions < self.num_other_teachers // 2, 1, -1).astype(
                    np.int8
                )
                yield self._votes_by(voting_signs=teacher_signs)
            else:
                # The votes for one side begin at the first position, and those for the other side at the last one. So
                # no teacher votes for both sides of a pattern of two sets.
                positions_by_label = positions[:, :, None]
                reversed_positions = self.num_other_teachers - 1 - positions_by_label
                positions_of_side = np.where(
                    self.side_of_label < 0, reversed_positions, positions_by_label
                )
                yield np.asarray(positions_of_side < self.votes_of_others)

    def label_shares(self) -> FloatArray:
        """Returns the fraction of queries in which each of N teachers votes for each label, `[N, L]`."""
        query_axis = 1
        shares = [block_of_teachers.mean(axis=query_axis) for block_of_teachers in self.bits()]
        return np.concatenate(shares)

    def _votes_by(self, voting_signs: Signs) -> BoolArray:
        """Returns the votes of c teachers, bool `[c, Q, L]`, from the signs by which they vote.

        A teacher votes for the labels whose side in the pattern is its sign in the query. If there is a sign for each
        label (`VotePattern.is_by_bit`), a teacher votes for the labels whose sign is 1.

        Args:
            voting_signs: the sign by which each teacher votes, 1 or -1: `[c, Q]`, or `[c, Q * L]` if there is one for
                each label. That of a canary is its coin times its sign.
        """
        if self.by_bit:
            teacher_signs_by_label = voting_signs.reshape(-1, self.num_queries, self.num_labels)
            return np.asarray(teacher_signs_by_label > 0)
        return np.asarray(voting_signs[:, :, None] * self.side_of_label > 0)

    def _counted(self, max_votes: int | None) -> IntArray:
        """Returns the number of teachers that vote for each label of each query, `[Q, L]`, by a closed formula.

        The limit `max_votes` on the votes of a teacher is ignored, as no teacher of a `VotePattern` votes for more
        labels than the aggregator counts.
        """
        num_positive_canaries = (self.signed_coins > 0).sum(axis=0)
        if self.by_bit:
            counts = self.num_other_teachers // 2 + self.teachers_per_canary * num_positive_canaries
            return np.asarray(counts.reshape(self.num_queries, self.num_labels))
        num_negative_canaries = len(self.signed_coins) - num_positive_canaries
        canary_votes = np.where(
            self.side_of_label > 0, num_positive_canaries[:, None], num_negative_canaries[:, None]
        )
        canary_votes = canary_votes * (self.side_of_label != 0)
        return np.asarray(self.votes_of_others + self.teachers_per_canary * canary_votes)


@dataclass(frozen=True, eq=False, kw_only=True)  # == of arrays is an array
class TeacherAttack:
    """An attack that guesses the coins of canary teachers from a release of artificial votes.

    Each query of the release has F features, which are weighted and added up. A canary's guess is the sign of the sum
    of these numbers over the queries, each times the canary's sign in the query.

    Attributes:
        aggregator: draws the release.
        shape: the numbers of queries, labels and teachers of the release.
        num_canaries: the number m of canaries, at most an eighth of the teachers.
        teachers_per_canary: the number of teachers that vote like each canary. The price is for a change of one
            teacher, so a number above 1 may cost more than the price, which is meant as a test of the attack.
        vote_pattern: the pattern of the votes.
        guess_weights: the weight of each feature in the guess, fitted to releases that the attacker simulates, `[F]`.
        squared_signal_to_noise: the squared ratio of signal to noise in the guess about one coin, estimated from
            simulated releases.
    """

    aggregator: Aggregator
    shape: VoteShape
    num_canaries: int
    teachers_per_canary: int = 1
    vote_pattern: VotePattern
    guess_weights: FloatArray
    squared_signal_to_noise: float = 0.0

    @classmethod
    def rehearse(
        cls,
        aggregator: Aggregator,
        *,
        shape: VoteShape,
        canary_counts: Sequence[int],
        teachers_per_canary: int,
        rng: np.random.Generator,
    ) -> TeacherAttack:
        """Returns the attack with the pattern of votes and the number of canaries whose guesses are best.

        Each pair of a pattern and a number is tried in simulated releases, which give it a score, the attribute
        `squared_signal_to_noise`. Larger numbers are tried first. A smaller number of canaries is chosen only if its
        score is more than 1.25 times that of the attack chosen so far.

        Args:
            aggregator: draws the release.
            shape: the numbers of queries, labels and teachers of the release.
            canary_counts: the numbers of canaries to try, the largest first.
            teachers_per_canary: the number of teachers that vote like each canary. The price is for a change of one
                teacher, so a number above 1 may cost more than the price, which is meant as a test of the attack.
            rng: draws coins and noise of the simulated releases.

        Raises:
            InvalidValue: there is no pattern in which canaries decide an answer, because every answer names all labels.
        """
        chosen_attack: TeacherAttack | None = None
        for num_canaries in canary_counts:
            num_other_teachers = shape.num_teachers - teachers_per_canary * num_canaries
            rehearsals = []
            for vote_pattern in _vote_patterns(
                aggregator, vote_shape=shape, num_other_teachers=num_other_teachers
            ):
                unfitted = cls(
                    aggregator=aggregator,
                    shape=shape,
                    num_canaries=num_canaries,
                    teachers_per_canary=teachers_per_canary,
                    guess_weights=np.empty(0),
                    vote_pattern=vote_pattern,
                )
                rehearsals.append(unfitted._fit_weights(min_queries=_NUM_QUERIES, rng=rng))
            if not rehearsals:
                rule = "more labels than an answer names, for canaries to decide"
                raise InvalidValue("num_labels", shape.num_labels, rule=rule)
            best_attack = max(rehearsals, key=attrgetter("squared_signal_to_noise"))
            best_attack = best_attack._fit_weights(min_queries=_NUM_FINAL_QUERIES, rng=rng)
            if (
                chosen_attack is None
                or best_attack.squared_signal_to_noise
                > _MIN_SCORE_RATIO * chosen_attack.squared_signal_to_noise
            ):
                chosen_attack = best_attack
        return cast(TeacherAttack, chosen_attack)

    def _fit_weights(self, *, min_queries: int, rng: np.random.Generator) -> TeacherAttack:
        """Returns the attack with weights and a score that are fitted to simulated releases, whose coins are all 1.

        The weights are the least-squares fit of the sum of all canaries' signs in a query by the features of the query.

        Args:
            min_queries: the smallest number of queries to simulate; of labels if canaries have a sign for each label.
            rng: draws signs and noise.
        """
        query_feature_blocks: list[FloatArray] = []
        vote_sign_sum_blocks: list[FloatArray] = []
        num_queries = 0
        while num_queries < min_queries:
            canary_vote_signs = self._draw_signs(rng)
            query_features_of_release = self._features(canary_vote_signs, rng=rng)
            query_feature_blocks.append(query_features_of_release)
            vote_sign_sum_blocks.append(canary_vote_signs.sum(axis=0, dtype=np.float64))
            num_queries += len(query_features_of_release)
        query_features = np.concatenate(query_feature_blocks)
        vote_sign_sums = np.concatenate(vote_sign_sum_blocks)
        guess_weights = np.asarray(
            np.linalg.lstsq(query_features, vote_sign_sums, rcond=1e-9)[0], np.float64
        )
        # The fraction of the variance that is explained, less the fraction that as many features explain by chance.
        explained = float(((query_features @ guess_weights) ** 2).sum() / (vote_sign_sums**2).sum())
        explained_by_chance = np.count_nonzero(query_features.any(axis=0)) / len(query_features)
        queries_per_release = len(query_features) / len(query_feature_blocks)
        squared_signal_to_noise = (
            (explained - explained_by_chance) * queries_per_release / self.num_canaries
        )
        return replace(
            self, guess_weights=guess_weights, squared_signal_to_noise=squared_signal_to_noise
        )

    def guess(self, coin_signs: Signs, *, rng: np.random.Generator) -> FloatArray:
        """Draws a release and returns a score for each canary, `[m]`: its sign is the guess, its size the confidence.

        Args:
            coin_signs: the coin of each canary, 1 or -1, `[m]`, by which the canaries vote.
            rng: draws the signs of the canaries and the noise.
        """
        canary_vote_signs = self._draw_signs(rng)
        signed_coins = canary_vote_signs * coin_signs[:, None]
        query_features = self._features(signed_coins, rng=rng)
        query_scores = query_features @ self.guess_weights
        return np.asarray(canary_vote_signs.astype(np.float64) @ query_scores)

    def _draw_signs(self, rng: np.random.Generator) -> Signs:
        """Draws the signs of all canaries, 1 or -1: for each query, `[m, Q]`, or for each label, `[m, Q * L]`."""
        signs_per_canary = self.shape.num_queries
        if self.vote_pattern.is_by_bit:
            signs_per_canary = self.shape.num_queries * self.shape.num_labels
        size = (self.num_canaries, signs_per_canary)
        bits = rng.integers(low=0, high=2, size=size, dtype=np.int8)
        return (2 * bits - 1).astype(np.int8)

    def _features(self, signed_coins: Signs, *, rng: np.random.Generator) -> FloatArray:
        """Draws a release of artificial votes and returns the features of each query, `[Q, F]`.

        The features of a query are its released bits or scores for the labels in `VotePattern.votes_of_others`, the sum
        of those for the other labels, whether the query was answered, and whether it was a hit. Hits count towards the
        halt of a session. From each feature its mean over all queries before the halt is subtracted, and all features
        are 0 for queries after the halt. If canaries have a sign for each label (`VotePattern.is_by_bit`), the result
        is the released bit or score of each label of each query, less the mean: `[Q * L, 1]`.

        Args:
            signed_coins: the coin times the sign of each canary, see `PatternVotes`.
            rng: draws the noise.
        """
        vote_source = PatternVotes(
            self.vote_pattern,
            signed_coins,
            teachers_per_canary=self.teachers_per_canary,
            shape=self.shape,
        )
        expected_labels = np.minimum.accumulate(vote_source.side_of_label) > 0

        def predict_fixed_labels(
            labels: BoolArray, answered: BoolArray, num_queries: int
        ) -> BoolArray:
            """Returns the same prediction for each query: the labels in front of the first one whose side is not 1."""
            return np.broadcast_to(expected_labels, (num_queries, len(expected_labels)))

        aggregator = self.aggregator.with_prior(predict_fixed_labels)
        release = aggregator.release(vote_source, rng=rng, record=MemoryRecord())
        released_values = np.asarray(getattr(release, "scores", release.labels), dtype=np.float64)
        if vote_source.by_bit:
            return np.asarray(released_values.reshape(-1, 1) - released_values.mean())
        num_pattern_labels = len(self.vote_pattern.votes_of_others)
        sum_of_other_labels = released_values[:, num_pattern_labels:].sum(axis=1)
        is_session_hit = getattr(release, "hits", np.zeros(len(released_values)))
        query_features = np.column_stack(
            [
                released_values[:, :num_pattern_labels],
                sum_of_other_labels,
                release.answered,
                is_session_hit,
            ]
        ).astype(np.float64)
        num_asked = getattr(release, "num_asked", len(query_features))
        is_asked = np.arange(len(query_features)) < num_asked
        centered_query_features = query_features - query_features[is_asked].mean(axis=0)
        return np.asarray(centered_query_features * is_asked[:, None])


def _vote_patterns(
    aggregator: Aggregator, *, vote_shape: VoteShape, num_other_teachers: int
) -> Iterator[VotePattern]:
    """Yields the patterns of votes that an attack tries, in which no teacher votes for more labels than are counted.

    Fewer patterns are tried for an aggregator that reads the votes of each teacher, because it is slow.

    Args:
        aggregator: draws the release.
        vote_shape: the numbers of queries, labels and teachers of the release.
        num_other_teachers: the number of teachers that are no canaries.
    """
    num_labels = vote_shape.num_labels
    max_votes = aggregator.max_votes_per_teacher or num_labels
    may_vote_for_all = max_votes >= num_labels
    if may_vote_for_all and aggregator.exact_labels is None:
        yield VotePattern()
    numbers_of_labels_per_count = (
        _LABELS_PER_COUNT if aggregator.exact_labels is None else (aggregator.exact_labels,)
    )
    gap_shares = _GAP_SHARES_OF_TEACHERS if aggregator.reads_counts else _FEW_GAP_SHARES_OF_TEACHERS
    for labels_per_count in numbers_of_labels_per_count:
        for gap_share in gap_shares:
            gap = round(gap_share * num_other_teachers)
            if labels_per_count <= max_votes and 2 * labels_per_count <= num_labels:
                yield _pattern_of_two_sets(
                    labels_per_count=labels_per_count,
                    gap=gap,
                    num_other_teachers=num_other_teachers,
                )
            if not aggregator.reads_counts or not may_vote_for_all:
                continue
            for num_gaps in _NUMBERS_OF_GAPS:
                if (
                    labels_per_count * num_gaps < num_labels
                    and gap * num_gaps <= num_other_teachers
                ):
                    yield _pattern_of_falling_counts(
                        labels_per_count=labels_per_count,
                        gap=gap,
                        num_gaps=num_gaps,
                        num_labels=num_labels,
                    )


def _pattern_of_two_sets(
    *, labels_per_count: int, gap: int, num_other_teachers: int
) -> VotePattern:
    """Returns a pattern of two sets of labels, for one of which each teacher votes.

    Canaries vote by coin and sign. Of all other teachers, a fixed number votes for each set.

    Args:
        labels_per_count: the number of labels in each set, which share a count.
        gap: the number of votes of other teachers by which each label of the first set is ahead; less by one where the
            sum of `gap` and `num_other_teachers` is odd.
        num_other_teachers: the number of teachers that are no canaries.
    """
    first_count = (num_other_teachers + gap) // 2
    second_count = num_other_teachers - first_count
    return VotePattern(
        side_of_label=(1,) * labels_per_count + (-1,) * labels_per_count,
        votes_of_others=(first_count,) * labels_per_count + (second_count,) * labels_per_count,
    )


def _pattern_of_falling_counts(
    *, labels_per_count: int, gap: int, num_gaps: int, num_labels: int
) -> VotePattern:
    """Returns a pattern of counts that fall in equal steps, a gap each, from the first label on.

    A canary votes for the labels of every second count, or for all other labels.

    Args:
        labels_per_count: the number of labels that share a count.
        gap: the number of votes between neighboring counts.
        num_gaps: the number of gaps; the labels below the last gap get no votes of other teachers.
        num_labels: the number of labels.
    """
    ranks = [min(label // labels_per_count, num_gaps) for label in range(num_labels)]
    return VotePattern(
        side_of_label=tuple(1 if rank % 2 == 0 else -1 for rank in ranks),
        votes_of_others=tuple(gap * (num_gaps - rank) for rank in ranks if rank < num_gaps),
    )
