"""PATE as a scikit-learn estimator."""

import hashlib
import heapq
import math
import os
import secrets
import sys
import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, is_regressor
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, check_X_y, validate_data

from pate.accounting import (
    Accountant,
    Adjacency,
    AutoAccountant,
    Budget,
    Ledger,
    PrivacyUnit,
)
from pate.accounting.ledger import ChargeNote
from pate.accounting.rounding import format_delta, format_epsilon
from pate.aggregators import Aggregator, TrainingSet
from pate.aggregators.record import MemoryRecord
from pate.classifier import samples
from pate.classifier.samples import (
    Bits,
    LabelSets,
    Model,
    OneClass,
    Pools,
    Rows,
    Task,
    dense,
    is_frame,
    taken,
)
from pate.data.partition import Partition
from pate.models.sklearn import minds_scale, of_a_part, takes_nan
from pate.models.student import OnEpoch
from pate.networks.device import one_blas_thread
from pate.pricing import PricedRelease, SettingNames, plan_release, require_useful
from pate.pricing.priced_release import require_achievable_delta
from pate.run.payment import by_its_setting, require_room, seed_name
from pate.run.plan_warnings import (
    constant_student_warnings,
    few_records_warnings,
    one_label_warning,
    uneven_inputs_warnings,
)
from pate.run.random_streams import RandomStreams
from pate.run.release import draw
from pate.validation import (
    InvalidValue,
    printable,
    require,
    require_array,
    require_count,
    require_moderate,
    require_positive,
)
from pate.votes.shape import VoteShape
from pate.votes.source import Array, VoteSource, mean_labels

# ruff: noqa: N803 -- X is what scikit-learn calls it
# public samples that estimators of a DataFrame are tried on
_REHEARSED = 200
_FEWEST = 20
_SHOWN = 120
_ROWS = 1000  # of a sparse matrix that are in full at a time
_NAMES = SettingNames(
    num_teachers="n_teachers={}",
    target_epsilon="epsilon={}",
    num_queries="n_queries={}",
    noise="an aggregator with {}",
    allow_useless="allow_useless=True",
)
_ONE_ROW = PrivacyUnit("one row")
_ONE_GROUP = PrivacyUnit("one value of groups, with all its rows", ("groups",))
_UNGROUPED = (
    "this is a fit of a clone, as searches and cross-validation make them, without groups: its epsilon is for one row."
    " A search gives groups= to its splitter alone; to protect groups, call"
    " sklearn.set_config(enable_metadata_routing=True) and set_fit_request(X_public=True, groups=True)"
)
# of each fit: the smallest digests, so that fits with records in common keep records in common
_KEPT = 1000


class DoubtfulPlan(UserWarning):
    """A warning: this fit is allowed, but its noise probably hides the votes."""


class SeededNoise(UserWarning):
    """Noise came from a seed: it protects nobody who knows the seed."""


class RepeatedRelease(UserWarning):
    """An earlier fit released something about the same private records."""


class UngroupedFit(UserWarning):
    """A fit of a clone, as a search makes it, was given no groups: its epsilon is for one row."""


@dataclass(frozen=True)
class PastFits:
    """Fits of this process that released something about one record. It is there to warn; what counts is a ledger."""

    count: int = 0
    epsilon: float = 0.0  # the sum of their prices; infinity where no sum covers them
    delta: float = 0.0  # the sum of their deltas, at which `epsilon` holds
    seeds: frozenset[int] = frozenset()  # of their noise
    changes: frozenset[tuple[PrivacyUnit, Adjacency]] = frozenset()  # what their prices are for

    def with_fit(
        self,
        epsilon: float,
        delta: float,
        *,
        seed: int | None,
        unit: PrivacyUnit,
        adjacency: Adjacency,
    ) -> Self:
        """Adds a fit. Two with one seed share their noise, and prices for two units have no sum: infinity."""
        changes = self.changes | {(unit, adjacency)}
        total = self.epsilon + epsilon
        total_delta = min(self.delta + delta, 1.0)
        if seed in self.seeds or len(changes) > 1 or total_delta == 1:
            total = math.inf
        seeds = self.seeds if seed is None else self.seeds | {seed}
        return replace(
            self,
            count=self.count + 1,
            epsilon=total,
            delta=total_delta,
            seeds=seeds,
            changes=changes,
        )


