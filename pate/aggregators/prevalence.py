"""The prevalence: teachers' mean label frequencies, released in three steps as a center for their votes."""

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
from pate.aggregators.record import MemoryRecord, ReleaseRecord
from pate.mechanisms.noise.whole_numbers import LARGEST_STD, RoundedGaussian
from pate.mechanisms.parameters import POSITIVE, Parameters
from pate.validation import require, require_generator, require_positive
from pate.votes.clipping import ClippedSum
from pate.votes.source import (
    NUM_LENGTHS,
    ShareSums,
    TeacherShares,
)

Array = NDArray[np.float64]

_SPLIT = (0.1, 0.3, 0.6)  # of 1 / noise_multiplier**2: length, first estimate, second
_RAREST = 0.005
# teachers in the simulation that chooses the last clip
_SIMULATED = 4096
_SIMULATED_SHARES = 2**20
_MOST_RECORDS = 2**20  # simulated shares of more records hardly differ from these
_UNBIASED = 1.15  # as large as another squared error may be one that is noise alone
_HALF = 0.5


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
    """

    noise_multiplier: float = field(metadata=POSITIVE)
    adjacency: pa.Adjacency = pa.Adjacency.REPLACE_ONE

    @property
    def event(self) -> pa.GaussianEvent:
        """The price of all its questions."""
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
        """The prevalence of each label, `[L]`.

        Label shares are numbers in [0, 1], `[N, L]`, each teacher's share of records with the label, or sums of them;
        N is declared: under add/remove there may be fewer rows. The number of records per teacher, about, is >= 1. The
        ledger is charged before anything is drawn, where there is no `record`, which else keeps, and pays for, each of
        the three draws before the next sum is asked for.
        """
        require_generator(rng)
        each = require_positive("records_per_teacher", records_per_teacher)
        require(each >= 1, "records_per_teacher", each, "a number >= 1")
        shares = (
            label_shares if isinstance(label_shares, ShareSums) else TeacherShares(label_shares)
        )
        found = shares.num_teachers
        fewer = (
            self.adjacency == pa.Adjacency.ADD_REMOVE
            and found < num_teachers
            and shares.weights is None
        )
        require(
            found == num_teachers or fewer,
            "num_teachers",
            num_teachers,
            f"{found}, the shares' rows",
        )
        # whatever the clips, as a grid is finer by less than 2
        steps = 2 * ClippedSum(1.0, (1, shares.num_labels), self.adjacency).l2_sensitivity
        most = LARGEST_STD / steps / max(self._multipliers) * self.noise_multiplier
        rule = f"at most {validation.rounded_down(most, 3)}"
        require(self.noise_multiplier <= most, "noise_multiplier", self.noise_multiplier, rule)
        if record is None and ledger is not None:
            require_ledger(ledger).charge(
                self.event, adjacency=self.adjacency, description=repr(self)
            )
        total = num_teachers if shares.weights is None else shares.total_weight
        done = record or MemoryRecord()
        length = self._length(shares, done, rng, records_per_teacher)
        half = np.full(shares.num_labels, _HALF)
        whole = float(np.linalg.norm(half))
        around_half = whole < length

        # and the std of its noise
        def mean(step: int, center: Array, clip: float) -> tuple[Array, float]:
            clipped = ClippedSum(clip, (1, shares.num_labels), self.adjacency)
            std = self._multipliers[step] * clipped.l2_sensitivity
            unit = clipped.step / total
            noise = RoundedGaussian(std).sample((1, shares.num_labels), rng)
            noisy = done.part(
                f"mean-{step}", lambda: {"noisy": shares.total(clipped, center) + noise}
            )["noisy"]
            return np.asarray(center + noisy[0] * unit), std * unit

        first, std = mean(1, half if around_half else np.zeros_like(half), min(length, whole))
        center, clip, error = self._closer(first.clip(0, 1), std, total, records_per_teacher)
        second, _ = mean(2, center, clip)
        if around_half:
            second += (first - second) * error / (error + std**2)
        return second.clip(_RAREST, 1 - _RAREST)

    @property
    def last_multiplier(self) -> float:
        """noise_multiplier of the last step alone."""
        return self._multipliers[-1]

    @property
    def _multipliers(self) -> list[float]:
        return [self.noise_multiplier / math.sqrt(share) for share in _SPLIT]

    def _length(self, shares: ShareSums, done: ReleaseRecord, rng: Rng, records: float) -> float:
        """The most common length, rounded up to sqrt(L) over a power of the root of 2."""
        longest = math.sqrt(shares.num_labels)
        # of all teachers but those that are much too large
        likely = records if records == 1 else 2 * records
        shortest = math.ceil(2 * math.log2(longest * likely))
        # drawn also where the part is read back: a seeded run that is continued goes on with the same numbers
        std = math.sqrt(self.adjacency.num_moved) * self._multipliers[0] * shares.parts
        noise = RoundedGaussian(std).sample((NUM_LENGTHS,), rng)
        noisy = done.part("lengths", lambda: {"noisy": shares.lengths() + noise})["noisy"]
        return longest / 2 ** (int(np.argmax(noisy[: 1 + shortest])) / 2)

    def _closer(
        self, first: Array, std: float, total: float, records: float
    ) -> tuple[Array, float, float]:
        """The second center and clip, those of least simulated error, and that error squared."""
        # They are the first estimate and one of the clips down from the longest, or 1/2 and a clip that cuts nothing.
        # What shares of simulated teachers exceed the estimate by, `[2, T, L]`: with its error, and with the opposite
        # one. Nothing here is private: the estimate was released.
        rng = np.random.default_rng(0)
        num_labels = len(first)
        num_teachers = min(_SIMULATED, max(_SIMULATED_SHARES // num_labels, 1))
        least = min(std, 0.5)  # of an estimate that noise may have cut to 0
        likely = first.clip(least, 1 - least)
        num_records = min(round(records), _MOST_RECORDS)
        shares = rng.binomial(num_records, likely, (num_teachers, num_labels)) / num_records
        of_noise = std * rng.choice([-1.0, 1.0], num_labels)
        rests = shares - likely + np.stack([of_noise, -of_noise])[:, None]
        norms = np.maximum(np.linalg.norm(rests, axis=2), np.finfo(np.float64).tiny)
        clips = norms.max() / 2 ** (np.arange(2 * NUM_LENGTHS) / 4)
        cut = 1 - np.minimum(1, clips[:, None, None] / norms)
        biases = np.einsum("cst,stl->csl", cut, rests) / norms.shape[1]
        noise_of_one = self.adjacency.num_moved * self._multipliers[2] / total
        errors = (biases**2).mean(axis=(1, 2)) + (noise_of_one * clips) ** 2
        half = np.full_like(first, _HALF)
        whole = float(np.linalg.norm(half))
        if (noise_of_one * whole) ** 2 < _UNBIASED * errors.min():
            return half, whole, (noise_of_one * whole) ** 2
        return first, float(clips[np.argmin(errors)]), float(errors.min())
