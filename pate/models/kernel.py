"""Teachers that vote in directions of the public pool, and students of what is released in such directions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pate.aggregators.release import NoisyScores, TrainingSet
from pate.models.hyperparameters import require_settings
from pate.models.linear import LinearModel
from pate.models.logistic import LogisticStudent
from pate.models.student import OnEpoch, Student, require_rows
from pate.models.student_model import FlatModel, Labels, Rows, StudentModel
from pate.models.teacher import Voter
from pate.pool import in_order
from pate.validation import InvalidValue, require, require_each, require_non_negative
from pate.votes.blocks import LowRankVotes
from pate.votes.convex_votes import ConvexVotes
from pate.votes.counts import Bits
from pate.votes.descent import expected_f1_threshold
from pate.votes.label_shares import mean_labels
from pate.votes.moment_votes import MomentVotes
from pate.votes.public_pca import PublicPCA, affordable_directions
from pate.votes.recipe import DEFAULT_RECIPE, Recipe
from pate.votes.shrinkage import shrink_singular_values
from pate.votes.source import FunctionVotes, GroupVotes, VoteSource
from pate.votes.weighted import Array

if TYPE_CHECKING:
    from pate.data import Dataset, Partition, Split


# of penalties: with less, training may take long; with more, nothing is learned
_LEAST = 1e-3
_MOST = 1e6
_BLOCK_ENTRIES = 2**22
_BLOCK_RECORDS = 4096


@dataclass(frozen=True)
class KernelTeacher(Voter):
    """Votes in the directions of the public pool, without training, for any number of teachers.

    Rule: teacher t's votes on the queries, minus the prevalence p, are

        sqrt(Q / n_t)  span @ sum over its n_t records of  features(x) (y - p)^T,

    where `features` have length 1 and `span` is orthonormal (`PublicPCA`). A record's votes are then as long as
    its labels' distance from the prevalence, and the sum over teachers, projected on the span, is what a release of the
    sum over records would be. With one record per teacher, the record and the teacher are the same unit.

    In rounds p is what a student released before says of each record. A teacher's vote is the mean over
    its n_t records of `PublicPCA.with_constant` times (y - p). It counts sqrt(n_t / m) times, m being the records that
    a teacher would have with groups as large as those of the public pool.

    Formal guarantee: a teacher's votes are a function of its own records, the public pool, the queries and p.

    Attributes:
        num_directions: of the public pool, >= 1, or None for `affordable_directions`: a function of the price, the
            numbers of teachers, records and labels.
        nonlinear: whether a kernel's components stand beside the pool's directions in rounds (`PublicKernel`), as many
            as can be afforded. None for where these are eight times as many as the pool has directions.
    """

    gives: ClassVar[type[VoteSource]] = FunctionVotes
    is_trained: ClassVar[bool] = False

    num_directions: int | None = None
    nonlinear: bool | None = None

    def __post_init__(self) -> None:
        require_settings(self)
        require(
            self.nonlinear in (None, True, False),
            "nonlinear",
            self.nonlinear,
            "true, false or null",
        )

    def votes_of(self, dataset: Dataset, partition: Partition, num_queries: int) -> KernelVotes:
        """Returns the votes of teachers with one private group each."""
        return KernelVotes(
            private=dataset.private,
            public=dataset.public,
            num_queries=num_queries,
            teacher_of=partition.teacher_of,
            num_teachers=partition.num_teachers,
            num_directions=self.num_directions,
            nonlinear=self.nonlinear,
        )

    @staticmethod
    def records_per_group(public: Split, recipe: Recipe = DEFAULT_RECIPE) -> float:
        """Returns the mean number of records of the pool's groups; 1 for a pool of too few groups."""
        num_groups = public.num_groups
        has_enough = num_groups >= recipe.fewest_public_groups
        return len(public) / num_groups if has_enough else 1.0


