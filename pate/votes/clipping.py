"""Votes counted, limited and clipped: counts, and sums on a grid, of votes around a center and against a student."""

import math
from abc import ABC
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Adjacency
from pate.validation import require, require_array, require_count, require_entries, require_positive

Bits = NDArray[np.bool_]
Block = NDArray[np.bool_] | NDArray[np.floating]
Array = NDArray[np.float64]
Integers = NDArray[np.int64]

FEATURE_STEPS = 2.0**14  # of the grid in a feature vector of length 1
_BYTE_MAX = 255
_TOLERANCE = 2.0**-30
_FINENESS = 2.0**-14  # of the clip: what rounding all entries by a step is worth
_FLOAT_ERROR = 2.0**-20  # relative, of a length: n 2**-53 for a sum of n squares, n <= 2**30
_LARGEST_SUM = 2.0**52
_LEAST_CLIP = 1e-100
_LEAST_WEIGHT = 2.0**-20  # of a contribution; less counts for nothing
_BLOCK_ENTRIES = 2**21
_FINITE = "finite numbers below 1e150"
_RESIDUAL_STEPS = 2.0**15  # in a clip, at least
_TINY = 1e-300
_MOST_CANCELED = 64  # clips that the residuals of a teacher may have, before they cancel each other


class Weighted(ABC):
    """Something of N teachers, each of which may count less than once."""

    num_teachers: int  # N, public
    num_labels: int  # L
    # `[N]`, public, in [0, 1]: what each teacher counts; None where all count once
    weights: Array | None = None

    @property
    def total_weight(self) -> float:
        """Of all teachers together, N where all count once."""
        return self.num_teachers if self.weights is None else float(self.weights.sum())


def histogram(teacher_votes: Any) -> NDArray[np.int64]:
    """Counts `[num_queries, num_labels]` of the teachers that voted for each label, of their bits `[N, Q, L]`.

    Raises `InvalidValue` for what is not bool (a confidence is no vote yet), or not of rank 3, or empty.

    >>> histogram(np.array([[[True, False]], [[True, True]]])).tolist()
    [[2, 1]]
    """
    votes = require_teacher_votes("teacher_votes", teacher_votes)
    # in bytes over at most 255 teachers at a time, which cannot overflow and moves an eighth of the memory of int64
    blocks = (
        votes[first : first + _BYTE_MAX].view(np.uint8) for first in range(0, len(votes), _BYTE_MAX)
    )
    return sum(
        (block.sum(axis=0, dtype=np.uint8) for block in blocks), np.zeros(votes.shape[1:], np.int64)
    )


def require_teacher_votes(name: str, teacher_votes: Any) -> NDArray[np.bool_]:
    """Returns bool `[num_teachers, num_queries, num_labels]` with at least one entry, or raises."""
    votes = require_array(name, teacher_votes, kinds=None)
    require(votes.dtype == np.bool_, f"{name}.dtype", votes.dtype, "bool votes")
    require(
        votes.ndim == 3, f"{name}.shape", votes.shape, "[num_teachers, num_queries, num_labels]"
    )
    require(votes.size > 0, f"{name}.shape", votes.shape, "at least one teacher, query and label")
    return votes


def bits_of(block: Block) -> Bits:
    """Votes of a block: bits as they are, confidences of at least a half."""
    return np.asarray(block if block.dtype == np.bool_ else block >= 0.5, dtype=np.bool_)


def limited(block: Block, most: int) -> Bits:
    """Votes `[c, Q, L]` of which each teacher keeps at most `most` a query: its most confident ones.

    Among equals, which all bits are, those that come first in the order of labels that begins with label q mod L in
    query q and goes round. So what a teacher keeps is a function of its own votes alone.
    """
    bits = bits_of(block)
    teacher, query = np.nonzero(np.count_nonzero(bits, axis=-1) > most)
    if len(teacher) == 0:
        return bits
    num_labels = bits.shape[2]
    # [R, L] labels in the order of the query
    turned = (query[:, None] + np.arange(num_labels)) % num_labels
    ranked = np.take_along_axis(np.where(bits, block, -1.0)[teacher, query], turned, axis=1)
    chosen = np.argsort(-ranked, axis=1, kind="stable")[:, :most]
    kept = np.zeros((len(teacher), num_labels), dtype=np.bool_)
    np.put_along_axis(kept, np.take_along_axis(turned, chosen, axis=1), True, axis=1)
    fewer = bits.copy()
    fewer[teacher, query] = kept
    return fewer


