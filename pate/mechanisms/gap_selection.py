"""Gap selection: the number k of labels to release, by report-noisy-max over the gaps of the sorted histogram."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.accounting import (
    Adjacency,
    BoundedRangeEvent,
    Event,
    NoOpEvent,
    OpposedMaximaEvent,
    PureDpEvent,
)
from pate.array_types import FloatArray, IntArray
from pate.mechanisms.noise.comparisons import ExactValues, largest_noisy
from pate.mechanisms.noise.drawn_noise import draw_noise
from pate.mechanisms.noise.lazy_uniforms import LazyUniforms
from pate.mechanisms.noise.maxima import (
    exponential_noise_argmax,
    gaussian_argmax,
    gumbel_noise_argmax,
    laplace_argmax,
)
from pate.mechanisms.noise.weighted_index import (
    WeightEncloser,
    draw_index,
    permute_and_flip_encloser,
    softmax_encloser,
)
from pate.mechanisms.parameters import COUNT, NATURAL, NON_NEGATIVE, POSITIVE, Parameters, one_of
from pate.mechanisms.vote_ranking import VoteRanking
from pate.validation import (
    InvalidValue,
    normalize_field,
    require,
    require_count,
    require_generator,
    require_histogram,
)

# A function of k, or a number for each candidate in rising order of k; it must not depend on private data.
Regularizer = Callable[[int], float] | Sequence[float]

# The kinds of noise, by the names that the field `noise` takes.
SELECTION_NOISES = ("gumbel", "gaussian", "laplace", "exponential")
# The distribution of the index of the largest noisy value, by the kind of noise. Each function takes utilities: a
# utility is (regularized gap - largest regularized gap) / noise_scale, at most 0.
_ARGMAX_DISTRIBUTIONS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "gumbel": gumbel_noise_argmax,
    "gaussian": gaussian_argmax,
    "laplace": laplace_argmax,
    "exponential": exponential_noise_argmax,
}
# The same distribution as exact weights, for the kinds of noise for which it has a closed form. Each function takes
# the noise scale and deficits: a deficit is largest regularized gap - regularized gap, at least 0.
_MAKE_ENCLOSER = {"gumbel": softmax_encloser, "exponential": permute_and_flip_encloser}
# The largest absolute value of a regularizer. Sums of a gap and a far larger number would be rounded.
_LARGEST_OFFSET = 2.0**50
# The number of bits of a sum of gap and regularizer. A difference of two sums takes one bit more.
_NUM_BITS = 52


@dataclass(frozen=True, kw_only=True)
class FixedKRegularizer(Parameters):
    """A regularizer that lowers the gap of a candidate by `penalty` * |candidate - k| votes.

    k and `penalty` are >= 0 and public. Source: Zhu & Wang 2022, Algorithm 3.

    >>> [FixedKRegularizer(k=2, penalty=5.0)(candidate) for candidate in (1, 2, 4)]
    [-5.0, 0.0, -10.0]
    """

    k: int = field(metadata=NATURAL)
    penalty: float = field(metadata=NON_NEGATIVE)

    def __call__(self, candidate: int) -> float:
        """Returns the number of votes, <= 0, that is added to the gap of a candidate."""
        return 0.0 if candidate == self.k else -self.penalty * abs(candidate - self.k)


def checked_regularizer(regularizer: Regularizer | None) -> Regularizer | None:
    """Returns a regularizer in a form that can be hashed: None and functions unchanged, numbers as a tuple of floats.

    Raises `InvalidValue` for a value that is neither None, nor a function, nor a list of finite numbers.
    """
    if regularizer is None or callable(regularizer):
        return regularizer
    regularizer_values = np.asarray(regularizer, dtype=object)
    if regularizer_values.ndim != 1:
        shown_value = (
            regularizer
            if regularizer_values.ndim == 0
            else f"array of shape {regularizer_values.shape}"
        )
        rule = "a function of k or a list of numbers"
        raise InvalidValue("regularizer", shown_value, rule=rule)
    return tuple(_require_finite(added_votes) for added_votes in regularizer_values.tolist())


def _require_finite(added_votes: Any) -> float:
    """Returns a number of a regularizer as a float; raises `InvalidValue` for a value that is no finite number."""
    try:
        number = math.nan if isinstance(added_votes, (bool, str)) else float(added_votes)
    except (TypeError, ValueError) as error:
        raise InvalidValue("regularizer", added_votes, rule="finite numbers") from error
    require(math.isfinite(number), "regularizer", added_votes, "finite numbers")
    return number


@dataclass(frozen=True, kw_only=True)
class GapSelection(Parameters):
    """A mechanism that releases the k whose gap(k) + regularizer(k) + noise is largest.

    Shapes in the methods: Q is the number of queries, L = `num_labels` the number of labels, n the number of
    `candidates`. T is `num_teachers`.

    Here gap(k) is the k-th largest count less the next one. Only k is released. With `max_k` the choice depends on the
    `max_k` + 1 largest counts alone, so the domain of labels may be unknown.

    Formal guarantees. Between neighboring data sets a gap moves by at most sens = 2 (replace-one) or 1 (add/remove),
    and two gaps can move in opposite directions. k is drawn with its exact probability, even where this probability is
    tiny (docs/proofs/floats.md).
        * gumbel: bounded range 2 sens / scale (it is the exponential mechanism).
        * laplace, exponential (permute-and-flip): (2 sens / scale)-DP.
        * gaussian: the price is an `OpposedMaximaEvent`. That of one Gaussian release of sensitivity 1 would be too
          small, as one gap may grow while another one shrinks.
        * All fields are public, the regularizer included. The price is the same for all votes, and does not depend on
          how many labels rank below `max_k` + 1.

    Attributes:
        noise_scale: in votes, > 0: beta of a Gumbel, b of a Laplace, mean of an exponential, std of a Gaussian.
        noise: "gumbel", "gaussian", "laplace" or "exponential".
        num_labels: the number of labels L.
        num_teachers: the number of teachers T, public.
        padded: whether k = 0 and k = L are candidates too, k = L only if `max_k` allows it. gap(0) is T less the
            largest count, gap(L) is the smallest count.
        regularizer: votes that are added to the gap of each candidate: a function of k, or a list of finite numbers in
            rising order of k; None for 0.
        max_k: the largest candidate, >= 1; None for no limit.
        adjacency: how neighboring data sets differ.

    Source: Zhu & Wang 2022, Algorithm 1; docs/proofs/gap_selection.md.

    >>> selection = GapSelection(noise_scale=1.0, num_labels=3, num_teachers=9, padded=True)
    >>> selection.probabilities(np.array([9, 9, 0])).round(3)  # k = 0, 1, 2, 3
    array([0., 0., 1., 0.])
    """

    noise_scale: float = field(metadata=POSITIVE)
    noise: str = field(default="gumbel", metadata=one_of(SELECTION_NOISES))
    num_labels: int
    num_teachers: int = field(metadata=COUNT)
    padded: bool = False
    regularizer: Regularizer | None = None
    max_k: int | None = field(default=None, metadata=COUNT)
    adjacency: Adjacency = Adjacency.REPLACE_ONE

    def __post_init__(self) -> None:
        super().__post_init__()
        require_count("num_labels", self.num_labels, minimum=1 if self.padded else 2)
        normalize_field(self, "regularizer", checked_regularizer(self.regularizer))
        self._validate_regularizer()

    def _validate_regularizer(self) -> None:
        """Raises `InvalidValue` unless the regularizer has one number, of at most 2**50 in size, for each candidate."""
        num_values = len(self._regularizer_values)
        num_candidates = len(self.candidates)
        if num_values != num_candidates:
            rule = f"{num_candidates} numbers"
            raise InvalidValue("regularizer", f"({num_values},)", rule=rule)
        largest_value = self._largest_regularizer_value
        if largest_value > _LARGEST_OFFSET:
            rule = f"numbers up to 2**50 = {_LARGEST_OFFSET:.0f} in size"
            raise InvalidValue("regularizer", largest_value, rule=rule)

    @property
    def candidates(self) -> IntArray:
        """The n values that k can take, in rising order: 0..L if padded, 1..L-1 otherwise, and at most `max_k`."""
        smallest_k = 0 if self.padded else 1
        largest_k = self.num_labels - smallest_k
        if self.max_k is not None:
            largest_k = min(largest_k, self.max_k)
        return np.arange(smallest_k, largest_k + 1)

    @cached_property
    def _regularizer_values(self) -> list[float]:
        """The values of the regularizer before they are rounded, one for each candidate."""
        regularizer = self.regularizer
        if regularizer is None:
            return [0.0] * len(self.candidates)
        if callable(regularizer):
            return [_require_finite(regularizer(k)) for k in self.candidates.tolist()]
        return list(regularizer)

    @property
    def _largest_regularizer_value(self) -> float:
        """The largest absolute value of the regularizer; 0 without candidates."""
        return max(map(abs, self._regularizer_values), default=0.0)

    @cached_property
    def offsets(self) -> FloatArray:
        """The regularizer of each of the n candidates, `[n]`, rounded so that sums with gaps are exact in floats."""
        # The unit of the grid is as fine as the largest value allows. It is public, as the values are.
        largest_sum = self._largest_regularizer_value + self.num_teachers
        grid_step = 2.0 ** (math.frexp(largest_sum)[1] - _NUM_BITS)
        return np.asarray(np.rint(np.array(self._regularizer_values) / grid_step) * grid_step)

    @property
    def event(self) -> Event:
        """The price of one selection."""
        if len(self.candidates) == 1:
            return NoOpEvent()
        if self.noise == "gaussian":
            gap_noise_multiplier = self.noise_scale / self.adjacency.gap_sensitivity
            return OpposedMaximaEvent(gap_noise_multiplier, num_candidates=len(self.candidates))
        # Two gaps move against each other by 2 sens = `gap_range`. So the log-ratio of the probabilities of two
        # candidates moves by gap_range / scale.
        largest_log_ratio_move = self.adjacency.gap_range / self.noise_scale
        if self.noise == "gumbel":
            return BoundedRangeEvent(epsilon=largest_log_ratio_move)
        return PureDpEvent(epsilon=largest_log_ratio_move)

    @property
    def is_softmax_of_gaps(self) -> bool:
        """Whether k, of several candidates within 1..L-1, has a probability in proportion to exp(gap(k) / noise_scale).

        True for Gumbel noise without padding and with a regularizer of None or zeros; False otherwise.
        """
        return (
            self.noise == "gumbel"
            and not self.padded
            and not self.offsets.any()
            and len(self.candidates) > 1
        )

    def __call__(self, votes: NDArray[np.integer], *, rng: np.random.Generator) -> IntArray:
        """Draws k for one histogram `[L]` (returns `[]`) or for each of a batch `[Q, L]` (returns `[Q]`)."""
        require_generator(rng)
        counts = self._counts(votes)
        selected_k = self.draw(VoteRanking.from_counts(np.atleast_2d(counts)), rng)
        return selected_k if counts.ndim == 2 else selected_k[0]

    def draw(self, ranking: VoteRanking, rng: np.random.Generator) -> IntArray:
        """Draws k for each query of a ranking and returns an array `[Q]`."""
        if self.noise == "gumbel":
            # The largest of sums with Gumbel noise is k with the probabilities of a softmax (the Gumbel-max trick). One
            # uniform number for each query decides it, so no noise is added to the sums.
            return self.select(ranking, uniforms=LazyUniforms.draw((ranking.num_queries,), rng))
        regularized_gaps = self._regularized_gaps(ranking)
        exact_values = ExactValues.scaled(regularized_gaps, noise_scale=self.noise_scale)
        drawn_noise = draw_noise(noise_kind=self.noise, shape=regularized_gaps.shape, rng=rng)
        candidate_indices = largest_noisy(exact_values, drawn_noise, k=1)[:, 0]
        return np.asarray(self.candidates[0] + candidate_indices)

    def select(self, ranking: VoteRanking, uniforms: LazyUniforms) -> IntArray:
        """Returns k for each query of a ranking, `[Q]`, as a function of one uniform number per query.

        Mechanisms that draw the uniform numbers themselves, such as `NotPriorTopK`, call this method instead of `draw`.

        Raises `InvalidValue` unless the noise is "gumbel".
        """
        require(self.noise == "gumbel", "noise", self.noise, "gumbel")
        regularized_gaps = self._regularized_gaps(ranking)
        deficits_of_candidates = regularized_gaps.max(axis=1, keepdims=True) - regularized_gaps
        with np.errstate(over="ignore"):  # a quotient of minus infinity has the weight 0
            approximate_weights = np.exp(-deficits_of_candidates / self.noise_scale)

        def make_encloser(row: int) -> WeightEncloser:
            return softmax_encloser(deficits_of_candidates[row], noise_scale=self.noise_scale)

        candidate_indices = draw_index(
            approximate_weights=approximate_weights,
            lazy_uniforms=uniforms,
            make_encloser=make_encloser,
        )
        return np.asarray(self.candidates[0] + candidate_indices)

    def probabilities(self, votes: NDArray[np.integer]) -> FloatArray:
        """Returns the probability of each of the n candidates: `[n]` for one histogram, `[Q, n]` for a batch."""
        counts = self._counts(votes)
        regularized_gaps = self._regularized_gaps(VoteRanking.from_counts(np.atleast_2d(counts)))
        argmax_distribution = _ARGMAX_DISTRIBUTIONS[self.noise]
        utilities = (
            regularized_gaps - regularized_gaps.max(axis=1, keepdims=True)
        ) / self.noise_scale
        selection_distributions = np.asarray(argmax_distribution(utilities))
        return (
            selection_distributions if counts.ndim == 2 else np.asarray(selection_distributions[0])
        )

    @property
    def has_weights(self) -> bool:
        """Whether the probabilities of all candidates have a closed form, as for Gumbel and exponential noise."""
        return self.noise in _MAKE_ENCLOSER

    def weights(self, votes: NDArray[np.integer]) -> WeightEncloser:
        """Returns the function that encloses weights in proportion to the candidates' probabilities, for counts `[L]`.

        Raises `InvalidValue` for noise without such weights, where `has_weights` is False.
        """
        require(self.has_weights, "noise", self.noise, f"one of {', '.join(_MAKE_ENCLOSER)}")
        regularized_gaps = self._regularized_gaps(
            VoteRanking.from_counts(self._counts(votes)[None])
        )[0]
        deficits_of_candidates = regularized_gaps.max() - regularized_gaps
        return _MAKE_ENCLOSER[self.noise](deficits_of_candidates, noise_scale=self.noise_scale)

    def _regularized_gaps(self, vote_ranking: VoteRanking) -> FloatArray:
        """Returns gap plus regularizer of each of the n candidates, `[Q, n]`; sums and their differences are exact."""
        # If a sum with a large offset were rounded, it could move by more than the price counts.
        gaps = vote_ranking.gaps(with_outer_gaps=self.padded, num_teachers=self.num_teachers)
        return np.asarray(gaps[:, : len(self.offsets)] + self.offsets)

    def _counts(self, votes: NDArray[np.integer]) -> IntArray:
        """Returns votes as int64 counts, `[L]` or `[Q, L]`.

        Raises `InvalidValue` for votes that are not whole numbers in 0..T or not of `num_labels` labels.
        """
        counts = require_histogram("votes", votes, largest_count=self.num_teachers)
        has_all_labels = counts.shape[-1] == self.num_labels
        require(has_all_labels, "votes.shape", counts.shape, f"{self.num_labels} labels")
        return counts.astype(np.int64, copy=False)