@dataclass(frozen=True)
class ConvexTeacher(Voter):
    """Trains linear teachers in every round, and pays for one private group where others pay for a whole teacher.

    Rule: in each round a teacher fits its own records' residuals against the public student, in directions of the
    public pool. The loss is strongly convex, and no group pulls on it harder than the clip. What is summed are weights
    times the penalty (`ConvexVotes`). The first records of a group count, up to 16 times as many as are expected.

    Formal guarantee: where one private group is replaced, the sum moves by at most two clips, however many groups and
    teachers there are. Where all records of one teacher are replaced, it may move further.

    Attributes:
        penalty: of the squared weights, in units of an average direction's variance, 0.001 to 1e6. A larger one gives
            votes with less noise; a smaller one leaves more to each teacher.
        num_directions: of the public pool, >= 1, or None for as many as the noise makes worthwhile (`KernelTeacher`).
    """

    gives: ClassVar[type[VoteSource]] = GroupVotes

    penalty: float = 10.0
    num_directions: int | None = None

    def __post_init__(self) -> None:
        require_settings(self)
        require(
            _LEAST <= self.penalty <= _MOST,
            "penalty",
            self.penalty,
            f"a number from {_LEAST:g} to {_MOST:g}",
        )

    def votes_of(
        self, dataset: Dataset, partition: Partition, num_queries: int
    ) -> GroupKernelVotes:
        """Of groups as if they were teachers: what one says is what the teacher that has it learns of it."""
        _, first, group_of = np.unique(
            dataset.private.group_ids, return_index=True, return_inverse=True
        )
        learner_of = partition.teacher_of[first]
        num_learners = partition.num_teachers
        moments = partial(
            ConvexVotes, learner_of=learner_of, num_learners=num_learners, penalty=self.penalty
        )
        return GroupKernelVotes(
            private=dataset.private,
            public=dataset.public,
            teacher_of=group_of.astype(np.int64),
            num_teachers=len(first),
            num_queries=num_queries,
            num_directions=self.num_directions,
            moments=moments,
        )


