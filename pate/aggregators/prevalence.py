"""The prevalence: the mean over teachers of their label frequencies, released as the center of their votes.

Each teacher has a vector of label shares, `[num_labels]`: the share of its records with each label. The mean of these
vectors gets noise in proportion to the clip of a vector's length. A vector of 40 shares may be sqrt(40) long, and
usually is much shorter, so the noise should fit the usual length. The release therefore has three steps, and the clip
of a step is computed from the release of the step before (the idea of CoinPress):

1. the most common length of a vector, by noisy counts of teachers;
2. a first mean of the vectors, each clipped to that length;
3. a second mean, of the vectors minus the first mean. These differences are shorter, so less noise is needed. Their
   clip balances noise against bias. It is chosen on simulated teachers, whose labels are drawn by the first mean.

Where labels of records may be unknown, the vector of a teacher also has its known shares: the share of its records for
which each label is known. One release then has two noisy sums for each label, and the prevalence is their ratio.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from pate.accounting import Adjacency, GaussianEvent, Ledger
from pate.accounting.ledger import require_ledger
from pate.accounting.rounding import floor_to_digits
from pate.aggregators.aggregator import Rng
from pate.aggregators.record import Arrays, MemoryRecord, ReleaseRecord
from pate.array_types import FloatArray
from pate.mechanisms.noise.rounded_gaussian import LARGEST_STD, RoundedGaussian
from pate.mechanisms.parameters import POSITIVE, Parameters
from pate.validation import (
    InvalidValue,
    require,
    require_generator,
    require_positive,
)
from pate.votes.clipping import ClippedSum
from pate.votes.label_shares import KNOWN_WEIGHT, NUM_LENGTH_CLASSES, ShareSums, TeacherShares
from pate.votes.recipe import DEFAULT_RECIPE, Recipe

# Known shares are raised to this share of the records. Labels that are known less often are learned more slowly.
_MIN_KNOWN_SHARE = 1e-3
# The simulation that chooses the last clip has so many teachers, or fewer so that there are at most so many shares.
_MAX_SIMULATED_TEACHERS = 4096
_MAX_SIMULATED_SHARES = 2**20
# Simulated teachers have at most so many records. Shares of more records hardly differ from these.
_MAX_SIMULATED_RECORDS = 2**20


@dataclass(frozen=True, eq=False)  # a generated __eq__ fails on arrays
class ReleasedShares:
    """The released prevalence of each label, and the released share of records for which it is known.

    Attributes:
        prevalence: float64 `[num_labels]`, the noisy share of records with each label among those for which it is
            known; a mean over teachers, whatever their numbers of records.
        known_shares: float64 `[num_labels]` in (0, 1], the share of records for which each label is known; None if
            labels have no gaps.
    """

    prevalence: FloatArray
    known_shares: FloatArray | None = None

    def arrays(self) -> Arrays:
        """Returns the arrays by their names in a record: `prevalence` and, if labels have gaps, `known`."""
        if self.known_shares is None:
            return {"prevalence": self.prevalence}
        return {"prevalence": self.prevalence, "known": self.known_shares}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """Returns the shares whose arrays a record holds; see `arrays`."""
        return cls(prevalence=arrays["prevalence"], known_shares=arrays.get("known"))


@dataclass(frozen=True, eq=False)  # a generated __eq__ fails on arrays
class _NoisyMean:
    """A released mean of clipped vectors of shares, with its noise.

    Attributes:
        shares: float64 `[num_entries]`, the noisy mean.
        noise_std: standard deviation of the noise in each share.
    """

    shares: FloatArray
    noise_std: float


@dataclass(frozen=True, eq=False)  # a generated __eq__ fails on arrays
class _SecondStep:
    """The center and the clip for the second mean, the last step, chosen by the error on simulated teachers.

    Attributes:
        center: float64 `[num_entries]`, the vector that is subtracted from shares before the clip.
        clip: the largest length of a difference.
        squared_error: the mean squared error of an entry of the second mean, as expected from simulated teachers.
    """

    center: FloatArray
    clip: float
    squared_error: float


@dataclass(frozen=True, kw_only=True)
class Prevalence(Parameters):
    """Releases the mean over teachers of their label frequencies, in three steps; a step sets the clip of the next one.

    Rule, where the shares of a teacher are the vector of its label frequencies:
        1. Release the most common length of the shares, by noisy counts of teachers. For L labels without gaps, a
           length is rounded up to sqrt(L) over a power of sqrt(2). Teachers without any label are not counted. Lengths
           too short for one label of one record are left out.
        2. Release a first mean of the shares, each clipped to that length. If that length is larger than any length
           that shares minus 1/2 can have, the shares minus 1/2 are averaged instead, and no clip is needed.
        3. Release a second mean, of the clipped differences between the shares and the first mean. A long clip needs
           much noise, and a short clip biases the mean. The clip with the least error on simulated teachers is taken.
           The labels of simulated records are drawn independently, with the first mean as their probabilities. Then the
           noise of the first mean is imitated: each share is moved up or down by one standard deviation of that noise.
           If no clip has a clearly smaller error, shares minus 1/2 are averaged.

    The second mean is the result. If the first mean was of shares minus 1/2, the result is the average of both means,
    weighted by the inverse of their squared errors. By default the result is cut to [0.005, 0.995].

    If labels have gaps (`ShareSums.have_gaps`), a teacher has two shares of its records for each label: of those known
    to have the label, and of those for which the label is known. All shares of a teacher are one vector, which takes
    the three steps. The known shares are then moved towards their mean, by the part of their variance that noise
    explains. The prevalence of a label is the ratio of its two shares. A change of the private data may replace both
    kinds of shares by any others, so the price also covers which labels are known.

    Formal guarantee: replacing one teacher changes at most two counts by 1, and a clipped sum by at most two clips.
    Adding or removing a teacher changes at most one count by 1, and a clipped sum by at most one clip, each plus
    rounding that the noise covers. Each step adds Gaussian noise to whole numbers, and its clip is computed from
    earlier steps. The three steps cost one Gaussian event: the values 1 / multiplier**2 of the steps add up to
    1 / noise_multiplier**2. A teacher of weight w (`ShareSums.weights`) changes everything by at most w times as much.
    `records_per_teacher` is public.

    Source: Biswas et al. 2020 (CoinPress) for the steps; docs/proofs/centered_votes.md.

    Attributes:
        noise_multiplier: standard deviation over sensitivity, for all steps together, > 0.
        adjacency: the adjacency of the aggregator.
        recipe: the tuned constants, among them the split of the budget among the steps and the least prevalence.
    """

    noise_multiplier: float = field(metadata=POSITIVE)
    adjacency: Adjacency = Adjacency.REPLACE_ONE
    recipe: Recipe = field(default=DEFAULT_RECIPE, repr=False)

    @property
    def event(self) -> GaussianEvent:
        """The price of all three steps (the counts of lengths and the two means) together, one Gaussian event."""
        return GaussianEvent.composed(self._multipliers_of_steps)

    def release(
        self,
        label_shares: Any,
        *,
        num_teachers: int,
        rng: Rng,
        ledger: Ledger | None = None,
        records_per_teacher: float = 1.0,
        record: ReleaseRecord | None = None,
    ) -> FloatArray:
        """Releases the prevalence of each label, float64 `[num_labels]`; see `release_shares` for the arguments."""
        return self.release_shares(
            label_shares,
            num_teachers=num_teachers,
            rng=rng,
            ledger=ledger,
            records_per_teacher=records_per_teacher,
            record=record,
        ).prevalence

    def release_shares(
        self,
        label_shares: Any,
        *,
        num_teachers: int,
        rng: Rng,
        ledger: Ledger | None = None,
        records_per_teacher: float = 1.0,
        record: ReleaseRecord | None = None,
    ) -> ReleasedShares:
        """Releases the prevalence of each label and, if labels have gaps, the share of records for which it is known.

        Args:
            label_shares: numbers in [0, 1], `[num_teachers, num_labels]`, the share of each teacher's records with each
                label; or a `ShareSums` that gives sums of them, which may have gaps.
            num_teachers: the declared number of teachers; under add/remove there may be fewer rows, unless teachers
                have weights.
            rng: the source of all noise.
            ledger: the ledger to charge before anything is drawn, if there is no `record`; None charges nothing.
            records_per_teacher: the approximate number of records of each teacher, public, >= 1.
            record: charges the price, and stores each of the three draws before the next step; None for a record in
                memory.
        """
        require_generator(rng)
        require_positive("records_per_teacher", records_per_teacher)
        is_at_least_one = records_per_teacher >= 1
        require(is_at_least_one, "records_per_teacher", records_per_teacher, "a number >= 1")
        share_sums_of_teachers = (
            label_shares if isinstance(label_shares, ShareSums) else TeacherShares(label_shares)
        )
        self._require_teachers(share_sums_of_teachers, num_teachers)
        self._require_exact_noise(
            num_entries=len(share_sums_of_teachers.largest_shares_of_a_teacher)
        )
        if record is None:
            if ledger is not None:
                require_ledger(ledger).charge(
                    self.event, adjacency=self.adjacency, description=repr(self)
                )
            record = MemoryRecord()
        steps = _Steps(
            multipliers=self._multipliers_of_steps,
            adjacency=self.adjacency,
            recipe=self.recipe,
            share_sums_of_teachers=share_sums_of_teachers,
            total_weight=num_teachers
            if share_sums_of_teachers.weights is None
            else share_sums_of_teachers.total_weight,
            records_per_teacher=records_per_teacher,
            rng=rng,
            record=record,
        )
        return steps.release()

    @property
    def last_multiplier(self) -> float:
        """The noise multiplier of the third step alone."""
        return self._multipliers_of_steps[-1]

    @property
    def _multipliers_of_steps(self) -> list[float]:
        """The noise multiplier of each step.

        The values 1 / multiplier**2 of the steps add up to 1 / noise_multiplier**2.
        """
        return [self.noise_multiplier / math.sqrt(share) for share in self.recipe.prevalence_split]

    def _require_teachers(self, share_sums_of_teachers: ShareSums, num_teachers: int) -> None:
        """Raises `InvalidValue` unless the shares are those of `num_teachers` teachers.

        Under add/remove they may be of fewer teachers, if teachers have no weights.
        """
        num_rows = share_sums_of_teachers.num_teachers
        may_be_fewer = (
            self.adjacency == Adjacency.ADD_REMOVE and share_sums_of_teachers.weights is None
        )
        fits = num_rows == num_teachers or (may_be_fewer and num_rows < num_teachers)
        require(fits, "num_teachers", num_teachers, f"{num_rows}, the shares' rows")

    def _require_exact_noise(self, num_entries: int) -> None:
        """Raises `InvalidValue` if some clip would make the noise of a mean too large to be drawn exactly.

        Args:
            num_entries: the length of a teacher's vector of shares.
        """
        # A clip has less than twice as many steps of its grid as the clip 1.
        clipping_mechanism = ClippedSum(
            clip=1.0, sum_shape=(1, num_entries), adjacency=self.adjacency
        )
        max_sensitivity_in_steps = 2 * clipping_mechanism.l2_sensitivity
        largest_multiplier = (
            LARGEST_STD
            / max_sensitivity_in_steps
            / max(self._multipliers_of_steps)
            * self.noise_multiplier
        )
        if self.noise_multiplier > largest_multiplier:
            rule = f"at most {floor_to_digits(largest_multiplier, num_digits=3)}"
            raise InvalidValue("noise_multiplier", self.noise_multiplier, rule=rule)


# A generated __eq__ would fail on the arrays in `share_sums_of_teachers`.
@dataclass(frozen=True, eq=False, kw_only=True)
class _Steps:
    """The computation of one release in three steps; see `Prevalence`.

    Attributes:
        multipliers: the noise multiplier of each step.
        adjacency: the adjacency of the aggregator.
        recipe: the tuned constants.
        share_sums_of_teachers: the private sums of label shares.
        total_weight: the sum of the teachers' weights; the declared number of teachers if they have none.
        records_per_teacher: the approximate number of records of each teacher.
        rng: the source of all noise.
        record: stores each draw.
    """

    multipliers: list[float]
    adjacency: Adjacency
    recipe: Recipe
    share_sums_of_teachers: ShareSums
    total_weight: float
    records_per_teacher: float
    rng: Rng
    record: ReleaseRecord

    def release(self) -> ReleasedShares:
        """Releases the prevalence of each label and, if labels have gaps, the share of records for which it is known.

        The three steps are a length and two means; each is stored in the record.
        """
        usual_length = self._release_length()
        middles_of_share_ranges, length_around_middle = self._middle()
        is_around_middle = length_around_middle < usual_length
        first_center = (
            middles_of_share_ranges if is_around_middle else np.zeros_like(middles_of_share_ranges)
        )
        first_noisy_mean = self._release_mean(
            step_number=1, center=first_center, teacher_clip=min(usual_length, length_around_middle)
        )
        second_step = self._second_step(first_noisy_mean)
        second_noisy_mean = self._release_mean(
            step_number=2, center=second_step.center, teacher_clip=second_step.clip
        )
        mean_share_vector = second_noisy_mean.shares
        if is_around_middle:
            # The average of both means, weighted by the inverse of their squared errors.
            both_errors = second_step.squared_error + first_noisy_mean.noise_std**2
            mean_share_vector += (
                (first_noisy_mean.shares - mean_share_vector)
                * second_step.squared_error
                / both_errors
            )
        floor = self.recipe.prevalence_floor
        if not self.share_sums_of_teachers.have_gaps:
            return ReleasedShares(prevalence=mean_share_vector.clip(floor, 1 - floor))
        label_shares, weighted_known_shares = np.split(mean_share_vector, 2)
        known_shares = _shrink_known_shares(
            weighted_known_shares / KNOWN_WEIGHT,
            noise_std=second_noisy_mean.noise_std / KNOWN_WEIGHT,
        )
        prevalence = (label_shares / known_shares).clip(floor, 1 - floor)
        return ReleasedShares(prevalence=prevalence, known_shares=known_shares)

    def _middle(self) -> tuple[FloatArray, float]:
        """Returns the middle of the range of each share, `[num_entries]`, and the largest l2 distance from these.

        The range of an entry is from 0 to its largest value, `ShareSums.largest_shares_of_a_teacher`. The distance is
        that of a teacher's whole vector of shares.
        """
        middles_of_share_ranges = 0.5 * self.share_sums_of_teachers.largest_shares_of_a_teacher
        return middles_of_share_ranges, float(np.linalg.norm(middles_of_share_ranges))

    def _release_length(self) -> float:
        """Releases the most common length of a teacher's vector of shares, by the largest of the noisy counts.

        Each length is rounded upwards to the next of the numbers a / 2**(i / 2), i = 0, 1, 2, …, where a is the largest
        possible length (`ShareSums.longest`). Noise is drawn for the count of teachers at each of these numbers.
        """
        longest = self.share_sums_of_teachers.longest
        # The shortest length is that of one label of one record. Teachers have up to twice the usual number of records,
        # unless each has a single one.
        usual_num_records = self.records_per_teacher
        max_num_records = usual_num_records if usual_num_records == 1 else 2 * usual_num_records
        shortest = (
            float(self.share_sums_of_teachers.largest_shares_of_a_teacher.min()) / max_num_records
        )
        last_power = math.ceil(2 * math.log2(longest / shortest))
        # Noise is drawn also if the part is read from the record, so that a seeded run that is continued draws the same
        # numbers in later parts.
        std_of_counts = (
            math.sqrt(self.adjacency.num_moved)
            * self.multipliers[0]
            * self.share_sums_of_teachers.parts_of_a_teacher
        )
        noise_in_counts = RoundedGaussian(std=std_of_counts).sample((NUM_LENGTH_CLASSES,), self.rng)

        def draw_part() -> Arrays:
            return {"noisy": self.share_sums_of_teachers.lengths() + noise_in_counts}

        noisy_num_teachers_by_length = self.record.part("lengths", draw_part)["noisy"]
        power_of_length = int(np.argmax(noisy_num_teachers_by_length[: 1 + last_power]))
        return longest / 2 ** (power_of_length / 2)

    def _release_mean(
        self, step_number: int, center: FloatArray, teacher_clip: float
    ) -> _NoisyMean:
        """Releases the mean of the shares minus a center, each difference clipped, plus the center.

        Args:
            step_number: 1 for the first mean and 2 for the second; 0 would be the length.
            center: `[num_entries]`, subtracted from the shares of each teacher.
            teacher_clip: the largest length of the difference of a teacher.
        """
        sum_shape = (1, len(self.share_sums_of_teachers.largest_shares_of_a_teacher))
        clipping_mechanism = ClippedSum(
            clip=teacher_clip, sum_shape=sum_shape, adjacency=self.adjacency
        )
        std_in_steps = self.multipliers[step_number] * clipping_mechanism.l2_sensitivity
        # Drawn also if the part is read from the record; see `_release_length`.
        noise_in_steps = RoundedGaussian(std=std_in_steps).sample(sum_shape, self.rng)

        def draw_part() -> Arrays:
            return {
                "noisy": self.share_sums_of_teachers.total(clipping_mechanism, center)
                + noise_in_steps
            }

        noisy_total = self.record.part(f"mean-{step_number}", draw_part)["noisy"]
        value_of_step = clipping_mechanism.step / self.total_weight
        mean_share_vector = np.asarray(center + noisy_total[0] * value_of_step)
        return _NoisyMean(shares=mean_share_vector, noise_std=std_in_steps * value_of_step)

    def _second_step(self, first_noisy_mean: _NoisyMean) -> _SecondStep:
        """Returns the center and the clip of the second mean, chosen by their errors on simulated teachers.

        The candidates are the first mean with each of several clips, and the center 1/2 with a clip that cuts nothing.
        The center 1/2 is taken if its error is below `Recipe.unbiased_error` times the least error of the others. No
        private data are read, as the first mean is released.
        """
        center = first_noisy_mean.shares.clip(
            0, self.share_sums_of_teachers.largest_shares_of_a_teacher
        )
        # Differences of simulated teachers, by the two signs s of the error of the center, teacher t and entry l.
        differences_by_sign_and_teacher = self._simulated_differences(
            center, noise_std=first_noisy_mean.noise_std
        )  # [2, T, L]
        lengths_by_sign_and_teacher = np.maximum(
            np.linalg.norm(differences_by_sign_and_teacher, axis=2), np.finfo(np.float64).tiny
        )
        candidate_clips = lengths_by_sign_and_teacher.max() / 2 ** (
            np.arange(2 * NUM_LENGTH_CLASSES) / 4
        )
        # The part of a difference that a clip cuts off, whose mean over the teachers is the bias of the clip.
        cut_parts = 1 - np.minimum(1, candidate_clips[:, None, None] / lengths_by_sign_and_teacher)
        biases_by_clip_sign_and_entry = (
            np.einsum("cst,stl->csl", cut_parts, differences_by_sign_and_teacher)
            / lengths_by_sign_and_teacher.shape[1]
        )
        noise_per_clip = self.adjacency.num_moved * self.multipliers[2] / self.total_weight
        squared_errors_of_clips = (biases_by_clip_sign_and_entry**2).mean(axis=(1, 2)) + (
            noise_per_clip * candidate_clips
        ) ** 2
        middles_of_share_ranges, length_around_middle = self._middle()
        squared_error_around_middle = (noise_per_clip * length_around_middle) ** 2
        if squared_error_around_middle < self.recipe.unbiased_error * squared_errors_of_clips.min():
            return _SecondStep(
                center=middles_of_share_ranges,
                clip=length_around_middle,
                squared_error=squared_error_around_middle,
            )
        best_clip = float(candidate_clips[np.argmin(squared_errors_of_clips)])
        return _SecondStep(
            center=center, clip=best_clip, squared_error=float(squared_errors_of_clips.min())
        )

    def _simulated_differences(self, center: FloatArray, noise_std: float) -> FloatArray:
        """Returns shares of simulated teachers minus a center, `[2, num_simulated, num_entries]`.

        The labels of the teachers' records are drawn by likely shares, with a fixed seed. Likely shares are the first
        mean, kept one standard deviation of its noise away from the ends of its range. The center is the likely shares
        minus an error in the first half, and plus the same error in the second: that standard deviation, with a random
        sign for each entry.

        Args:
            center: `[num_entries]`, the first mean, cut to the range of shares.
            noise_std: standard deviation of the noise in each entry of the first mean.
        """
        # The simulation uses public numbers alone, so its seed need not be secret. A fixed one makes it reproducible.
        rng = np.random.default_rng(0)
        num_entries = len(center)
        largest_shares_of_a_teacher = self.share_sums_of_teachers.largest_shares_of_a_teacher
        max_teachers = max(_MAX_SIMULATED_SHARES // num_entries, 1)
        num_teachers = min(_MAX_SIMULATED_TEACHERS, max_teachers)
        # Noise may have moved a share of the center to 0 or to the largest value, so it is moved back by one deviation.
        share_margin = np.minimum(noise_std, 0.5 * largest_shares_of_a_teacher)
        likely_shares = center.clip(share_margin, largest_shares_of_a_teacher - share_margin)
        num_records = min(round(self.records_per_teacher), _MAX_SIMULATED_RECORDS)
        simulated_counts = rng.binomial(
            num_records,
            likely_shares / largest_shares_of_a_teacher,
            size=(num_teachers, num_entries),
        )
        simulated_shares = simulated_counts / num_records * largest_shares_of_a_teacher
        errors_of_center = noise_std * rng.choice([-1.0, 1.0], num_entries)
        errors_by_sign = np.stack([errors_of_center, -errors_of_center])[:, None]
        return np.asarray(simulated_shares - likely_shares + errors_by_sign)


def _shrink_known_shares(noisy_known: FloatArray, *, noise_std: float) -> FloatArray:
    """Returns an estimate of the share of records for which each label is known, in (0, 1].

    The shares are moved towards their mean, by the part of their variance that noise explains. So labels that are known
    equally often get about equal shares. No result is below 0.001 or one standard deviation of the noise (1 if that is
    larger), as the shares of records with a label are divided by it.

    Args:
        noisy_known: `[num_labels]`, the shares with noise.
        noise_std: standard deviation of the noise in each share.
    """
    mean = noisy_known.mean()
    variance = max(float(noisy_known.var()), noise_std**2, np.finfo(np.float64).tiny)
    signal_share = 1 - noise_std**2 / variance
    estimated = mean + signal_share * (noisy_known - mean)
    smallest = min(max(noise_std, _MIN_KNOWN_SHARE), 1.0)
    return np.asarray(estimated.clip(smallest, 1.0))
