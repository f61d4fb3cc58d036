"""The prevalence: teachers' mean label frequencies, released in three steps as a center for their votes.

The mean of N vectors of label shares, `[L]` each, gets noise in proportion to the clip of a vector's length. A vector
of 40 shares may be sqrt(40) long, and usually is much shorter: the noise should fit the usual length. So the release
goes from coarse to fine, and each step's clip is a function of what the step before released (the idea of CoinPress):

1. the most common length of a vector, by noisy counts;
2. a first mean, each vector clipped to that length;
3. the mean of what vectors exceed the first mean by, which is shorter once more. Its clip trades noise against bias; it
   is chosen by simulating teachers that draw labels by the first mean. Nothing private is simulated.

Source: Biswas et al. 2020 (CoinPress) for the steps; docs/proofs/centered_votes.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate import accounting as pa
from pate import validation
from pate.accounting.ledger import require_ledger
from pate.aggregators.aggregator import Rng
from pate.aggregators.record import Arrays, MemoryRecord, ReleaseRecord
from pate.mechanisms.noise.whole_numbers import LARGEST_STD, RoundedGaussian
from pate.mechanisms.parameters import POSITIVE, Parameters
from pate.validation import require, require_generator, require_positive
from pate.votes.clipping import ClippedSum
from pate.votes.label_shares import NUM_LENGTHS, ShareSums, TeacherShares
from pate.votes.recipe import DEFAULT_RECIPE, Recipe

Array = NDArray[np.float64]

_HALF = 0.5
# The simulation that chooses the last clip: so many teachers, or fewer where there are many labels.
_SIMULATED_TEACHERS = 4096
_SIMULATED_SHARES = 2**20
_MOST_SIMULATED_RECORDS = 2**20  # of a teacher; shares of more records hardly differ from these


@dataclass(frozen=True, eq=False)
class _NoisyMean:
    """A mean of clipped shares, and the noise in it."""

    shares: Array  # `[L]`
    noise_std: float  # of each


@dataclass(frozen=True, eq=False)
class _SecondStep:
    """The center and clip of the last mean, those of least simulated error."""

    center: Array  # `[L]`
    clip: float
    squared_error: float  # simulated, of each share of the mean


@dataclass(frozen=True, kw_only=True)
class Prevalence(Parameters):
    """Releases the teachers' mean label frequencies in three steps; each step starts from the result of the one before.

    Rule:
        1. The length of a teacher's shares: the most common power of the root of 2, by noisy counts of teachers.
           Teachers without any label are not counted, nor are lengths that are too short for a label of one record.
        2. The mean of the shares, each clipped to that length; or of how they differ from 1/2, where that is shorter.
        3. The mean of what the shares exceed this estimate by, clipped. A long clip needs much noise, a short one
           biases the mean. The clip is the one that errs least for simulated teachers: their records draw labels
           independently, by an estimate that is one standard deviation of the noise away. Where no clip errs clearly
           less, the mean is again of how the shares differ from 1/2.

    The second estimate is the result; if the first one was around 1/2, which clips nothing, it is their mean, weighted
    by their errors. It is cut to [0.005, 0.995].

    Formal guarantee: one teacher's shares change two counts by 1 (one, under add/remove), a clipped sum by two clips
    (one). Each step is Gaussian noise on whole numbers, its clip a function of what was released: together one Gaussian
    event, 1 / noise_multiplier**2 being the sum of the steps'. Of a teacher of weight w (`ShareSums.weights`) all of it
    is at most w times as much. `records_per_teacher` is public. Source: Biswas et al. 2020 (CoinPress) for the steps;
    docs/proofs/centered_votes.md.

    Attributes:
        noise_multiplier: of all steps together, > 0.
        adjacency: as the aggregator's.
        recipe: how the budget is split among the steps, and the least prevalence.
    """

    noise_multiplier: float = field(metadata=POSITIVE)
    adjacency: pa.Adjacency = pa.Adjacency.REPLACE_ONE
    recipe: Recipe = field(default=DEFAULT_RECIPE, repr=False)

    @property
    def event(self) -> pa.GaussianEvent:
        """The price of all three steps."""
        return pa.GaussianEvent.composed(self._multipliers)

    def release(
        self,
        label_shares: Any,
        *,
        num_teachers: int,
        rng: Rng,
        ledger: pa.Ledger | None = None,
        records_per_teacher: float = 1.0,
        record: ReleaseRecord | None = None,
    ) -> Array:
        """Releases the prevalence of each label, `[L]`.

        Args:
            label_shares: numbers in [0, 1], `[N, L]`, each teacher's share of records with the label, or sums of them.
            num_teachers: N, declared; under add/remove there may be fewer rows.
            rng: the source of all noise.
            ledger: charged before anything is drawn, where there is no `record`.
            records_per_teacher: about, public, >= 1.
            record: pays for, and keeps, each of the three draws before the next sum is asked for.
        """
        require_generator(rng)
        require_positive("records_per_teacher", records_per_teacher)
        is_whole_record = records_per_teacher >= 1
        require(is_whole_record, "records_per_teacher", records_per_teacher, "a number >= 1")
        is_summed = isinstance(label_shares, ShareSums)
        shares = label_shares if is_summed else TeacherShares(label_shares)
        self._require_teachers(shares, num_teachers)
        self._require_exact_noise(shares.num_labels)
        if record is None:
            if ledger is not None:
                charge = require_ledger(ledger).charge
                charge(self.event, adjacency=self.adjacency, description=repr(self))
            record = MemoryRecord()
        steps = _Steps(
            multipliers=self._multipliers,
            adjacency=self.adjacency,
            recipe=self.recipe,
            shares=shares,
            total_weight=num_teachers if shares.weights is None else shares.total_weight,
            records_per_teacher=records_per_teacher,
            rng=rng,
            record=record,
        )
        return steps.prevalence()

    @property
    def last_multiplier(self) -> float:
        """noise_multiplier of the last step alone."""
        return self._multipliers[-1]

    @property
    def _multipliers(self) -> list[float]:
        """The noise multiplier of each step: 1 / multiplier**2 is the step's share of 1 / noise_multiplier**2."""
        return [self.noise_multiplier / math.sqrt(share) for share in self.recipe.prevalence_split]

    def _require_teachers(self, shares: ShareSums, num_teachers: int) -> None:
        """Raises unless shares are those of the declared teachers; under add/remove some may be missing."""
        num_rows = shares.num_teachers
        may_be_fewer = self.adjacency == pa.Adjacency.ADD_REMOVE and shares.weights is None
        fits = num_rows == num_teachers or (may_be_fewer and num_rows < num_teachers)
        require(fits, "num_teachers", num_teachers, f"{num_rows}, the shares' rows")

    def _require_exact_noise(self, num_labels: int) -> None:
        """Raises where the noise of a mean could not be drawn exactly, whatever its clip."""
        # a grid is finer than that of the clip 1 by less than 2, in steps of a clip
        clipped = ClippedSum(clip=1.0, shape=(1, num_labels), adjacency=self.adjacency)
        most_steps = 2 * clipped.l2_sensitivity
        most = LARGEST_STD / most_steps / max(self._multipliers) * self.noise_multiplier
        rule = f"at most {validation.rounded_down(most, 3)}"
        require(self.noise_multiplier <= most, "noise_multiplier", self.noise_multiplier, rule)