@dataclass(eq=False, kw_only=True)
class KernelVotes(FunctionVotes):
    """Functions on the queries, in public directions, around a center: made where they are read."""

    private: Split  # `[n, …]`
    teacher_of: NDArray[np.int64]  # `[n]`, private
    num_teachers: int
    public: Split  # the whole pool, of which the first ones are asked
    num_queries: int
    num_directions: int | None = None
    moments: Callable[..., MomentVotes] = MomentVotes  # makes the votes in rounds
    nonlinear: bool | None = False  # see `KernelTeacher`

    def __post_init__(self) -> None:
        self.num_labels = self.private.labels.shape[1]
        self.num_groups = self.private.num_groups
        self.records_per_teacher = self.num_groups / self.num_teachers
        self.queries = np.asarray(self.public.inputs[: self.num_queries], dtype=np.float32)

    def bits(self) -> Iterator[Bits]:
        """Raises `InvalidValue`: kernel teachers vote by functions, not by bits."""
        rule = "teachers that are trained, such as linear, or aggregator=centered_votes"
        raise InvalidValue("teacher", "KernelTeacher", rule=rule)

    def label_shares(self) -> Array:
        """Returns each teacher's share of its own records with each label, `[N, L]`."""
        return mean_labels(self.private.labels, self.teacher_of, self.num_teachers)

    def span(self, *, noise_multiplier: float, recipe: Recipe = DEFAULT_RECIPE) -> Array:
        """Returns the public basis `[Q, r]` that all votes lie in."""
        directions = self._directions_at_once(noise_multiplier, recipe)
        key = ("span", noise_multiplier, recipe)
        return np.asarray(self.remembered(key, lambda: directions.span(self.queries)))

    def votes_around(
        self, center: Array, *, noise_multiplier: float, recipe: Recipe = DEFAULT_RECIPE
    ) -> Iterator[LowRankVotes]:
        """Yields the votes of teachers 0, 1, …, a block at a time, by the rule of `KernelTeacher`.

        Inputs are read a few thousand rows at a time, so images may stay on disk. Every teacher has a record.
        """
        require(
            center.ndim < 2,
            "center.shape",
            center.shape,
            "one number per label for kernel teachers",
        )
        inputs = self.private.inputs
        labels = self.private.labels
        total = self.num_teachers
        directions = self._directions_at_once(noise_multiplier, recipe)
        span = directions.span(self.queries)
        order = np.argsort(self.teacher_of, kind="stable")
        sizes = np.bincount(self.teacher_of, minlength=total)
        require(
            len(sizes) == total,
            "num_teachers",
            total,
            f"{len(sizes)}, the teachers of the partition",
        )
        require_each("teacher", np.arange(total), sizes > 0, "at least one record")
        bounds = np.append(0, np.cumsum(sizes))
        size = max(1, _BLOCK_ENTRIES // (span.shape[1] * self.num_labels))
        for first in range(0, total, size):
            block_bounds = bounds[first : first + size + 1]
            rows = order[block_bounds[0] : block_bounds[-1]]
            blocks = np.split(rows, range(_BLOCK_RECORDS, len(rows), _BLOCK_RECORDS))
            of_blocks = in_order(lambda block: directions.features(inputs[block]), blocks)
            features = np.concatenate(list(of_blocks))  # [n, k]
            residuals: Array = labels[rows] - np.broadcast_to(center, labels.shape[1:])
            if len(rows) == len(block_bounds) - 1:  # a record each
                weights = np.asarray(features[:, :, None] * residuals[:, None, :])
            else:
                pairs = pairwise((block_bounds - block_bounds[0]).tolist())
                # [c, k, L]
                weights = np.stack(
                    [features[start:end].T @ residuals[start:end] for start, end in pairs]
                )
            weights *= np.sqrt(self.num_queries / np.diff(block_bounds))[:, None, None]
            yield LowRankVotes(span, weights)

    def in_rounds(self, *, noise_multiplier: float, recipe: Recipe = DEFAULT_RECIPE) -> MomentVotes:
        """Returns the votes as teachers cast them against a student."""
        directions = self._directions_in_rounds(noise_multiplier, recipe)
        private = self.private
        records_per_group = KernelTeacher.records_per_group(self.public, recipe)
        records = self.records_per_teacher * records_per_group
        rows = self.public.inputs[: max(recipe.public_rows, self.num_queries)]
        made = partial(
            self.moments,
            directions=directions,
            public_inputs=rows,
            inputs=private.inputs,
            labels=private.labels,
            teacher_of=self.teacher_of,
            num_teachers=self.num_teachers,
            records_per_teacher=records,
            weights=self.weights,
        )
        moments: MomentVotes = self.remembered(("moments", directions.width, recipe), made)
        return moments

    def _directions_at_once(self, noise_multiplier: float, recipe: Recipe) -> PublicPCA:
        """Returns the directions of one matrix of votes: no more than there are queries."""
        count = self._num_affordable(noise_multiplier, recipe.noise_share_at_once)
        count = min(count, self.num_queries)
        fit = partial(PublicPCA.fit, np.asarray(self.public.inputs), count, recipe=recipe)
        directions: PublicPCA = self.remembered(("directions", count, recipe), fit)
        return directions

    def _directions_in_rounds(self, noise_multiplier: float, recipe: Recipe) -> PublicPCA:
        """Returns the directions of votes in rounds, and a kernel's components beside them."""
        count = self._num_affordable(noise_multiplier, recipe.noise_share_in_rounds)
        fit = partial(
            PublicPCA.fit,
            np.asarray(self.public.inputs),
            count,
            ridge=recipe.ridge_in_rounds,
            kernel_from={None: recipe.kernel_from, True: 1.0, False: None}[self.nonlinear],
            recipe=recipe,
        )
        directions: PublicPCA = self.remembered(("directions in rounds", count, recipe), fit)
        return directions

    def _num_affordable(self, noise_multiplier: float, noise_share: float) -> int:
        """Returns as many directions of the pool as the noise makes worthwhile: a function of public numbers."""
        records = self.num_groups * self.total_weight / self.num_teachers
        return self.num_directions or affordable_directions(
            noise_multiplier=noise_multiplier,
            noise_share=noise_share,
            num_labels=self.num_labels,
            num_teachers=max(1, round(self.total_weight)),
            num_records=max(1, round(records)),
        )


class GroupKernelVotes(KernelVotes, GroupVotes):
    """Functions of private groups, which teachers learn from in every round."""

    def votes_around(
        self, center: Array, *, noise_multiplier: float, recipe: Recipe = DEFAULT_RECIPE
    ) -> Iterator[LowRankVotes]:
        """Raises `InvalidValue`: these votes are cast in rounds alone."""
        raise InvalidValue("teacher", "ConvexTeacher", rule="centered_votes, which asks in rounds")


class LowRankModel(FlatModel):
    """Features of length 1, linear scores, and for each label the score from which it is predicted.

    A probability is the logistic function of the score's distance to its label's threshold, in spreads of the scores:
    its order is what counts.
    """

    kind = "low_rank"
    forms: ClassVar[Mapping[str, str]] = {
        "center": "d",
        "projection": "dk",
        "weights": "kL",
        **dict.fromkeys(("thresholds", "spreads"), "L"),
    }

    @staticmethod
    def formula(rows: Any, arrays: Mapping[str, Any], xp: Any) -> Any:
        """The rule of prediction, in words for a model card."""
        features = (rows - arrays["center"]) @ arrays["projection"]
        lengths = xp.linalg.norm(features, axis=1, keepdims=True)
        scores = features / xp.where(lengths > 0, lengths, 1) @ arrays["weights"]
        return 0.5 + 0.5 * xp.tanh((scores - arrays["thresholds"]) / arrays["spreads"] / 2)


@dataclass(frozen=True)
class LowRankStudent(Student):
    """Linear scores in the directions of a public pool, of low rank, with thresholds matched to a prevalence.

    Rule: project what was released beyond the center on the features of the queries. Shrink singular values as the
    known noise demands (`shrink_singular_values`). Place a label's threshold so that a share of the public pool equal
    to its prevalence exceeds it. Nothing is tuned on released labels, nothing is random.

    From bits alone (`fit`) a label's share among the rows stands for the prevalence, the rows for the pool, and the
    spread of the bits for the noise.

    Attributes:
        num_directions: at most that many principal directions of the pool, >= 1.
    """

    num_directions: int = 128

    def __post_init__(self) -> None:
        require_settings(self)

    @property
    def ceiling(self) -> LogisticStudent:
        """Returns a student for the labels of all private records, which have no noise."""
        return LogisticStudent()

    def fit(
        self, inputs: Rows, labels: Labels, *, seed: int, on_epoch: OnEpoch | None = None
    ) -> StudentModel:
        """Fits a model to released scores, whose noise is known."""
        rows, labels = require_rows(inputs, labels, seed)
        prevalence = labels.mean(axis=0) if len(labels) else np.zeros(labels.shape[1])
        if len(np.unique(rows, axis=0)) < 2:  # the labels of rows that are all alike, or none
            return LinearModel.constant(prevalence >= 0.5, inputs)
        noise_std = float(np.sqrt((prevalence * (1 - prevalence)).mean()))
        model = self.fit_scores(rows, NoisyScores(labels - prevalence, noise_std, prevalence), rows)
        never = np.where(labels.any(axis=0), 0, np.inf).astype(np.float32)
        arrays = dict(model.arrays) | {"thresholds": model.arrays["thresholds"] + never}
        if on_epoch is not None:
            on_epoch(0, {"loss": float((labels != model.predict(rows)).mean())})
        return LowRankModel(arrays, 0.5, np.shape(inputs)[1:], len(rows), model.choices)

    def learn(
        self, training: TrainingSet, *, pool: Rows, seed: int, on_epoch: OnEpoch | None = None
    ) -> StudentModel:
        """The released weights themselves, or from the scores, where there are some."""
        if training.weights is None and training.scores is None:
            return super().learn(training, pool=pool, seed=seed, on_epoch=on_epoch)
        inputs = np.asarray(training.inputs, dtype=np.float32)
        public = np.concatenate([inputs, np.asarray(pool, dtype=np.float32)])
        if training.scores is None or training.weights is not None:
            return ReleasedModel.of(
                np.asarray(training.weights), public, len(inputs), training.recipe
            )
        return self.fit_scores(inputs, training.scores, public, training.recipe)

    def fit_scores(
        self, inputs: Rows, released: NoisyScores, pool: Rows, recipe: Recipe = DEFAULT_RECIPE
    ) -> LowRankModel:
        """Trains on released scores of queries, `[Q, …]`; the pool, `[n, …]`, places directions and thresholds.

        Votes that were cast in `PublicPCA.span` of the queries know the number of its directions; others are functions
        on the queries, found by regression.
        """
        noise_std = released.noise_std
        in_span = released.num_directions is not None
        require_non_negative("noise_std", noise_std)
        scores, prevalence = (
            np.asarray(each, dtype=np.float64) for each in (released.values, released.prevalence)
        )
        good = scores.ndim == 2 and len(scores) == len(inputs) and bool(np.isfinite(scores).all())
        require(good, "scores.shape", scores.shape, f"finite numbers [{len(inputs)}, num_labels]")
        require(
            prevalence.shape == scores.shape[1:],
            "prevalence.shape",
            prevalence.shape,
            f"{scores.shape[1:]}",
        )
        count = min(released.num_directions or self.num_directions, len(inputs))
        directions = PublicPCA.fit(pool, count, recipe=recipe)
        # [k, L]
        coefficients = shrink_singular_values(
            directions.span(inputs).T @ scores, noise_std=noise_std
        )
        rank = int(np.linalg.matrix_rank(coefficients)) if coefficients.any() else 0
        # weights that give, on the features `[Q, k]`, what its projection on their span is
        if not in_span:
            _, singular, right = np.linalg.svd(directions.features(inputs), full_matrices=False)
            inverse = np.divide(
                1, singular, out=np.zeros_like(singular), where=(singular > 1e-6 * singular[0])
            )
            coefficients = np.asarray((right.T * inverse) @ (right @ coefficients))
        of_pool = directions.features(pool) @ coefficients  # [n, L]
        share = prevalence.clip(recipe.prevalence_floor, 1 - recipe.prevalence_floor)
        thresholds = np.array(
            [np.quantile(column, 1 - p) for column, p in zip(of_pool.T, share, strict=True)]
        )
        spreads = of_pool.std(axis=0)
        flat = spreads <= 1e-12 * (spreads.max() or 1.0)
        thresholds = np.where(flat & (share < 0.5), np.inf, thresholds)
        spreads = np.where(flat, 1, spreads)
        learned = directions.center, directions.projection, coefficients, thresholds, spreads
        arrays = dict(zip(LowRankModel.forms, learned, strict=True))
        floats = {name: np.asarray(array, dtype=np.float32) for name, array in arrays.items()}
        choices = {"directions": float(len(coefficients)), "rank": float(rank)}
        return LowRankModel(floats, 0.5, np.asarray(inputs).shape[1:], len(inputs), choices)


class ReleasedModel(FlatModel):
    """Calibrated probabilities: the logistic function of linear scores on features of one length.

    Where there is a weight more than directions, features have a height (`PublicPCA.with_constant`).
    """

    kind = "released"
    forms: ClassVar[Mapping[str, str]] = {
        "center": "d",
        "projection": "dk",
        "weights": "wL",
        "bias": "L",
    }

    @staticmethod
    def of(
        weights: Array, public_inputs: Rows, num_rows: int, recipe: Recipe = DEFAULT_RECIPE
    ) -> ReleasedModel:
        """That of released weights `[D, L]`, its threshold the best expected micro-F1 on public inputs.

        Weights are on `PublicPCA.with_constant` of directions of all public inputs, float32 `[m, …]`. More of them than
        these have directions and a height are of a kernel.
        """
        directions = PublicPCA.fit(
            public_inputs,
            len(weights) - 1,
            ridge=recipe.ridge_in_rounds,
            kernel_from=1.0,
            recipe=recipe,
        )
        constant = recipe.constant_feature
        arrays: dict[str, Array] = {
            "center": directions.center,
            "projection": directions.projection,
            "weights": weights[:-1] * np.sqrt(1 - constant**2),
            "bias": weights[-1] * constant,
        }
        if (kernel := directions.kernel) is not None:
            beside = {
                "landmarks": kernel.landmarks,
                "components": kernel.weights,
                "linear": kernel.linear,
            }
            arrays |= beside | {"reach": np.array([kernel.reach])}
        floats = {name: np.asarray(array, dtype=np.float32) for name, array in arrays.items()}
        shape = np.asarray(public_inputs).shape[1:]
        cls = ReleasedModel if kernel is None else ReleasedKernelModel
        model = cls(
            floats,
            0.5,
            shape,
            num_rows,
            {"directions": float(directions.width - directions.has_height)},
        )
        threshold = expected_f1_threshold(model.predict_proba(public_inputs))
        return cls(floats, threshold, shape, num_rows, model.choices)

    @staticmethod
    def formula(rows: Any, arrays: Mapping[str, Any], xp: Any) -> Any:
        """The rule of prediction, in words for a model card."""
        features = (rows - arrays["center"]) @ arrays["projection"]
        weights = arrays["weights"]
        lengths = xp.linalg.norm(features, axis=1, keepdims=True)
        if len(weights) == arrays["projection"].shape[1]:
            scores = (features @ weights) / xp.where(lengths > 0, lengths, 1)
        else:
            # no graph has a hypotenuse
            raised = np.hypot(lengths, 1) if xp is np else (lengths**2 + 1).sqrt()
            scores = (features @ weights[:-1] + weights[-1]) / raised
        return FlatModel.logistic(scores + arrays["bias"])


class ReleasedKernelModel(ReleasedModel):
    """The same with a kernel's components beside the directions and their height (`PublicKernel`)."""

    kind = "released_kernel"
    _beside: ClassVar[Mapping[str, str]] = {
        "landmarks": "mD",
        "components": "mK",
        "linear": "DK",
        "reach": "1",
    }
    forms: ClassVar[Mapping[str, str]] = {**ReleasedModel.forms, **_beside}

    def _probabilities(self, rows: Rows) -> Rows:
        blocks = np.split(rows, range(_BLOCK_RECORDS, len(rows), _BLOCK_RECORDS))
        return np.concatenate(list(in_order(super()._probabilities, blocks)))

    @staticmethod
    def formula(rows: Any, arrays: Mapping[str, Any], xp: Any) -> Any:
        """The rule of prediction, in words for a model card."""
        projected = (rows - arrays["center"]) @ arrays["projection"]
        linear = xp.concatenate([projected, xp.ones_like(projected[:, :1])], axis=1)
        cosines = linear / xp.linalg.norm(linear, axis=1, keepdims=True) @ arrays["landmarks"].T
        beside = (
            xp.exp((cosines - 1) / arrays["reach"]) @ arrays["components"]
            - linear @ arrays["linear"]
        )
        features = xp.concatenate([linear, beside], axis=1)
        scores = features @ arrays["weights"] / xp.linalg.norm(features, axis=1, keepdims=True)
        return FlatModel.logistic(scores + arrays["bias"])