# By digests of records, under a key that ends with the process.
_KEY = secrets.token_bytes(16)
_FITS = dict[bytes, PastFits]()


@contextmanager
def stage(name: str, verbose: int) -> Iterator[None]:
    """Says on standard output, as scikit-learn does, what was done and how long it took."""
    started = time.monotonic()
    yield
    if verbose:
        sys.stdout.write(f"[PATEClassifier] {name}: {time.monotonic() - started:.1f} s\n")


@dataclass(frozen=True)
class EstimatorStudent:
    """A `Learner`: a clone of an estimator, fitted to the answers that it can learn from; so is a teacher."""

    task: Task  # how an estimator is fitted to labels
    estimator: Any  # unfitted

    def learn(
        self, training: TrainingSet, *, pool: Rows, seed: int, on_epoch: OnEpoch | None = None
    ) -> Model:
        """Without the pool and the scores, for which estimators have no use."""
        rows = self.task.usable(training.labels)
        return self.task.fit(
            self.estimator, taken(training.inputs, rows), training.labels[rows], seed=seed
        )

    def confidences(
        self, inputs: Rows, targets: Bits, seed: int, queries: Rows
    ) -> NDArray[np.float32]:
        """A teacher's, `[1, Q, L]`, on one thread, whose last bits do not depend on the machine's load."""
        with one_blas_thread(), of_a_part(self.estimator):
            return self.task.fit(self.estimator, inputs, targets, seed=seed).confidences(queries)[
                None
            ]

    def rehearse(self, name: str, queries: Any) -> None:
        """Fits the estimator to public samples and labels that say nothing: what cannot take them is told for free."""
        some = queries[:_REHEARSED]
        if len(some) < _FEWEST:
            return
        bits = np.zeros((len(some), self.task.num_labels), np.bool_)
        bits[np.arange(len(some)), np.arange(len(some)) % min(2, self.task.num_labels)] = True
        try:
            self.task.fit(self.estimator, some, bits, seed=0).predict(some)
        except (ValueError, TypeError) as error:
            said = " ".join(str(error).split())[:_SHOWN]
            rule = f"one that takes the columns of X, such as a pipeline with a ColumnTransformer ({said})"
            raise InvalidValue(
                f"{name}={type(self.estimator).__name__}: expected {rule}"
            ) from error


@dataclass(eq=False)
class FittedVotes(VoteSource):
    """Votes of clones of an estimator, fitted every time that they are asked: those of a run with the same streams."""

    task: Task
    estimator: Any
    pools: Pools
    num_teachers: int
    streams: RandomStreams
    num_jobs: int | None
    verbose: int = 0

    def __post_init__(self) -> None:
        self.num_queries = len(self.pools.queries)
        self.num_labels = self.task.num_labels
        self.partition = Partition.draw(
            self.pools.groups, self.num_teachers, self.streams.generator("partition")
        )
        self.records_per_teacher = len(np.unique(self.pools.groups)) / self.num_teachers

    def bits(self) -> Iterator[Bits]:
        return (block >= 0.5 for block in self.confidences())

    def confidences(self) -> Iterator[NDArray[np.float32]]:
        inputs = self.pools.inputs
        targets = self.pools.targets
        queries = self.pools.queries
        ask = delayed(EstimatorStudent(self.task, self.estimator).confidences)
        rows = [self.partition.indices(teacher) for teacher in range(self.num_teachers)]
        seeds = self.streams.seeds("teachers", self.num_teachers)
        parallel = Parallel(n_jobs=self.num_jobs, return_as="generator", verbose=self.verbose)
        said: Iterator[NDArray[np.float32]] = parallel(
            ask(taken(inputs, shard), targets[shard], seed, queries)
            for shard, seed in zip(rows, seeds, strict=True)
        )
        return said

    def label_shares(self) -> Array:
        return mean_labels(self.pools.targets, self.partition.teacher_of, self.num_teachers)


def unit_of(groups: Any) -> PrivacyUnit:
    """Returns what one change replaces: a row, or a group, which the column is named of that has a name.

    A ledger of fits so tells the patients of a DataFrame from its visits.

    >>> unit_of([1, 1, 2]).words
    'one value of groups, with all its rows'
    """
    if groups is None:
        return _ONE_ROW
    name = getattr(groups, "name", None)  # of a column of pandas or polars
    if name is None or name == "":
        return _ONE_GROUP
    column = printable(str(name))
    return PrivacyUnit(
        f"one value of groups, here the column {column}, with all its rows", (str(name),)
    )