@dataclass(frozen=True, eq=False)
class LowRankVotes:
    """A block of teachers whose votes minus the center are `span @ weights[t]`.

    The span is orthonormal, so the votes `[Q, L]` are as long as the weights `[r, L]`: clipping and adding need no
    votes, and millions of teachers are a few products of matrices. Raises `InvalidValue` for others.
    """

    span: NDArray[np.float64]  # `[Q, r]`, public, orthonormal columns
    weights: NDArray[np.float64]  # `[c, r, L]`, one matrix per teacher

    def __post_init__(self) -> None:
        require(
            self.span.ndim == 2 and self.span.size > 0,
            "span.shape",
            self.span.shape,
            "[num_queries, r]",
        )
        width = self.span.shape[1]
        shape = self.weights.shape
        good = len(shape) == 3 and self.weights.size > 0 and shape[1] == width
        require(good, "weights.shape", shape, f"[c, {width}, num_labels]")
        error = float(np.abs(self.span.T @ self.span - np.eye(width)).max())
        require(error <= _TOLERANCE, "span", f"{error:.2g} off", "orthonormal columns")

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the votes: `[c, Q, L]`."""
        return len(self), len(self.span), self.weights.shape[2]


def is_whole(votes: Any) -> bool:
    """Returns whether votes are one array `[N, Q, L]`, a tensor or a list included, and not blocks of one."""
    return isinstance(votes, (list, tuple, LowRankVotes)) or hasattr(votes, "__array__")


def raw_blocks(votes: Any) -> Iterator[Any]:
    """Returns the blocks of votes that are one array `[N, Q, L]` or blocks already; unchecked."""
    blocks = [votes] if is_whole(votes) else votes
    rule = "an array [N, Q, L] or blocks of one"
    require(isinstance(blocks, Iterable), "votes", type(votes).__name__, rule)
    return iter(blocks)


def checked_block(block: Any, *, inside: bool = True) -> Any:
    """Returns a block `[c, Q, L]` of bits or floats as an array, and `LowRankVotes`, where floats may be any, as is.

    Raises `InvalidValue` for others, and for floats outside of [0, 1] where they have to be `inside`.
    """
    if isinstance(block, LowRankVotes) and not inside:
        return block
    block = require_array("votes", block, kinds=None)
    rule = "[num_teachers, num_queries, num_labels]"
    require(block.ndim == 3, "votes.shape", block.shape, rule)
    rule = "at least one teacher, query and label"
    require(block.size > 0, "votes.shape", block.shape, rule)
    rule = "bool votes or confidences in [0, 1]" if inside else "bool votes or floats"
    require(block.dtype.kind in "bf", "votes.dtype", block.dtype, rule)
    if inside and block.dtype.kind == "f":
        require_entries("votes", (block >= 0) & (block <= 1), "confidences in [0, 1]")
    return block


def vote_blocks(
    votes: Any, *, num_teachers: int, adjacency: Adjacency, inside: bool = True
) -> Iterator[Any]:
    """Yields checked blocks `[c, Q, L]` of bits or floats, together `num_teachers` teachers; large ones are cut.

    Votes are an array `[N, Q, L]` or blocks of one. Floats are confidences in [0, 1] where they have to be `inside`.
    Under add/remove, where a teacher may be missing from the declared ones, fewer will do. `LowRankVotes` stay whole.
    """
    count = 0
    queries = None
    for raw_block in raw_blocks(votes):
        block = checked_block(raw_block, inside=inside)
        queries = queries or block.shape[1:]
        rule = f"[c, {queries[0]}, {queries[1]}] as before"
        require(block.shape[1:] == queries, "votes.shape", block.shape, rule)
        count += len(block)
        if isinstance(block, LowRankVotes):
            yield block
            continue
        rows = max(1, _BLOCK_ENTRIES // math.prod(queries))
        for first in range(0, len(block), rows):
            yield block[first : first + rows]
    is_missing_one = adjacency is Adjacency.ADD_REMOVE and 0 < count < num_teachers
    rule = f"{count}, the teachers in votes"
    require(count == num_teachers or is_missing_one, "num_teachers", num_teachers, rule)


@dataclass(frozen=True)
class ClippedSum:
    """Adds up votes minus a center, each teacher's scaled down to the length `clip` if it is longer.

    Rule: r = votes - center, over all queries and labels together; the teacher counts for min(1, clip / |r|) r, every
    entry of it rounded to a multiple of `step`. Whole numbers are added, so the sum depends neither on the order of
    the teachers nor on how they are cut into blocks.

    Formal guarantee: one change (a teacher's votes replaced by any others; a teacher added or removed) moves the sum by
    at most `l2_sensitivity` steps in l2, rounding and float errors counted in. A teacher of weight w moves it by at
    most w times that. The center and the clip are public, or were released at a price of their own.
    """

    clip: float  # the greatest length, > 0, in votes
    shape: tuple[int, int]  # (Q, L)
    # what one change means. Under add/remove the declared number of teachers stays, and fewer may vote.
    adjacency: Adjacency = Adjacency.REPLACE_ONE

    def __post_init__(self) -> None:
        require_positive("clip", self.clip)
        require(
            self.clip >= _LEAST_CLIP,
            "clip",
            self.clip,
            f"at least {_LEAST_CLIP:g}, whose square is a number",
        )
        for name, value in zip(("num_queries", "num_labels"), self.shape, strict=True):
            require_count(name, value)

    @property
    def step(self) -> float:
        """The grid's spacing, in votes: a power of 2, so small that rounding all entries is little beside the clip."""
        return 2.0 ** math.floor(
            math.log2(self.clip * _FINENESS / math.sqrt(math.prod(self.shape)))
        )

    @property
    def l2_sensitivity(self) -> float:
        """In steps: two clips where votes are replaced, one where a teacher comes or goes, and what rounding adds."""
        # Two contributions are rounded, and for factored votes two products with the span, by at most half a step an
        # entry each; the rest is room for the float errors of those products.
        rounding = 3 * math.sqrt(math.prod(self.shape))
        return self.adjacency.num_moved * self.clip / self.step * (1 + _FLOAT_ERROR) + rounding

    @staticmethod
    def most_queries(num_teachers: int, num_labels: int) -> int:
        """How many queries have an exact sum of so many teachers, whatever the clip."""
        # `total` asks for N (clip / step + 1) Q < 2^52, and clip / step is below 2 sqrt(Q L) / fineness
        return int(
            (0.999 * _LARGEST_SUM * _FINENESS / (2 * num_teachers * math.sqrt(num_labels)))
            ** (2 / 3)
        )

    def within(self, weights: Array) -> Array:
        """What contributions of weights in [0, 1] are scaled by: a little less, as rounding moves light ones as far."""
        # over the clips, float errors included
        rounding = self.l2_sensitivity * self.step / (self.adjacency.num_moved * self.clip) - 1
        scales = weights - (1 - weights) * rounding
        return np.where(scales < _LEAST_WEIGHT, 0.0, scales)

    def total(
        self, votes: Any, *, center: Any, num_teachers: int, weights: Array | None = None
    ) -> Integers:
        """The sum `[Q, L]` in steps.

        Votes are real numbers `[N, Q, L]`, or blocks of them or of `LowRankVotes`, whose center is taken off already
        and whose span is the same in all. The center is `[Q, L]`, `[L]` or a number; public weights are in [0, 1].
        """
        middle = np.broadcast_to(np.asarray(center, dtype=np.float64), self.shape)
        require(bool(np.isfinite(middle).all()), "center", "NaN or infinity", "finite numbers")
        largest = num_teachers * (self.clip / self.step + 1) * max(self.shape[0], 8)
        require(
            largest < _LARGEST_SUM,
            "num_teachers",
            num_teachers,
            "fewer teachers for sums of 53 bits",
        )
        dense = np.zeros(self.shape, dtype=np.int64)
        span = None
        factored = np.zeros((0, 0), dtype=np.int64)
        found = 0
        scales = None if weights is None else self.within(weights)
        for block in vote_blocks(
            votes, num_teachers=num_teachers, adjacency=self.adjacency, inside=False
        ):
            require(
                block.shape[1:] == self.shape,
                "votes.shape",
                block.shape,
                f"[c, {self.shape[0]}, {self.shape[1]}]",
            )
            of_block = None if scales is None else scales[found : found + len(block)]
            found += len(block)
            if not isinstance(block, LowRankVotes):
                dense += self._rounded(np.asarray(block - middle), of_block)
                continue
            if span is None:
                span = block.span
                factored = np.zeros(block.weights.shape[1:], dtype=np.int64)
            same = block.span is span or np.array_equal(block.span, span)
            require(same, "span", block.span.shape, "the same span in every block")
            factored += self._rounded(block.weights, of_block)
        return dense if span is None else dense + np.rint(span @ factored).astype(np.int64)

    def _rounded(self, residuals: Array, scales: Array | None) -> Integers:
        """The block's clipped contributions, rounded and added: whole numbers below 2**53, exactly."""
        flat = residuals.reshape(len(residuals), -1)
        lengths = _finite_lengths(flat)
        weights = self.clip / np.maximum(lengths, self.clip) / self.step
        if scales is not None:
            require(
                len(scales) == len(flat),
                "len(weights)",
                len(scales),
                "one for each teacher in votes",
            )
            weights *= scales
        scaled = np.rint(flat * weights[:, None])
        return np.asarray(scaled.sum(axis=0).astype(np.int64).reshape(residuals.shape[1:]))


def _finite_lengths(flat: Array) -> Array:
    lengths: Array = np.sqrt(np.einsum("ij,ij->i", flat, flat))
    require(bool(np.isfinite(lengths).all()), "votes", "NaN or infinity", _FINITE)
    return lengths


@dataclass(frozen=True)
class ClippedMoments:
    """Adds up feature x residual^T `[D, L]`, a teacher's mean over its records, scaled down to `clip` if it is longer.

    Rule: features have length at most 1 and are cut to multiples of 2**-14, towards 0. Of a teacher with one record the
    residual is clipped and cut to its own grid, so that the sum over teachers is one product of whole numbers below
    2**53: exact, in whatever order it is added. Of a teacher with a few records their residuals are scaled down
    together and cut to that grid, with room for what cutting may add. Of a teacher with many the mean of the products
    is clipped and cut to the product of both grids.

    Formal guarantee: one change (a teacher's records replaced by any others; a teacher added or removed) moves the sum
    by at most `l2_sensitivity` steps in l2. A teacher of weight w, by which its vote and its clip are multiplied, moves
    it by at most w times that. The clip is public or was released. Source: docs/proofs/vote_rounds.md.
    """

    clip: float  # the greatest length, > 0
    num_teachers: int  # N, declared
    adjacency: Adjacency = Adjacency.REPLACE_ONE  # what one change means

    def __post_init__(self) -> None:
        require(
            require_positive("clip", self.clip) >= _LEAST_CLIP,
            "clip",
            self.clip,
            f"at least {_LEAST_CLIP:g}",
        )
        require_count("num_teachers", self.num_teachers)
        largest = self.num_teachers * FEATURE_STEPS * 2 * _RESIDUAL_STEPS
        require(
            largest < _LARGEST_SUM,
            "num_teachers",
            self.num_teachers,
            "fewer teachers for sums of 53 bits",
        )

    @property
    def step(self) -> float:
        """The grid's spacing: a power of 2."""
        return 1 / (FEATURE_STEPS * self._residual_steps)

    @property
    def l2_sensitivity(self) -> float:
        """In steps: two clips where a teacher is replaced, one where it comes or goes."""
        return self.adjacency.num_moved * self.clip / self.step * (1 + _FLOAT_ERROR)

    def of_single(
        self, features: NDArray[np.float32], residuals: Array, weights: Array | float = 1.0
    ) -> Integers:
        """The sum over n teachers with one record each, `[D, L]` in steps.

        Features `[n, D]` are whole numbers, multiples of 2**-14 times that; weights `[n]`, or one, are in [0, 1].
        """
        clipped = residuals * (self._weights(residuals) * weights)[:, None]
        # products are exact in any order; this one is the fastest
        whole = np.trunc(clipped * self._residual_steps)
        return np.asarray((whole.T @ features.astype(np.float64)).T.astype(np.int64))

    def of_few(
        self, features: NDArray[np.float32], residuals: Array, weights: Array | float = 1.0
    ) -> Integers:
        """The sum over teachers with n records each, whose products need not be formed one by one.

        The length of a teacher's mean product comes from the n x n products of its features `[c, n, D]` and of its
        residuals `[c, n, L]`, with c n <= 4096 and n <= 32.
        """
        num, size, num_labels = residuals.shape
        counted = np.broadcast_to(weights, num)
        each = residuals / size * counted[:, None, None]
        wide = features.astype(np.float64)
        alike = (
            (wide @ wide.transpose(0, 2, 1)) * (each @ each.transpose(0, 2, 1)) / FEATURE_STEPS**2
        )
        lengths = np.sqrt(np.maximum(alike.sum(axis=(1, 2)), 0))
        before = np.sqrt((each**2).sum(axis=2)).sum(axis=1)
        require(bool(np.isfinite(before).all()), "votes", "NaN or infinity", _FINITE)
        room = np.maximum(
            counted * self.clip - size * math.sqrt(num_labels) / self._residual_steps, 0.0
        )
        scales = room / np.maximum(
            np.maximum(lengths, before / _MOST_CANCELED), np.maximum(room, _TINY)
        )
        whole = np.trunc(each * (scales * self._residual_steps)[:, None, None])
        rows = wide.reshape(num * size, -1).T @ whole.reshape(num * size, num_labels)
        return np.asarray(rows.astype(np.int64))

    def of_several(self, means: Array, weights: Array | float = 1.0) -> Integers:
        """The sum over teachers of such weights, whose mean products `[c, D, L]` have features no longer than 1."""
        flat = means.reshape(len(means), -1)
        scaled = flat * (self._weights(flat) * weights / self.step)[:, None]
        return np.asarray(np.trunc(scaled).sum(axis=0).astype(np.int64).reshape(means.shape[1:]))

    @property
    def _residual_steps(self) -> float:
        return float(_RESIDUAL_STEPS / 2.0 ** math.floor(math.log2(self.clip)))

    def _weights(self, flat: Array) -> Array:
        return np.asarray(self.clip / np.maximum(_finite_lengths(flat), self.clip))
