"""An attack on `CenteredVotes`, with canaries that are private records.

A release in rounds asks a question in each round, the public student and the clip of votes on its errors. It publishes
the sum of all votes with noise (`pate.votes`). The attacker subtracts the votes of all known records from the sum, and
compares the rest with the votes of the canaries.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from pate.aggregators import CenteredVotes
from pate.aggregators.record import MemoryRecord
from pate.array_types import Float32Array, FloatArray, IntArray
from pate.auditing.attack.aligned_sums import CoinEvidence
from pate.data import Dataset, Split
from pate.models.kernel_votes import KernelVotes
from pate.validation import InvalidValue
from pate.votes.label_gaps import UNKNOWN, GapLabels, labels_with_gaps
from pate.votes.moment_votes import MomentVotes
from pate.votes.round_votes import RoundQuestion

# The type of coins and signs, 1 or -1 each.
Signs = NDArray[np.int8]
# With `sabotage="clip"`, votes are clipped at so many times the promised clip, a power of 2.
_WIDE_CLIP_FACTOR = 16
# The smallest and largest probability of a canary's labels to have their rarer value. With few rare values, canaries
# are alike; with many, their votes are clipped.
_MIN_RARER_SHARE = 0.1
_MAX_RARER_SHARE = 0.8
# The standard deviation that a sum counts as having if it is released without noise, as a share of a canary's length.
_EXACT_STD = 1e-3


def draw_signs(rng: np.random.Generator, *, size: int) -> Signs:
    """Draws fair coins or signs, 1 or -1 each, `[size]`."""
    return (2 * rng.integers(low=0, high=2, size=size) - 1).astype(np.int8)


@dataclass(frozen=True, eq=False)  # == of arrays is an array
class AttackRound:
    """One round of a release of centered votes: the sum of all votes before and after noise is added.

    Sums are whole multiples of a step, the unit to which votes are rounded. In shapes, D is the number of features of a
    record, and L the number of labels.

    Attributes:
        question: what teachers vote on in the round: the public student, and the clip of their votes.
        exact_sum: the sum of the votes before noise, in steps, `[D, L]`.
        released_sum: the sum after noise is added, in steps, `[D, L]`.
        noise_std: the standard deviation of the noise, in steps.
    """

    question: RoundQuestion
    exact_sum: IntArray
    released_sum: IntArray
    noise_std: float


class _RecordedVotes(MomentVotes):
    """Votes in rounds that record the public question and the exact sum of each round.

    Votes are clipped at `clip_factor` times the clip that the noise is for. A factor above 1 breaks the release on
    purpose.
    """

    def __init__(self, clip_factor: int, **moment_votes_arguments: Any) -> None:
        """Makes the votes from the arguments of `MomentVotes`, with `clip_factor` times the clip of each round."""
        super().__init__(**moment_votes_arguments)
        self.clip_factor = clip_factor
        self.recorded: list[tuple[RoundQuestion, IntArray]] = []

    def total(self, question: RoundQuestion) -> IntArray:
        """Returns the exact sum of the votes of a round, `[D, L]`, in steps, and records it with the question."""
        exact_sum = self.clip_factor * super().total(self._with_wider_clip(question))
        self.recorded.append((question, exact_sum))
        return exact_sum

    def moved(
        self, inputs: Float32Array, labels: GapLabels, question: RoundQuestion
    ) -> tuple[FloatArray, FloatArray]:
        """Returns two factors of the clipped votes of m records in a round, `[m, D]` and `[m, L]`.

        A record adds the outer product of its two rows, a matrix `[D, L]`, to the sum of the round, which is in steps.
        The rows are its features, and its labels less the student's probabilities of them, scaled and clipped.
        """
        question_with_wider_clip = self._with_wider_clip(question)
        features, residuals = self.record_factors(
            inputs, labels=labels, question=question_with_wider_clip
        )
        return features, self.clip_factor * residuals

    def _with_wider_clip(self, question: RoundQuestion) -> RoundQuestion:
        """Returns the question of a round with its clip, the largest length of a vote, multiplied by `clip_factor`."""
        moment_clipping = question.moment_clipping
        return replace(
            question,
            moment_clipping=replace(moment_clipping, clip=self.clip_factor * moment_clipping.clip),
        )


@dataclass(frozen=True, eq=False)  # compared by identity, as its parts are
class RecordAttack:
    """An attack that guesses, from all released sums, which of two canary records replaces each of m private groups.

    The first variant of a canary has the inputs of a public record. The second variant has these inputs mirrored at the
    mean of the public records. Both variants have the same labels. A label of a canary has the rarer one of its two
    values with a probability between 10% and 80%, which is drawn for each canary. The attacker knows all other records,
    both variants of each canary, and all released sums.

    Where some labels of private records are unknown, both variants have the same inputs. They differ only in which of
    the labels are known: each label is known in one of the two variants, which a fair coin chooses.

    Attributes:
        aggregator: draws the release.
        dataset: the data set, in which canaries replace private groups.
        num_canaries: the number m of groups that canaries replace.
        num_queries: the number of queries.
        sabotage: the part that is broken on purpose; None for none. With "features", features are fitted on the private
            records, canaries included. With "clip", votes are clipped at a larger norm. With "seed", a second release
            of known records has the same noise.
    """

    aggregator: CenteredVotes
    dataset: Dataset
    num_canaries: int
    num_queries: int
    sabotage: str | None = None

    def __post_init__(self) -> None:
        if self.dataset.kind != "features":
            rule = "features, such as features=patches gives"
            raise InvalidValue("data", self.dataset.kind, rule=rule)
        if self.dataset.private.known is not None and self.sabotage == "features":
            rule = "noise, clip, charge or seed: where labels have gaps, canaries differ in these alone"
            raise InvalidValue("sabotage", self.sabotage, rule=rule)

    def draw_canaries(self, rng: np.random.Generator) -> Canaries:
        """Draws both variants of each canary, and the private group that the canary replaces."""
        return Canaries.draw(self.dataset, num_canaries=self.num_canaries, rng=rng)

    def draw_evidence(
        self, canaries: Canaries, *, coin_signs: Signs, rng: np.random.Generator
    ) -> list[CoinEvidence]:
        """Draws a release with canaries, and returns what the sum of each round tells about the coins.

        With the sabotage "features", the result also has the sum of the private inputs. With "seed", it has the first
        round alone, from which a second release with the same noise is subtracted.

        Args:
            canaries: both variants of each canary.
            coin_signs: the coin of each canary, `[m]`: 1 for the first variant, -1 for the second.
            rng: draws the noise.
        """
        noise_seed = int(rng.integers(2**63))
        votes, rounds = self._draw_release(
            private=canaries.records_with_canaries(self.dataset, coin_signs=coin_signs),
            noise_seed=noise_seed,
        )
        if self.sabotage == "seed":
            return [
                self._sum_by_same_noise(
                    canaries, votes=votes, first_round=rounds[0], noise_seed=noise_seed
                )
            ]
        evidence_of_sums: list[CoinEvidence] = []
        for attack_round in rounds:
            question = attack_round.question
            features, residuals = votes.moved(
                canaries.inputs_by(coin_signs),
                labels=canaries.labels_by(coin_signs),
                question=question,
            )
            known_sum = attack_round.exact_sum - features.T @ residuals
            coin_evidence = canaries.evidence(
                votes,
                question=question,
                remaining_sum=attack_round.released_sum - known_sum,
                noise_std=attack_round.noise_std,
            )
            evidence_of_sums.append(coin_evidence)
        if self.sabotage == "features":
            # The sum of the private records' inputs is published without noise, and contains the canaries.
            input_moves = (canaries.inputs - canaries.mirrored_inputs).astype(np.float64) / 2
            noise_std_of_inputs = _EXACT_STD * float(np.linalg.norm(input_moves, axis=1).mean())
            canary_gram = input_moves @ input_moves.T / noise_std_of_inputs**2
            canary_products_with_sum = (
                input_moves @ (coin_signs @ input_moves) / noise_std_of_inputs**2
            )
            evidence_of_sums.append(
                CoinEvidence(
                    canary_gram=canary_gram, canary_products_with_sum=canary_products_with_sum
                )
            )
        return evidence_of_sums

    def _sum_by_same_noise(
        self,
        canaries: Canaries,
        *,
        votes: _RecordedVotes,
        first_round: AttackRound,
        noise_seed: int,
    ) -> CoinEvidence:
        """Draws a second release with the same noise and known canaries, and returns what both tell about the coins.

        All coins of the second release are 1. The sums of the first rounds of both releases have a difference without
        noise.

        Args:
            canaries: both variants of each canary.
            votes: the votes of the first release.
            first_round: the first round of the first release.
            noise_seed: the seed of the noise of both releases.
        """
        all_positive_signs = np.ones(len(canaries.rows), dtype=np.int8)
        _, known_rounds = self._draw_release(
            private=canaries.records_with_canaries(self.dataset, coin_signs=all_positive_signs),
            noise_seed=noise_seed,
        )
        features, residuals = votes.moved(
            canaries.inputs, labels=canaries.labels, question=first_round.question
        )
        difference = first_round.released_sum - known_rounds[0].released_sum
        return canaries.evidence(
            votes,
            question=first_round.question,
            remaining_sum=difference + features.T @ residuals,
            noise_std=0.0,
        )

    def _draw_release(
        self, private: Split, *, noise_seed: int
    ) -> tuple[_RecordedVotes, list[AttackRound]]:
        """Draws a release of centered votes from private records, and returns the votes and all rounds.

        Args:
            private: the private records, canaries included.
            noise_seed: the seed of the noise.
        """
        groups, teacher_of = np.unique(private.group_ids, return_inverse=True)
        aggregator = self.aggregator
        memory_record = MemoryRecord()
        clip_factor = _WIDE_CLIP_FACTOR if self.sabotage == "clip" else 1
        vote_source = KernelVotes(
            private_split=private,
            teacher_of=teacher_of.astype(np.int64),
            num_teachers=len(groups),
            public_split=private if self.sabotage == "features" else self.dataset.public,
            num_queries=self.num_queries,
            make_moment_votes=partial(_RecordedVotes, clip_factor),
        )
        aggregator.release(vote_source, rng=np.random.default_rng(noise_seed), record=memory_record)
        votes = cast(
            _RecordedVotes,
            vote_source.in_rounds(
                noise_multiplier=aggregator.votes_multiplier, recipe=aggregator.recipe
            ),
        )
        if not votes.recorded:
            raise InvalidValue("aggregator.rounds", aggregator.rounds, rule="a release in rounds")
        round_multiplier = aggregator.votes_multiplier * math.sqrt(aggregator.num_rounds)
        rounds: list[AttackRound] = []
        for number, (question, exact_sum) in enumerate(votes.recorded):
            part_name = f"step-{number}"
            released_part = memory_record.committed(part_name) or {}
            attack_round = AttackRound(
                question=question,
                exact_sum=exact_sum,
                released_sum=released_part["total"],
                noise_std=round_multiplier * question.moment_clipping.l2_sensitivity,
            )
            rounds.append(attack_round)
        return votes, rounds


@dataclass(frozen=True, eq=False)  # == of arrays is an array
class Canaries:
    """The m canary records, each of which replaces one group of private records.

    Attributes:
        rows: a row of the private split for each canary, from the group that it replaces, `[m]`.
        remaining_rows: `rows`, and all rows of groups that are not replaced.
        inputs: the inputs of the first variants, which are those of public records, `[m, d]`.
        mirrored_inputs: the inputs of the second variants, `[m, d]`: mirrored at the mean of all public records, or
            equal to `inputs` if some labels of private records are unknown.
        labels: the labels of the first variants, `[m, L]`, of which some may be unknown.
        other_labels: the labels of the second variants, `[m, L]`: equal to `labels`, except in
            which of them are known.
    """

    rows: IntArray
    remaining_rows: IntArray
    inputs: Float32Array
    mirrored_inputs: Float32Array
    labels: GapLabels
    other_labels: GapLabels

    @classmethod
    def draw(cls, dataset: Dataset, *, num_canaries: int, rng: np.random.Generator) -> Canaries:
        """Draws canaries, and for each canary the private group that it replaces; all these groups differ."""
        private = dataset.private
        public_inputs = np.asarray(dataset.public.inputs)
        groups, first_rows, group_of_row = np.unique(
            private.group_ids, return_index=True, return_inverse=True
        )
        replaced_groups = rng.choice(len(groups), size=num_canaries, replace=False)
        # A canary takes the first row of its group, and the other rows of the group are removed.
        canary_rows = first_rows[replaced_groups]
        is_removed = np.isin(group_of_row, replaced_groups)
        is_removed[canary_rows] = False
        public_rows = rng.choice(
            len(public_inputs), size=num_canaries, replace=num_canaries > len(public_inputs)
        )
        inputs = public_inputs[public_rows]
        mirrored_inputs = (2 * public_inputs.mean(axis=0, dtype=np.float64) - inputs).astype(
            np.float32
        )
        rarer_label_values = private.label_shares < 0.5
        has_common_value = rng.random((num_canaries, len(rarer_label_values))) >= rng.uniform(
            _MIN_RARER_SHARE, _MAX_RARER_SHARE, size=(num_canaries, 1)
        )
        labels = rarer_label_values ^ has_common_value
        first_labels: GapLabels = labels
        other_labels: GapLabels = labels
        if private.known is not None:
            known_mask_of_first_variant = rng.random(labels.shape) < 0.5
            first_labels = labels_with_gaps(labels, known_label_mask=known_mask_of_first_variant)
            other_labels = labels_with_gaps(labels, known_label_mask=~known_mask_of_first_variant)
            mirrored_inputs = inputs
        return cls(
            rows=canary_rows,
            remaining_rows=np.flatnonzero(~is_removed),
            inputs=inputs,
            mirrored_inputs=mirrored_inputs,
            labels=first_labels,
            other_labels=other_labels,
        )

    def records_with_canaries(self, dataset: Dataset, *, coin_signs: Signs) -> Split:
        """Returns the private records after each canary has replaced a group, in the variant that its coin chooses.

        A canary is one record, so all but one row of the replaced groups are left out.
        """
        private = dataset.private
        inputs = np.array(private.inputs)
        labels = private.labels.copy()
        inputs[self.rows] = self.inputs_by(coin_signs)
        canary_labels = self.labels_by(coin_signs)
        labels[self.rows] = canary_labels > 0
        known = private.known
        if known is not None:
            known = known.copy()
            known[self.rows] = canary_labels != UNKNOWN
        planted_records = replace(private, inputs=inputs, labels=labels, known=known)
        return planted_records.take(self.remaining_rows)

    def inputs_by(self, coin_signs: Signs) -> Float32Array:
        """Returns the inputs of the canaries, `[m, d]`: `inputs` for a coin of 1, `mirrored_inputs` for -1."""
        return np.where((coin_signs > 0)[:, None], self.inputs, self.mirrored_inputs)

    def labels_by(self, coin_signs: Signs) -> GapLabels:
        """Returns the labels of the canaries, `[m, L]`: `labels` for a coin of 1, `other_labels` for -1."""
        return np.where((coin_signs > 0)[:, None], self.labels, self.other_labels)

    def evidence(
        self,
        votes: _RecordedVotes,
        *,
        question: RoundQuestion,
        remaining_sum: FloatArray | IntArray,
        noise_std: float,
    ) -> CoinEvidence:
        """Returns what the noisy sum of one round tells about the coins.

        The coin of a canary adds a known matrix `[D, L]` to the sum or subtracts it.

        Args:
            votes: the votes of the release.
            question: the question of the round.
            remaining_sum: the noisy sum, less the votes of all records that are no canaries, `[D, L]`, in steps.
            noise_std: the standard deviation of the noise, in steps; 0 for a sum without noise.
        """
        # Canary j adds f_j r_j' to the sum by its first variant, and g_j s_j' by its second variant. Here f_j and r_j
        # are rows of `features` and `residuals`, and g_j and s_j those of the other two arrays. So the sum is the mean
        # of both, and the coin times the matrix (f_j r_j' - g_j s_j') / 2.
        features, residuals = votes.moved(self.inputs, labels=self.labels, question=question)
        other_features, other_residuals = votes.moved(
            self.mirrored_inputs, labels=self.other_labels, question=question
        )
        mean_canary_sum = (features.T @ residuals + other_features.T @ other_residuals) / 2
        centered_sum = remaining_sum - mean_canary_sum
        canary_gram = (
            (features @ features.T) * (residuals @ residuals.T)
            + (other_features @ other_features.T) * (other_residuals @ other_residuals.T)
            - (features @ other_features.T) * (residuals @ other_residuals.T)
            - (other_features @ features.T) * (other_residuals @ residuals.T)
        ) / 4
        canary_products_with_sum = (
            np.einsum("ij,ij->i", features @ centered_sum, residuals)
            - np.einsum("ij,ij->i", other_features @ centered_sum, other_residuals)
        ) / 2
        variance = noise_std**2
        if variance == 0:
            variance = _EXACT_STD**2 * float(canary_gram.diagonal().mean())
        return CoinEvidence(
            canary_gram=canary_gram / variance,
            canary_products_with_sum=canary_products_with_sum / variance,
        )