def streams_of(random_state: Any) -> RandomStreams:
    """The streams of a seed, which are those of a run with it; without one, of a secret that nothing keeps.

    A shared generator, which would hide where the noise came from, is refused.
    """
    if random_state is None:
        return RandomStreams.from_secret()
    try:
        seed = require_count("random_state", random_state, minimum=0)
    except InvalidValue as error:
        raise InvalidValue(f"{error}, or None for noise from the operating system") from None
    line = f"random_state={seed}: the noise comes from this seed and protects nobody who knows it"
    warnings.warn(line, SeededNoise, stacklevel=3)
    return RandomStreams(seed)


def repeats(
    inputs: NDArray[np.float32],
    epsilon: float,
    delta: float,
    *,
    seed: int | None,
    unit: PrivacyUnit,
    adjacency: Adjacency,
) -> PastFits:
    """Enters a fit; returns those of a record that was part of the most, this one included, at their largest price."""
    digests = {
        hashlib.blake2b(row.data, digest_size=8, key=_KEY).digest()
        for row in samples.rows_as_bytes(inputs)
    }
    most = PastFits()
    for digest in heapq.nsmallest(_KEPT, digests):
        past = _FITS.get(digest, PastFits()).with_fit(
            epsilon, delta, seed=seed, unit=unit, adjacency=adjacency
        )
        _FITS[digest] = past
        if (past.epsilon, past.count) > (most.epsilon, most.count):
            most = past
    return most