@dataclass(frozen=True, eq=False, kw_only=True)
class _Steps:
    """The three steps of one release; see `Prevalence`."""

    multipliers: list[float]  # noise multiplier of each step
    adjacency: pa.Adjacency
    recipe: Recipe
    shares: ShareSums
    total_weight: float  # of the declared teachers
    records_per_teacher: float
    rng: Rng
    record: ReleaseRecord

    def prevalence(self) -> Array:
        """Releases the prevalence, `[L]`, by all three steps."""
        length = self._length()
        half, half_length = self._half()
        is_around_half = half_length < length
        first_center = half if is_around_half else np.zeros_like(half)
        first = self._mean(1, first_center, min(length, half_length))
        step = self._second_step(first)
        second = self._mean(2, step.center, step.clip).shares
        if is_around_half:
            # weighted by the squared errors of both
            both_errors = step.squared_error + first.noise_std**2
            second += (first.shares - second) * step.squared_error / both_errors
        floor = self.recipe.prevalence_floor
        return second.clip(floor, 1 - floor)

    def _half(self) -> tuple[Array, float]:
        """Returns the center at which every label is as frequent as not, and the length of any shares around it."""
        half = np.full(self.shares.num_labels, _HALF)
        return half, float(np.linalg.norm(half))

    def _length(self) -> float:
        """Releases the most common length, rounded up to sqrt(L) over a power of the root of 2."""
        longest = math.sqrt(self.shares.num_labels)
        # Lengths that are too short for a label of one record are not considered, but of teachers that are much too
        # large: these have up to twice the usual records.
        records = self.records_per_teacher
        most_records = records if records == 1 else 2 * records
        last_power = math.ceil(2 * math.log2(longest * most_records))
        # drawn also where the part is read back: a seeded run that is continued goes on with the same numbers
        std = math.sqrt(self.adjacency.num_moved) * self.multipliers[0] * self.shares.parts
        noise = RoundedGaussian(std).sample((NUM_LENGTHS,), self.rng)

        def draw() -> Arrays:
            return {"noisy": self.shares.lengths() + noise}

        noisy_counts = self.record.part("lengths", draw)["noisy"]
        power = int(np.argmax(noisy_counts[: 1 + last_power]))
        return longest / 2 ** (power / 2)

    def _mean(self, number: int, center: Array, clip: float) -> _NoisyMean:
        """Releases the mean of clipped shares around a center, as step number 1 or 2."""
        num_labels = self.shares.num_labels
        clipped = ClippedSum(clip=clip, shape=(1, num_labels), adjacency=self.adjacency)
        std = self.multipliers[number] * clipped.l2_sensitivity
        noise = RoundedGaussian(std).sample((1, num_labels), self.rng)

        def draw() -> Arrays:
            return {"noisy": self.shares.total(clipped, center) + noise}

        total = self.record.part(f"mean-{number}", draw)["noisy"]
        unit = clipped.step / self.total_weight
        return _NoisyMean(np.asarray(center + total[0] * unit), std * unit)

    def _second_step(self, first: _NoisyMean) -> _SecondStep:
        """Returns the center and clip of least simulated error.

        They are the first mean and one of the clips down from the longest, or 1/2 and a clip that cuts nothing. Nothing
        here is private: the first mean was released.
        """
        center = first.shares.clip(0, 1)
        excesses = self._simulated_excesses(center, first.noise_std)  # [2, T, L]
        lengths = np.maximum(np.linalg.norm(excesses, axis=2), np.finfo(np.float64).tiny)
        clips = lengths.max() / 2 ** (np.arange(2 * NUM_LENGTHS) / 4)
        cut_shares = 1 - np.minimum(1, clips[:, None, None] / lengths)
        biases = np.einsum("cst,stl->csl", cut_shares, excesses) / lengths.shape[1]
        noise_per_clip = self.adjacency.num_moved * self.multipliers[2] / self.total_weight
        errors = (biases**2).mean(axis=(1, 2)) + (noise_per_clip * clips) ** 2
        half, half_length = self._half()
        unbiased_error = (noise_per_clip * half_length) ** 2
        if unbiased_error < self.recipe.unbiased_error * errors.min():
            return _SecondStep(half, half_length, unbiased_error)
        return _SecondStep(center, float(clips[np.argmin(errors)]), float(errors.min()))

    def _simulated_excesses(self, center: Array, noise_std: float) -> Array:
        """Returns what shares of simulated teachers exceed the first mean by, `[2, T, L]`.

        The two halves are with the mean's error, and with the opposite one.
        """
        rng = np.random.default_rng(0)  # public: any seed would do
        num_labels = len(center)
        num_teachers = min(_SIMULATED_TEACHERS, max(_SIMULATED_SHARES // num_labels, 1))
        least = min(noise_std, _HALF)  # of a mean that noise may have cut to 0
        likely = center.clip(least, 1 - least)
        num_records = min(round(self.records_per_teacher), _MOST_SIMULATED_RECORDS)
        shares = rng.binomial(num_records, likely, (num_teachers, num_labels)) / num_records
        error = noise_std * rng.choice([-1.0, 1.0], num_labels)
        return np.asarray(shares - likely + np.stack([error, -error])[:, None])