@dataclass(eq=False, repr=False)
class PATEClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """A private classifier: teachers vote on public samples, the votes are released, a student learns from them.

    `fit(X, y, X_public=...)` deals the private records to `n_teachers` disjoint parts and fits a clone of `estimator`
    to each. It releases their votes on the public samples through `aggregator`, and fits `student` to that release.
    `y` is one class per record, `[n]`, or 0 and 1 for each label, `[n, L]`, or a set or list of words for each record.

    Formal guarantees:
        * What a fitted classifier holds is (`epsilon_`, `delta_`)-private for `adjacency_`: under replace-one, for the
          replacement of one private record, or of one group of them where `groups` are given. It holds no teacher, no
          vote and no part.
        * The price is fixed by the parameters and by the shapes of the data, and is charged before noise is drawn.
        * Not covered: public inputs, the number of records, and the set of classes (give `classes` where it is not
          public). Nor is whatever was done to the data before `fit`: scaling or feature selection fitted on private
          records is a release of its own. Inside `estimator` it is covered: `make_pipeline(StandardScaler(), ...)`.
        * Each fit is a release of its own. A search or a cross-validation makes many, whose prices add up, and its
          scores on held-out private records are covered by no epsilon.

    Edge cases: without an answered query the student predicts no label, or the first class. A fit of labels `[n, L]`
    with `random_state` makes the release of `pate-train` with this `seed`, where the aggregator goes by no prior. It
    warns: its noise protects nobody who knows the seed. A fit that fails keeps the earlier student and its classes;
    where the student could not be fitted, `release_` is the one that was paid for.

    Args:
        estimator: the teachers, cloned; None for `LogisticRegression(max_iter=300)`.
        student: fitted to public samples and released labels; None for a clone of `estimator`.
        n_teachers: T, public.
        aggregator: how votes are released; None for `GaussianVotes`, and for one class per sample
            `FixedTopK(k=1, ...)`, the exponential mechanism.
        epsilon: the aggregator's noise is solved for so that the release costs this; None takes the noise as it is.
        target_delta: in (0, 1).
        n_queries: how many public samples are asked about, the first ones; None for all.
        adjacency: replace_one or add_remove; an aggregator that is given must say the same.
        accountant: makes an empty accountant; None for the least sound price.
        classes: all classes, or the words of all sets, public; None takes those that occur in y, as public knowledge.
        public_fraction: declares that share of X public, in (0, 1): the last rows, or with `groups` all rows of the
            last groups by their first rows. Their inputs are not protected, their labels are not read. How many rows
            these are is public, and the same however many rows a private group has. For tools that call `fit(X, y)`
            and nothing else.
        ledger: path of a ledger file that every fit is charged to, that of a clone or in another process too.
        max_total_epsilon: what all fits in that ledger may cost together, kept in the file; a fit that does not fit in
            is refused before its teachers are fitted. It holds where each price is chosen by looking at earlier fits.
        n_jobs: processes that fit teachers, as in joblib.
        random_state: None for noise from the operating system, or a seed.
        allow_useless: whether a release that tells nothing, even where all teachers agree, is made with a warning; else
            it is refused, before anything is fitted, with what would work.
        verbose: 0 says nothing; 1 a line for each stage of a fit, 2 and more what joblib says of the teachers, too.

    Attributes:
        epsilon_: price of this fit's release at `delta_`.
        delta_: `target_delta`.
        adjacency_: what the price is for.
        unit_: the private records that one change replaces together, in words: one row, or one value of `groups` with
            all its rows, with the name of a DataFrame's column. The repr of a fitted classifier says it, too.
        spent_epsilon_: total of the ledger after this fit, if all prices were fixed beforehand; `epsilon_` without a
            ledger. Where fits were chosen by looking at earlier ones, `max_total_epsilon` is the guarantee.
        release_: labels `[Q, L]`, answered `[Q]`, event.
        aggregator_: as it was used.
        student_: the fitted model of released labels.
        classes_: as scikit-learn has it: `[C]`, or 0 and 1 for each label; of sets of words all words `[L]`.
        n_features_in_: d.

    >>> from sklearn.linear_model import RidgeClassifier
    >>> inputs = np.random.default_rng(0).standard_normal((3000, 4))
    >>> model = PATEClassifier(RidgeClassifier(), n_teachers=100, epsilon=4.0)
    >>> model = model.fit(inputs[:2000], inputs[:2000, 0] > 0, X_public=inputs[2000:2200])
    >>> bool(model.epsilon_ <= 4.0), model.score(inputs[2200:], inputs[2200:, 0] > 0) > 0.8
    (True, True)
    """

    estimator: Any = None
    _: KW_ONLY
    student: Any = None
    n_teachers: int = 100
    aggregator: Aggregator | None = None
    epsilon: float | None = 8.0
    target_delta: float = 1e-6
    n_queries: int | None = None
    adjacency: str = "replace_one"
    accountant: Callable[[], Accountant] | None = None
    classes: Any = None
    public_fraction: float | None = None
    ledger: str | os.PathLike[str] | None = None
    max_total_epsilon: float | None = None
    n_jobs: int | None = None
    random_state: int | None = None
    allow_useless: bool = False
    verbose: int = 0

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        X_public: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Fits teachers, releases their votes, fits the student.

        Args:
            X: private inputs `[n, d]`, taken as float32. Of a sparse matrix no more than one teacher's rows are in full
                at a time. Estimators are given a DataFrame as it is, so that a `ColumnTransformer` finds its columns,
                words and missing cells.
            y: private labels, classes `[n]`, 0 and 1 `[n, L]`, or n sets of words.
            X_public: public inputs `[Q, d]`, a DataFrame where X is one.
            groups: `[n]`, what must stay with one teacher and is protected as one: a person's records. scikit-learn's
                searches pass it on only with metadata routing (`set_fit_request(X_public=True, groups=True)`). Without
                it they give groups to the splitter alone, in silence. No public interface tells a fit of that, so each
                fit of a clone without groups warns (`UngroupedFit`).

        Raises:
            InvalidValue: a parameter out of range, fewer groups than teachers, no public samples; nothing is spent.
        """
        unit = unit_of(groups)
        task, pools = self._validated(X, y, X_public, groups)
        priced = self._priced(task, pools)
        if groups is None and getattr(self, "_is_clone", False):
            warnings.warn(_UNGROUPED, UngroupedFit, stacklevel=2)
        if priced.aggregator.single_label and not isinstance(task, OneClass):
            warnings.warn(one_label_warning(priced.aggregator), stacklevel=2)
        for line in priced.doubts:
            warnings.warn(line, DoubtfulPlan, stacklevel=2)
        streams = streams_of(self.random_state)
        noise = None if self.random_state is None else int(self.random_state)
        ledger = self._ledger(priced, seed_name(noise), unit)
        past = repeats(
            pools.inputs,
            priced.epsilon,
            self.target_delta,
            seed=noise,
            unit=unit,
            adjacency=priced.aggregator.adjacency,
        )
        if self.ledger is None:
            self._warn_of_repeats(past)
        verbose = max(int(self.verbose) - 1, 0)  # joblib's
        votes = FittedVotes(
            task, self._teacher, pools, self.n_teachers, streams, self.n_jobs, verbose
        )
        student = EstimatorStudent(task, self._student)
        seed = streams.seeds("student", 1)[0]
        if is_frame(pools.queries):
            EstimatorStudent(task, self._teacher).rehearse("estimator", pools.queries)
            student.rehearse("student", pools.queries)
        note = ChargeNote(
            description=f"a fit: {type(priced.aggregator).__name__}", noise=seed_name(noise)
        )
        charge = partial(
            ledger.commit,
            uuid.uuid4().hex,
            priced.event,
            b"",
            note,
            adjacency=priced.aggregator.adjacency,
        )
        record = MemoryRecord(charge)
        price = format_epsilon(priced.epsilon)
        with (
            stage(f"{self.n_teachers} teachers and their release, epsilon {price}", self.verbose),
            one_blas_thread(),
        ):
            release = draw(
                priced, votes, streams=streams, student=student, inputs=pools.queries, record=record
            )
        with (
            stage(
                f"student of {release.num_answered} answers to {release.num_queries} queries",
                self.verbose,
            ),
            one_blas_thread(),
        ):
            training = release.training_set(pools.queries)
            try:
                learned = student.learn(training, pool=pools.queries[:0], seed=seed)
                doubts = constant_student_warnings(
                    learned, pools.queries, remedy=priced.aggregator.remedies["noise"]
                )
                lines = list(doubts)
            except (ValueError, TypeError, ArithmeticError, IndexError) as error:
                self.release_ = release  # it is paid for
                reason = " ".join(str(error).split())[:_SHOWN]
                rule = f"one that can be fitted to released labels ({type(error).__name__}: {reason}); the release "
                rule += "is paid and stays: release_.training_set(X_public) is what another estimator can be fitted to"
                raise InvalidValue(
                    f"student={type(self._student).__name__}: expected {rule}"
                ) from error
        self.student_ = learned
        for line in lines:
            warnings.warn(line, DoubtfulPlan, stacklevel=2)
        self._task = task
        self.classes_ = task.classes
        self.aggregator_ = priced.aggregator
        self.release_ = release
        self.adjacency_ = release.adjacency
        self.epsilon_ = priced.epsilon
        self.delta_ = self.target_delta
        self.spent_epsilon_ = ledger.spent_epsilon
        self.unit_ = unit.protected_under(release.adjacency)
        return self

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """Returns the settings as of every estimator, and what a fitted classifier protects."""
        settings = str(super().__repr__(N_CHAR_MAX=N_CHAR_MAX))
        if not hasattr(self, "unit_"):
            return settings
        price = f"epsilon <= {format_epsilon(self.epsilon_)} at delta = {format_delta(self.delta_)}"
        return f"{settings}, fitted: {price} ({self.adjacency_}, unit: {self.unit_})"

    def __sklearn_clone__(self) -> Self:
        """Returns a clone that knows it is one: what searches and cross-validation fit are clones."""
        copy: Self = super().__sklearn_clone__()
        copy._is_clone = True
        return copy

    def predict(self, X: ArrayLike) -> Any:
        """Classes `[m]`, 0 and 1 `[m, L]`, or m tuples of words."""
        said = self._said("predict", X)  # or it is said that nothing is fitted yet
        return self._task.decode(said)

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """The share of samples that are predicted without a mistake, as of all of scikit-learn's classifiers."""
        check_is_fitted(self, "student_")
        if not isinstance(self._task, LabelSets):
            return float(super().score(X, y, sample_weight))
        return float(
            accuracy_score(
                self._task.encode(y), self._said("predict", X), sample_weight=sample_weight
            )
        )

    @available_if(lambda self: hasattr(self._student, "predict_proba"))  # type: ignore[untyped-decorator]  # so is this
    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Probabilities of the classes `[m, C]`, or of each label `[m, L]`; where the student has them."""
        return np.asarray(self._said("predict_proba", X))

    def _said(self, method: str, X: ArrayLike) -> NDArray[Any]:
        """What the student says; of a sparse matrix some rows after the others."""
        check_is_fitted(self, "student_")
        framed = is_frame(X)
        ask = getattr(self.student_, method)
        if not framed:
            samples.require_readable("X", X)
        inputs = validate_data(
            self, X, reset=False, **({"skip_check_array": True} if framed else self._form)
        )
        with one_blas_thread():  # the same last bits on any number of cores
            if not sparse.issparse(inputs):
                return np.asarray(ask(inputs))
            starts = range(0, inputs.shape[0], _ROWS)
            return np.asarray(
                np.concatenate([ask(taken(inputs, slice(row, row + _ROWS))) for row in starts])
            )

    def __sklearn_tags__(self) -> Any:
        """Says that y may have several labels per sample, and whether inputs may be missing."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = tags.input_tags.sparse = True
        tags.input_tags.allow_nan = all(
            takes_nan(chosen) for chosen in (self._teacher, self._student)
        )
        return tags

    @property
    def _teacher(self) -> Any:
        return LogisticRegression(max_iter=300) if self.estimator is None else self.estimator

    @property
    def _student(self) -> Any:
        return self._teacher if self.student is None else self.student

    @property
    def _form(self) -> dict[str, Any]:
        """What inputs must be: values may be missing where teacher and student take that."""
        finite = "allow-nan" if get_tags(self).input_tags.allow_nan else True
        return {"dtype": np.float32, "accept_sparse": "csr", "ensure_all_finite": finite}

    def _validated(
        self, X: ArrayLike, y: ArrayLike, X_public: ArrayLike | None, groups: ArrayLike | None
    ) -> tuple[Task, Pools]:
        """Private records and public samples; sets what a fit knows of their form."""
        both = (("estimator", self._teacher), ("student", self._student))
        for name, chosen in both:
            able = all(hasattr(chosen, method) for method in ("fit", "predict", "get_params"))
            rule = "a scikit-learn estimator, such as LogisticRegression()"
            require(able and not isinstance(chosen, type), name, chosen, rule)
        for name, given in (("X", X), ("X_public", X_public)):
            samples.require_readable(name, given)
        if hasattr(type(y), "requires_grad") or np.ma.is_masked(y):
            require_array("y", y, kinds=None)
        samples.require_labels(y)
        sets = LabelSets.of(y, self.classes)
        encoded: Any = y if sets is None else sets.encode(y)
        framed = samples.require_frames(X, X_public)
        # a DataFrame stays as it is, its names remembered
        form = {"skip_check_array": True} if framed else self._form
        if framed:
            inputs = validate_data(self, X, **form)
            require(len(inputs) > 0, "X", "a DataFrame without rows", "at least one record")
            _, labels = check_X_y(
                np.zeros((len(inputs), 1)), encoded, multi_output=True, estimator=self
            )
        else:
            inputs, labels = validate_data(self, X, encoded, multi_output=True, **form)
        require_moderate("X", samples.numbers_of(inputs), missing=True)
        bits = np.asarray(dense(labels))
        task, targets = (
            samples.task_of(bits, self.classes) if sets is None else (sets, bits.astype(np.bool_))
        )
        if isinstance(task, OneClass):
            for name, chosen in both:
                require(
                    not is_regressor(chosen),
                    name,
                    type(chosen).__name__,
                    "a classifier, as y holds classes",
                )
        public = None if X_public is None else validate_data(self, X_public, reset=False, **form)
        if public is not None:
            require_moderate("X_public", samples.numbers_of(public), missing=True)
            samples.warn_of_shared_rows(inputs, public)
        pools = Pools.cut(inputs, targets, groups, public, self.public_fraction)
        pool = pools.queries.shape[0]
        asked = pool if self.n_queries is None else require_count("n_queries", self.n_queries)
        require(asked <= pool, "n_queries", asked, f"at most {pool}, the public samples")
        return task, replace(pools, queries=dense(pools.queries[:asked]))

    def _priced(self, task: Task, pools: Pools) -> PricedRelease:
        """The release and its price, with what is doubtful; every parameter is checked, before anything is fitted."""
        num_groups = len(np.unique(pools.groups))
        require_count("n_teachers", self.n_teachers)
        rule = f"at most {num_groups}, the number of private groups"
        require(self.n_teachers <= num_groups, "n_teachers", self.n_teachers, rule)
        path = self.ledger is None or isinstance(self.ledger, (str, os.PathLike))
        require(path, "ledger", type(self.ledger).__name__, "the path of a ledger file")
        if self.max_total_epsilon is not None:
            cap = require_positive("max_total_epsilon", self.max_total_epsilon)
            require(
                self.ledger is not None,
                "max_total_epsilon",
                cap,
                "a ledger= beside it, the file of all fits",
            )
        if self.epsilon is not None:
            require_positive("epsilon", self.epsilon)
        budget = self._budget
        counts = {"num_queries": len(pools.queries), "num_labels": task.num_labels}
        require_achievable_delta(self.target_delta, **counts)
        adjacency = Adjacency.parse(self.adjacency)
        aggregator = self.aggregator
        if aggregator is None:
            require(
                self.epsilon is not None,
                "epsilon",
                None,
                "a number > 0, or an aggregator with its noise",
            )
            aggregator = task.default_aggregator(adjacency)
        shown = aggregator if isinstance(aggregator, (str, type)) else type(aggregator).__name__
        require(
            isinstance(aggregator, Aggregator),
            "aggregator",
            shown,
            "an object such as GaussianVotes(noise_std=…)",
        )
        rule = f"{adjacency}, as the classifier's"
        require(
            aggregator.adjacency == adjacency, "aggregator.adjacency", aggregator.adjacency, rule
        )
        aggregator.check_run()
        priced = plan_release(
            aggregator, VoteShape(**counts, num_teachers=self.n_teachers), budget, names=_NAMES
        )
        doubts = [
            *require_useful(
                aggregator,
                priced,
                budget,
                names=_NAMES,
                num_groups=num_groups,
                allow_useless=self.allow_useless,
            )
        ]
        doubts += few_records_warnings(
            f"n_teachers={self.n_teachers}",
            pools.inputs.shape[0],
            self.n_teachers,
            "fewer teachers",
        )
        chosen = {"teacher": self._teacher, "student": self._student}
        if minding := [name for name, estimator in chosen.items() if minds_scale(estimator)]:
            # public ones
            doubts += uneven_inputs_warnings(
                " and ".join(minding), samples.numbers_of(pools.queries)
            )
        return replace(priced, doubts=tuple(doubts))

    def _ledger(self, priced: PricedRelease, noise: str, unit: PrivacyUnit) -> Ledger:
        """The ledger of a fit, with room for it; one that is not kept where there is no path.

        All fits count together: a ledger that counts by digests of data would take a search's folds for other people.
        """
        terms: dict[str, Any] = {
            "adjacency": priced.aggregator.adjacency,
            "target_delta": self.target_delta,
        }
        terms |= {
            "accountant": self._budget.accountant,
            "max_epsilon": self.max_total_epsilon,
            "unit": unit,
        }
        with by_its_setting():
            ledger = Ledger(self.ledger, **terms)
            rule = "a ledger of fits alone; one of runs keeps the records of each run apart, and folds share records"
            require(not any(entry.data for entry in ledger.entries), "ledger", self.ledger, rule)
        rule = "None or another number: an earlier fit in this ledger drew its noise from this seed"
        require(not ledger.has_noise(noise), "random_state", self.random_state, rule)
        require_room(ledger, priced)
        return ledger

    def _warn_of_repeats(self, past: PastFits) -> None:
        """Warns where some of the records were fitted before in this process, with the same noise or with another."""
        if past.count < 2:
            return
        # at least, as of large data some records alone are remembered, and none that were scaled otherwise
        total = f"at least {format_epsilon(past.epsilon)} and {format_delta(past.delta)}"
        price = f"and their epsilons and deltas add up, here to {total}"
        if len(past.changes) > 1:
            units = sorted({unit.protected_under(adjacency) for unit, adjacency in past.changes})
            price = f"and no sum of epsilons covers fits whose epsilons are for {' and for '.join(units)}"
        elif past.delta == 1:
            price = "and no sum of epsilons covers fits whose deltas add up to 1"
        elif math.isinf(past.epsilon):
            price = "and no sum of epsilons covers fits that share their noise, as those with one random_state do"
        line = f"fit {past.count} of this process on the same records: each fit is a release of its own, {price}"
        ending = "A search or a cross-validation makes many; ledger= keeps count"
        warnings.warn(f"{line}. {ending}", RepeatedRelease, stacklevel=3)

    @property
    def _budget(self) -> Budget:
        accountant = self.accountant or AutoAccountant
        return Budget(epsilon=self.epsilon, delta=self.target_delta, accountant=accountant)
