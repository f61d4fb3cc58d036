"""PATE as a scikit-learn estimator. `fit` has the numbered steps of `pate.run.train.train`, in memory."""

import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self, cast

import numpy as np
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
    ComposedEvent,
    ExactAccountant,
    Ledger,
    PrivacyUnit,
)
from pate.accounting.rounding import format_delta, format_epsilon
from pate.aggregators import Aggregator, Release
from pate.array_types import FloatArray
from pate.bundle import Bundle
from pate.classifier.ensemble import EnsembleMethod, shown_error
from pate.classifier.fit_record import FitRecord
from pate.classifier.fit_warnings import (
    ClassesFromLabels,
    DoubtfulPlan,
    GapsFromLabels,
    SeededNoise,
    UngroupedFit,
)
from pate.classifier.frames import as_pandas, encode_new, fit_schema
from pate.classifier.group_votes import GroupVotesMethod
from pate.classifier.held_out import FitScores, HeldOutArguments, HeldOutRecords
from pate.classifier.inputs import (
    column_labels,
    dense,
    is_frame,
    numbers_of,
    only_column,
    require_frames,
    require_order_of_rows,
    require_readable,
    require_same_columns,
    rows_of,
    warn_of_shared_rows,
    with_own_types,
    with_public_types,
)
from pate.classifier.method import FitMethod
from pate.classifier.past_fits import PlannedFit, warn_of_past_fits
from pate.classifier.public_labels import read_public_labels
from pate.classifier.publication import FitCharge
from pate.classifier.samples import Pools, numbered_apart
from pate.classifier.tasks import (
    LabelSets,
    Model,
    OneClass,
    Task,
    require_labels,
    task_of,
    without_gaps,
)
from pate.data.partition import Partition
from pate.errors import shown_as
from pate.extras import require_extra
from pate.html_table import html_table
from pate.models.sklearn import takes_nan
from pate.pricing import PricedRelease
from pate.report import PrivacyStatement
from pate.report.released_scores import ReleasedScores
from pate.run.ledger_record import require_room
from pate.run.plan_warnings import constant_student_warnings, one_label_warning
from pate.run.published_price import privacy_of
from pate.run.random_streams import RandomStreams, seed_name
from pate.run.score_release import ScorePrice
from pate.run.student_prior import StudentPrior
from pate.setting_names import CLASSIFIER
from pate.threads import all_cores, one_blas_thread
from pate.validation import (
    InvalidValue,
    printable,
    require,
    require_array,
    require_count,
    require_moderate,
    require_positive,
)

# ruff: noqa: N803 -- X is what scikit-learn calls it
_ROWS_AT_ONCE = 1000  # of a sparse matrix, which are dense while they are predicted
_ENSEMBLE_SIZE = 100  # teachers that are estimators, unless a number is passed
_FORM_OF_INPUTS = ("n_features_in_", "feature_names_in_")  # which scikit-learn sets
_NO_TEST_RECORDS = HeldOutArguments()
_NOT_OF_RELEASE = "no student was fitted to this release"
_ONE_ROW = PrivacyUnit("one row")
_ONE_GROUP = PrivacyUnit(words="one value of groups, with all its rows", columns=("groups",))
_UNGROUPED = (
    "this is a fit of a clone, as searches and cross-validation make them, without groups: its epsilon is for one row."
    " A search gives groups= to its splitter alone; to protect groups, call"
    " sklearn.set_config(enable_metadata_routing=True) and set_fit_request(X_public=True, groups=True)"
)
_CLASSES_READ = (
    "classes=None: the set of {what} was read from the private y and counts as public, though a single record may show "
    "that one of them exists; classes=[...] names all of them, and a fit then reads none. "
    "publish asks for public_classes=True"
)
_GAPS_READ = (
    "y: that labels are missing was read from the private y and counts as public, though a single record may show it; "
    "numpy.ma.masked_invalid(y) says so whether any is missing or not, and a fit then reads it from no record"
)


@contextmanager
def stage(name: str, verbose: int) -> Iterator[None]:
    """Measures the time of a `with` block, and prints the block's name and time if `verbose` is not 0.

    The form of the line is that of scikit-learn.
    """
    started = time.monotonic()
    yield
    if verbose:
        sys.stdout.write(f"[PATEClassifier] {name}: {time.monotonic() - started:.1f} s\n")


def unit_of(groups: Any) -> PrivacyUnit:
    """Returns the unit of privacy: a row or, if there are groups, all rows of a group.

    The unit includes the name of the groups' column, if `groups` has one. So a ledger distinguishes fits whose groups
    are patients from fits whose groups are visits.

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
        f"one value of groups, here the column {column}, with all its rows", columns=(str(name),)
    )


def streams_of(random_state: Any) -> RandomStreams:
    """Returns the random streams of a seed, equal to those of `pate-train` with this seed.

    A seed gives the warning `SeededNoise`. If `random_state` is None, the streams come from a secret of the operating
    system, which is stored nowhere.

    Raises:
        InvalidValue: `random_state` is neither a seed nor None. A shared generator, for example, is refused, as it
            would hide where the noise comes from.
    """
    if random_state is None:
        return RandomStreams.from_secret()
    try:
        seed = require_count("random_state", random_state, minimum=0)
    except InvalidValue as error:
        rule = f"{error.rule}, or None for noise from the operating system"
        raise InvalidValue("random_state", error.value, rule=rule) from None
    line = f"random_state={seed}: the noise comes from this seed and protects nobody who knows it"
    warnings.warn(line, SeededNoise, stacklevel=3)
    return RandomStreams(seed)


def _require_room_beside(ledger: Ledger, priced: PricedRelease, price: ScorePrice) -> None:
    """Raises `InvalidValue` if a ledger has no room for scores after the release of the same fit."""
    adjacency = priced.aggregator.adjacency
    if ledger.entries or ledger.max_epsilon is None:
        ledger.require_room(ComposedEvent((priced.event, price.event)))
        return
    # The first charge of a ledger may fit by a rule of its own, which later ones have not.
    trial = Ledger(
        adjacency=adjacency,
        target_delta=ledger.target_delta,
        accountant=ledger.accountant,
        max_epsilon=ledger.max_epsilon,
    )
    trial.charge(priced.event, adjacency=adjacency)
    trial.require_room(price.event)


@dataclass(eq=False, repr=False)
class PATEClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """A private classifier: teachers vote on public samples, noisy votes are released, and a student learns from them.

    `PATEClassifier(epsilon=1.0).fit(X, Y, X_public=P)` is the method of `pate-train experiment=centered_votes`. Each
    private group votes along directions of the public samples, and with components of a kernel that public inputs
    determine. The votes are released in 20 rounds, with the noise of one Gaussian release, and the student's weights
    are the released numbers. Equal records and seeds give the release and student of
    `pate-train data=arrays experiment=centered_votes`, byte for byte. The columns of a DataFrame are encoded as
    `data=table` does: numbers, dates, words, free text and missing cells, by a schema that is fitted to the rows of
    `X_public` alone.

    With `estimator`, `aggregator` or `student`, the method is an ensemble: `fit` divides the private records into
    `n_teachers` disjoint parts, and fits a clone of `estimator` to each. The teachers' votes on the public samples are
    released through `aggregator`, and `student` is fitted to that release.

    The labels `y` are 0 and 1 for each label, `[n, L]`, or a set or list of words for each record, or one class per
    record, `[n]`. Of one class per record, each class counts as a label, and the student predicts the most probable
    class. On the digits of scikit-learn at epsilon 8, 85% of the classes are right, and 72% with 100 logistic teachers
    and the exponential mechanism. At epsilon 1 it is 77%, where the exponential mechanism is refused.

    Formal guarantees:
        * What a fitted classifier holds is (`epsilon_`, `delta_`)-private for `adjacency_`: under replace-one, for the
          replacement of one private record, or of one group of records if `groups` were passed. It holds no teacher, no
          vote and no part. For test records it is (`score_epsilon`, `delta_`)-private; whoever is in both pays both.
        * The price is fixed by the parameters and by the shapes of the data, and is charged before noise is drawn.
        * Not covered: public inputs, the number of records, and the set of classes (a fit that reads them from y warns;
          pass `classes` if they are not public), and whether labels may be missing. Nor is whatever was done to the
          data before `fit`: scaling or feature selection fitted on private records is a release of its own. Inside
          `estimator` it is covered: `make_pipeline(StandardScaler(), ...)`.
        * Each fit is a release of its own. A search or a cross-validation makes many, whose prices add up, and its
          scores on held-out private records are covered by no epsilon.

    Edge cases: without an answered query the student predicts no label, or the first class. A fit of labels `[n, L]`
    with `random_state` makes the release of `pate-train` with this `seed`, unless the aggregator uses a prior. Such a
    fit warns: its noise protects nobody who knows the seed. With fewer than 200 private groups, centered votes are
    released at once, not in rounds. A release that noise would drown is refused, and the error has the epsilon that
    would work. A fit that fails before its charge changes nothing. If the student cannot be fitted, `release_`,
    `epsilon_` and the other figures of the price are those of the release that was paid for; the earlier student and
    its classes stay, and `publish` refuses.

    Args:
        estimator (estimator, default=None): the teachers, cloned. None for the votes of private groups, without
            training; or, with `aggregator` or `student`, for `LogisticRegression(max_iter=300)`.
        student (estimator, default=None): fitted to public samples and released labels. None for the released weights;
            or, with `estimator` or `aggregator`, for a clone of `estimator`.
        n_teachers (int, default=None): number of teachers, public. None for one teacher for each private group; of
            estimators 100.
        aggregator (Aggregator, default=None): releases the votes. None for `CenteredVotes` in rounds; with estimators
            for `GaussianVotes`, and for one class per sample `FixedTopK(k=1, ...)`, the exponential mechanism.
        epsilon (float or None, default=8.0): price of the release, for which the aggregator's noise is solved; None
            takes the noise as it is.
        target_delta (float, default=1e-6): delta of the price, in (0, 1).
        n_queries (int, default=None): number of public samples whose labels are released, from the first. None for 600,
            or all if there are fewer; estimators vote on all. The student of released weights learns from all public
            samples in any case.
        adjacency (str, default="replace_one"): "replace_one" or "add_remove"; that of `aggregator`, if there is one.
            "add_remove" needs estimators, as the number of private groups is used otherwise.
        accountant (callable, default=None): makes an empty accountant; None for the least sound price, which is that of
            `ExactAccountant` for `CenteredVotes` in rounds.
        classes (array-like, default=None): all classes, or the words of all sets, public. None takes those that occur
            in y, as public knowledge, and warns (`ClassesFromLabels`). A y of bits has the classes False and True.
        public_fraction (float, default=None): share of X that is declared public, in (0, 1): the last rows, or with
            `groups` all rows of the last groups by their first rows. Their inputs are not protected, their labels are
            not read. The number of these rows is public, and the same however many rows a private group has. For tools
            that call `fit(X, y)` and nothing else.
        ledger (path, default=None): a ledger file that every fit is charged to, including fits of clones and of other
            processes.
        max_total_epsilon (float, default=None): the greatest total epsilon of all fits in that ledger, kept in the
            file. A fit that would exceed it is refused before its teachers are fitted. The cap also holds if each price
            is chosen by looking at earlier fits.
        n_jobs (int, default=None): processes that fit teachers, as in joblib.
        random_state (int, default=None): a seed, or None for noise from the operating system.
        score_epsilon (float, default=None): price of the student's scores on the private test records that `fit` gets,
            for their people alone; None for no scores.
        allow_useless (bool, default=False): true makes a release whose noise hides even unanimous votes, with a
            warning. False refuses it before anything is fitted, and the error states what would work.
        verbose (int, default=0): 0 prints nothing; 1 a line for each stage of a fit; 2 and more also what joblib prints
            of the teachers.

    Attributes:
        epsilon_ (float): price of this fit's release at `delta_`.
        delta_ (float): `target_delta`.
        adjacency_ (Adjacency): the neighboring relation of data sets that the price is for.
        unit_ (str): the unit of privacy in words, that is, the records that are protected together: one row, or one
            value of `groups` with all its rows, with the name of a DataFrame's column. The repr of a fitted classifier
            has it, too.
        spent_epsilon_ (float): total of the ledger after this fit, if all prices were fixed beforehand; `epsilon_`
            without a ledger. If fits were chosen by looking at earlier ones, `max_total_epsilon` is the guarantee.
        release_ (Release): labels `[Q, L]`, answered `[Q]`, and the event that was charged.
        aggregator_ (Aggregator): the aggregator with the noise that was used.
        scores_ (ReleasedScores or None): the released scores of the student, with intervals; None without
            `score_epsilon`. `print(model.scores_.micro_f1)` shows one.
        student_ (model): the fitted model of released labels.
        classes_ (array): as in scikit-learn: `[C]`, or 0 and 1 for each label; for sets of words all words `[L]`.
        n_features_in_ (int): number of features, d.

    >>> inputs = np.random.default_rng(0).standard_normal((3000, 4))
    >>> labels = inputs[:, :2] > 0
    >>> model = PATEClassifier(epsilon=1.0)
    >>> model = model.fit(inputs[:2000], labels[:2000], X_public=inputs[2000:2200])
    >>> bool(model.epsilon_ <= 1.0), bool((model.predict(inputs[2200:]) == labels[2200:]).mean() > 0.9)
    (True, True)
    """

    estimator: Any = None
    _: KW_ONLY
    student: Any = None
    n_teachers: int | None = None
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
    score_epsilon: float | None = None
    allow_useless: bool = False
    verbose: int = 0

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        X_public: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
        groups_public: ArrayLike | None = None,
        y_public: ArrayLike | None = None,
        X_test: ArrayLike | None = None,
        y_test: ArrayLike | None = None,
        groups_test: ArrayLike | None = None,
    ) -> Self:
        """Fits teachers, releases their votes with noise, and fits the student to the release.

        Steps 1 to 4 are those of `pate.run.train.train`. Only `fit` does the following:

        * It accepts arrays, DataFrames and words as scikit-learn does, and encodes labels. `public_fraction` sets
          samples apart as public. With estimators and without an `aggregator`, the form of the labels determines one.
        * It fits its estimators to public rows of a DataFrame as a test, before anything is spent. Without estimators
          it encodes a DataFrame by a schema of its public rows, of the same kind as `data=table`.
        * Its estimators vote as soon as they are fitted, and are then deleted.
        * It charges its ledger before noise is drawn. With `ledger=PATH`, all fits are charged to one account. Without
          a path, the account is in memory, and no file is written. Scores are charged to the same account, as test
          records of a fit may be private records of another; without a path they have an account of their own.
        * If the student cannot be fitted, `release_` holds the release that was paid for.

        Only a run of `pate-train` does the following:

        * It has a folder, from which it continues after it was stopped. It can draw a lost release again
          (`redraw=true`). The files of `release/` are written by the run, and for a fit by `publish`.
        * Its ledger is always on disk, with an account for each set of private records. The charge is committed
          together with the drawn release.
        * It supports budgets and weights of persons, several holders, `max_epsilon`, and engines that train teachers on
          several machines.
        * Its students of estimators' votes can learn from public samples that are no queries, too.
        * It has a step 5: baselines, an attack on the student, and a report.

        Both warn before anything is spent: of a useless release, a seed, earlier releases of the same records, rows
        that are private and public, and missing groups. `fit` gives Python warnings, and a run prints lines. A run also
        warns of labels that no record has, or every record.

        Args:
            X: the private inputs, `[num_private, num_features]`, which are converted to float32. Of a sparse matrix, at
                most the rows of one estimator are dense at a time; without estimators all rows are. A DataFrame is
                passed to the estimators unchanged, so that a `ColumnTransformer` finds its columns, words and missing
                cells. Without estimators, its columns become numbers by what the public rows tell of them.
            y: the private labels: classes `[num_private]`, or 0 and 1 `[num_private, num_labels]`, or a set of words
                for each record. Of several labels, NaN, None and masked entries are not known: nothing is learned from
                them, and which ones they are is private. That there are any is public: a masked array says so, and of
                other labels a fit reads it from the records and warns (`GapsFromLabels`).
            X_public: the public inputs, `[num_public, num_features]`; a DataFrame if X is a DataFrame. None with
                `public_fraction`.
            groups: the group of each record, such as its person, `[num_private]`; None if each record is a group. The
                records of a group belong to one teacher and are protected together. Searches of scikit-learn pass
                groups to `fit` only with metadata routing (`set_fit_request(X_public=True, groups=True)`). Without
                routing they pass them to the splitter alone, and `fit` cannot notice that. So each fit of a clone
                without groups warns (`UngroupedFit`).
            groups_public: the group of each public sample, `[num_public]`, or None. A group with many records has
                longer votes. Without estimators, votes are clipped to a length that is usual for groups as large as
                public groups; with None, for groups of one record.
            y_public: labels of the first public samples, `[num_labeled, num_labels]` or in another form of y, taken as
                public; NaN where they are unknown. The student begins with what they teach, as far as the private
                records bear it out. Without estimators alone; words and classes need `classes`.
            X_test: the inputs of private test records, `[num_test, num_features]`, with `score_epsilon`. Their people
                are others than those of X, and pay `score_epsilon` alone.
            y_test: the labels of the test records, private, in the form of y.
            groups_test: the group of each test record, `[num_test]`, if `groups` are passed. A group that is also in
                `groups` or `groups_public` is refused.

        Raises:
            InvalidValue: a parameter is out of range, there are fewer groups than teachers, or there are no public
                samples. Nothing is spent then.
        """
        # 1. The price. It depends on the number of private groups alone; nothing is trained or spent.
        #    Private: `method`, which has the records in its `pools`, and `pools`. They end with this function.
        unit = unit_of(groups)
        with shown_as(CLASSIFIER):
            reader = copy(self)  # this classifier stays as it is until the release is paid
            method = reader._method(
                X,
                y,
                X_public,
                groups=groups,
                groups_public=groups_public,
                y_public=y_public,
                held_out=HeldOutArguments(inputs=X_test, labels=y_test, groups=groups_test),
            )
            try:
                priced = method.price()
            except InvalidValue as error:
                raise self._headed_by_epsilon(error) from error
            scores = method.scores(unit)
        pools = method.pools
        if pools.known is not None and not isinstance(y, np.ma.MaskedArray):
            warnings.warn(_GAPS_READ, GapsFromLabels, stacklevel=2)
        self._warn_of_plan(method, priced, has_groups=groups is not None)
        streams = streams_of(self.random_state)
        with shown_as(CLASSIFIER):
            ledger = self._ledger(method, priced, unit, scores=scores)
        planned_fit = self._planned_fit(pools, priced, unit)
        if self.ledger is None:
            warn_of_past_fits(planned_fit.dearest_fits(), stacklevel=2)
            if scores is not None:
                warn_of_past_fits(self._planned_scores(scores).dearest_fits(), stacklevel=2)
        method.rehearse()

        # 2. The teachers learn from disjoint records, and vote on public samples.
        #    Private: `partition` and `votes`. No epsilon covers them. They end with this function.
        num_teachers = method.num_teachers
        partition = Partition.draw(pools.groups, num_teachers, streams.generator("partition"))
        with stage(f"{num_teachers} teachers", self.verbose):
            votes = method.vote(
                priced, partition, streams.seeds("teachers", num_seeds=num_teachers)
            )

        # 3. The only way out: `aggregator.release` draws noise around the votes, and `record` charges the ledger before
        #    it. A kill after the charge has paid for a release that nobody has seen.
        #    Not private: `release`, which has the stated epsilon and may be published.
        seed = streams.seed("student")
        prior = StudentPrior(
            student=method.student,
            inputs=method.queries,
            seed=seed,
            never_empty=priced.aggregator.never_empty,
        )
        aggregator = priced.aggregator.with_prior(prior)
        price = format_epsilon(priced.epsilon)
        record = FitRecord(ledger, priced, planned_fit)
        try:
            with stage(f"release, epsilon {price}", self.verbose), all_cores():
                release = aggregator.release(votes, streams.generator("noise"), record)
        except BaseException as error:
            if record.is_charged:
                error.add_note(f"{record.spent_words}, and its release is lost: nobody has seen it")
            raise
        charge = FitCharge(
            priced, method.budget, unit=unit, seed=self._seed, tuned=getattr(self, "_tuned", None)
        )
        self._keep_release(release, charge, spent_epsilon=record.spent_epsilon)

        # 4. The student learns from the release and public samples: it costs nothing more.
        #    Not private: `model`, which may be published under the same epsilon.
        answers = f"{release.num_answered} answers to {release.num_queries} queries"
        try:
            with stage(f"student of {answers}", self.verbose), all_cores():
                model = self._train_student(method, release, seed=seed)
                constant_lines = list(
                    constant_student_warnings(
                        model,
                        public_inputs=method.queries,
                        remedy=priced.aggregator.remedies["noise"],
                    )
                )
        except Exception as error:
            raise self._student_refusal(error) from error
        except BaseException as error:
            error.add_note(f"{record.spent_words}: release_ is the release that was paid for")
            raise
        self._keep_form_of_inputs(reader)
        self.student_ = model
        self._task = method.task
        self._schema = method.schema
        self.classes_ = method.task.classes
        self._publication = method.publication(model, release, charge)
        self._student_is_of_release = True
        for line in constant_lines:
            warnings.warn(line, DoubtfulPlan, stacklevel=2)
        if scores is not None:
            account = ledger
            if self.ledger is None:
                account = Ledger(target_delta=self.target_delta, unit=unit)
            try:
                self._release_scores(scores, model, account, streams.generator("scores"))
            except BaseException as error:
                error.add_note(f"{record.spent_words}, and the student is fitted to its release")
                raise
        return self

    def price_of(
        self,
        X: ArrayLike,
        y: ArrayLike,
        X_public: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
        groups_public: ArrayLike | None = None,
        y_public: ArrayLike | None = None,
    ) -> PricedRelease:
        """Returns the price of a fit with the same arguments, which depends on shapes alone; nothing is fitted.

        Raises:
            InvalidValue: the fit would be refused.
        """
        with shown_as(CLASSIFIER):
            reader = copy(self)
            reader.score_epsilon = None  # which other people pay
            method = reader._method(
                X, y, X_public, groups=groups, groups_public=groups_public, y_public=y_public
            )
            return method.price()

    def _keep_release(self, release: Release, charge: FitCharge, *, spent_epsilon: float) -> None:
        """Sets all attributes of the release that was paid for; the student is not of this release yet.

        Args:
            release: the drawn release.
            charge: the charge of the release.
            spent_epsilon: the total of the ledger after the charge.
        """
        self._student_is_of_release = False
        self.scores_: ReleasedScores | None = None
        self.release_ = release
        self._fit_charge = charge
        self.aggregator_ = charge.priced.aggregator
        self.adjacency_ = release.adjacency
        self.epsilon_ = charge.epsilon
        self.delta_ = charge.budget.delta
        self.spent_epsilon_ = spent_epsilon
        self.unit_ = charge.unit.protected_under(release.adjacency)

    def _release_scores(
        self, scores: FitScores, model: Model, account: Ledger, rng: np.random.Generator
    ) -> None:
        """Draws the scores of the student, commits them with their charge, and sets `scores_`.

        Args:
            scores: the priced scores, with the private test records.
            model: the student.
            account: the ledger that is charged.
            rng: the source of the noise.
        """
        epsilon = format_epsilon(scores.price.epsilon)
        with shown_as(CLASSIFIER), stage(f"scores, epsilon {epsilon}", self.verbose), all_cores():
            released = scores.release(model, account, seed=self._seed, rng=rng)
        self._planned_scores(scores).remember()
        assert self._publication is not None  # as a student with scores can be published
        self._publication = replace(self._publication, scores=released)
        self.scores_ = released
        if self.ledger is not None:
            self.spent_epsilon_ = account.spent_epsilon

    def _train_student(self, method: FitMethod, release: Release, *, seed: int) -> Model:
        """Returns the student of a release.

        Args:
            method: the method of the fit, with the recipe of the student and the public samples.
            release: the drawn release.
            seed: the seed of the training.
        """
        training_set = release.training_set(method.queries)
        student = method.student.learn(training_set, pool=method.pool, seed=seed)
        return method.fitted_model(student)

    def _student_refusal(self, error: Exception) -> InvalidValue:
        """Returns the error for a student that cannot be fitted to a release that is paid for.

        Args:
            error: the error that the student raised.
        """
        reason = f"{type(error).__name__}: {shown_error(error)}"
        rule = (
            f"one that can be fitted to released labels ({reason}); the release is paid and stays: "
            "release_.training_set(X_public) is what another estimator can be fitted to"
        )
        return InvalidValue("student", type(self._student).__name__, rule=rule)

    def _keep_form_of_inputs(self, reader: Self) -> None:
        """Sets the number and the names of the features to those that a copy of this classifier has read."""
        for name in _FORM_OF_INPUTS:
            if hasattr(reader, name):
                setattr(self, name, getattr(reader, name))
            elif hasattr(self, name):
                delattr(self, name)

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """Returns the parameters; for a fitted classifier, also its price and unit of privacy."""
        settings = str(super().__repr__(N_CHAR_MAX=N_CHAR_MAX))
        if not hasattr(self, "unit_"):
            return settings
        price = f"epsilon <= {format_epsilon(self.epsilon_)} at delta = {format_delta(self.delta_)}"
        remark = "" if self._student_is_of_release else f"; {_NOT_OF_RELEASE}"
        if self.spent_epsilon_ != self.epsilon_:
            remark += f"; total of the ledger: epsilon {format_epsilon(self.spent_epsilon_)}"
        return f"{settings}, fitted: {price} ({self.adjacency_}, unit: {self.unit_}){remark}"

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        """Returns what notebooks show: scikit-learn's diagram and, after a fit, a table of the price and the unit."""
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle and hasattr(self, "unit_"):
            rows = [
                ("epsilon", format_epsilon(self.epsilon_)),
                ("delta", format_delta(self.delta_)),
                ("adjacency", str(self.adjacency_)),
                ("unit of privacy", self.unit_),
            ]
            if self.spent_epsilon_ != self.epsilon_:
                rows.append(("total of the ledger", format_epsilon(self.spent_epsilon_)))
            if not self._student_is_of_release:
                rows.append(("student", _NOT_OF_RELEASE))
            bundle["text/html"] += html_table("Fitted", rows)
        return bundle

    @property
    def _repr_html_(self) -> Callable[[], str]:
        """A function that returns the HTML of `_repr_mimebundle_`, for notebooks that read no bundle.

        The attribute does not exist where scikit-learn's `display` is no diagram.
        """
        _ = super()._repr_html_  # raises where no diagram is shown
        return lambda: self._repr_mimebundle_()["text/html"]

    def __sklearn_clone__(self) -> Self:
        """Returns a clone that knows that it is a clone, since searches and cross-validation fit clones."""
        unfitted: Self = super().__sklearn_clone__()
        unfitted._is_clone = True
        return unfitted

    def report(self) -> PrivacyStatement:
        """Returns the price of the fit and the public facts of its release, as `publish` writes them to `privacy.json`.

        Raises:
            NotFittedError: `fit` has released nothing.
        """
        check_is_fitted(self, "release_")
        release = self.release_
        charge = self._fit_charge
        publication = self._publication if self._student_is_of_release else None
        data = "data" if publication is None else publication.facts.data_name
        privacy = privacy_of(drawn_release=release, release_charge=charge)
        return PrivacyStatement.from_privacy(
            replace(privacy, scores=self.scores_),
            data=data,
            num_answered=release.num_answered,
            num_labels=charge.priced.shape.num_labels,
            num_teachers=charge.priced.shape.num_teachers,
            stated_public=() if publication is None else publication.stated_public,
        )

    def publish(
        self,
        folder: str | os.PathLike[str],
        *,
        name: str | None = None,
        public_classes: bool = False,
    ) -> Bundle:
        """Writes the student and its price into a folder that may be given to anybody, and returns the bundle in it.

        The files are those of `release/` of a run. They are the student in numbers, the release, a model card
        (`README.md`), the privacy card, `privacy.json`, the public settings, and the digests of all files.
        `pate.load(folder)` reads them with the extra `predict` alone.

        All content is covered by `epsilon_` or public. Public are the names of columns, labels and classes, the number
        of groups, and the name of the column in `groups`. Of public rows, the schema of a DataFrame keeps categories,
        ranges and frequent words. Neither the seed nor the path of the ledger is in a file.

        Args:
            folder: a folder that does not exist or is empty.
            name: the public name of the data, on the cards; None for `arrays` or `table`.
            public_classes: True states that the names of all classes are public, if `classes` is None and they were
                read from y. The cards and `privacy.json` repeat the statement. Without it, such a fit is refused, as
                a single record may show that a class exists. Bits, the classes 0 and 1, and columns need none.

        Raises:
            NotFittedError: `fit` was not called.
            InvalidValue: the folder holds files; or the student is a scikit-learn estimator, which only a pickle holds.
                The last fit has made a release, and its student could not be fitted. The names of classes were read
                from y, and `public_classes` is false.
        """
        check_is_fitted(self, "student_")
        rule = f"a student of release_; {_NOT_OF_RELEASE}. release_.save(FILE) keeps the release, and a new fit costs"
        require(self._student_is_of_release, "student_", type(self.student_).__name__, rule)
        publication = self._publication
        if publication is None:
            rule = (
                "None, whose student is numbers that can be published; an estimator is a pickle, which runs code where "
                "it is read. The release is yours to publish: release_.save(FILE)"
            )
            raise InvalidValue("estimator", type(self._student).__name__, rule=rule)
        path = Path(folder).expanduser()
        publication.write(path, name=name, public_classes=public_classes)
        return Bundle.load(path)

    def push_to_hub(
        self,
        repo_id: str,
        *,
        name: str | None = None,
        private: bool | None = None,
        public_classes: bool = False,
    ) -> str:
        """Publishes the student to the Hugging Face Hub in one commit; needs the extra `hub`.

        The files are those of `publish`. `pate.load(repo_id)` reads them. Log in before, by `hf auth login` or
        HF_TOKEN.

        Args:
            repo_id: the repository, as `user/name`; it is made if it does not exist.
            name: the public name of the data, on the cards; None for `arrays` or `table`.
            private: true makes the repository private; None uses the user's default.
            public_classes: as for `publish`.

        Returns:
            The address of the commit.

        Raises:
            NotFittedError: `fit` was not called.
            MissingPackage: huggingface_hub is not installed.
            InvalidValue: the student is a scikit-learn estimator, which only a pickle holds.
        """
        require_extra("push_to_hub", "hub")
        with TemporaryDirectory() as folder:
            bundle = self.publish(
                Path(folder) / "release", name=name, public_classes=public_classes
            )
            return bundle.push_to_hub(repo_id, private=private)

    def predict(self, X: ArrayLike) -> Any:
        """Returns the predictions in the form of the labels of the fit.

        The forms are classes `[num_samples]`, 0 and 1 `[num_samples, num_labels]`, or a tuple of words for each sample.

        Args:
            X: the inputs, `[num_samples, num_features]`.

        Raises:
            NotFittedError: `fit` was not called.
        """
        bits = self._ask_student(method="predict", X=X)
        return self._task.decode(bits)

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Returns the accuracy: the share of samples for which all labels are predicted correctly.

        Args:
            X: the inputs, `[num_samples, num_features]`.
            y: the true labels, in the form of the labels of the fit.
            sample_weight: the weight of each sample, `[num_samples]`; None for equal weights.
        """
        check_is_fitted(self, "student_")
        if not isinstance(self._task, LabelSets):
            return float(super().score(X, y, sample_weight))
        true = self._task.encode(y)
        predicted = self._ask_student(method="predict", X=X)
        return float(accuracy_score(true, predicted, sample_weight=sample_weight))

    @available_if(lambda self: hasattr(self._student, "predict_proba"))  # type: ignore[untyped-decorator]  # so is this
    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Returns the probability of each class or label, `[num_samples, num_classes]` or `[num_samples, num_labels]`.

        The student must be able to predict probabilities.
        """
        return np.asarray(self._ask_student(method="predict_proba", X=X))

    def _ask_student(self, method: str, X: ArrayLike) -> NDArray[Any]:
        """Returns the predictions of the student.

        Rows of a sparse matrix are passed in blocks, so that only a few of them are dense at a time.

        Args:
            method: the name of the student's method, such as "predict_proba".
            X: the inputs, `[num_samples, num_features]`.
        """
        check_is_fitted(self, "student_")
        ask = getattr(self.student_, method)
        inputs = X if self._schema is None else as_pandas(X)
        if not is_frame(inputs):
            rule = "a DataFrame with the columns of the fit"
            require(self._schema is None, "X", type(X).__name__, rule)
            require_readable("X", X)
        inputs = validate_data(self, inputs, reset=False, **self._validation_options(inputs))
        with shown_as(CLASSIFIER):
            inputs = self._read(inputs)
        with one_blas_thread():  # the same last bits on any number of cores
            if not sparse.issparse(inputs):
                return np.asarray(ask(inputs))
            blocks = [
                rows_of(inputs, rows=slice(start, start + _ROWS_AT_ONCE))
                for start in range(0, inputs.shape[0], _ROWS_AT_ONCE)
            ]
            return np.asarray(np.concatenate([ask(block) for block in blocks]))

    def _read(self, inputs: Any) -> Any:
        """Returns new inputs as the student reads them; a DataFrame becomes numbers if the fit has read one so.

        Raises:
            InvalidValue: a cell of the DataFrame has another kind than its column.
        """
        if self._schema is None:
            return inputs
        return encode_new(inputs, self._schema, stacklevel=5)

    def __sklearn_tags__(self) -> Any:
        """Returns scikit-learn's tags: several labels and sparse inputs are allowed.

        Missing inputs are allowed if teacher and student allow them.
        """
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = takes_nan(self._teacher) and takes_nan(self._student)
        return tags

    @property
    def _teacher(self) -> Any:
        """The unfitted estimator of the teachers."""
        return LogisticRegression(max_iter=300) if self.estimator is None else self.estimator

    @property
    def _has_estimators(self) -> bool:
        """Whether a parameter names the teachers, the aggregator or the student of an ensemble of estimators."""
        parts = (self.estimator, self.aggregator, self.student)
        return any(part is not None for part in parts)

    @property
    def _seed(self) -> int | None:
        """The seed of the noise; None for noise from the operating system."""
        return None if self.random_state is None else int(self.random_state)

    @property
    def _student(self) -> Any:
        """The unfitted estimator of the student."""
        return self._teacher if self.student is None else self.student

    def _validation_options(self, X: Any) -> dict[str, Any]:
        """Returns the keyword arguments of scikit-learn's `validate_data` for inputs.

        A DataFrame is not converted, and its column names are stored. Missing values are allowed if teacher and student
        allow them.
        """
        if is_frame(X):
            return {"skip_check_array": True}
        finite = "allow-nan" if get_tags(self).input_tags.allow_nan else True
        return {"dtype": np.float32, "accept_sparse": "csr", "ensure_all_finite": finite}

    def _validated(
        self,
        X: ArrayLike,
        y: ArrayLike,
        X_public: ArrayLike | None,
        *,
        groups: ArrayLike | None,
        groups_public: ArrayLike | None,
    ) -> tuple[Task, Pools]:
        """Checks the arguments of a fit, and returns the task with the private records and public samples.

        The method also sets the attributes that describe the inputs, such as `n_features_in_`.
        """
        estimators = {"estimator": self._teacher, "student": self._student}
        for name, estimator in estimators.items():
            has_methods = all(
                hasattr(estimator, method) for method in ("fit", "predict", "get_params")
            )
            rule = "a scikit-learn estimator, such as LogisticRegression()"
            require(has_methods and not isinstance(estimator, type), name, estimator, rule)
        require_readable("X", X)
        require_readable("X_public", X_public)
        y, known = without_gaps(y)
        if hasattr(type(y), "requires_grad") or np.ma.is_masked(y):
            require_array("y", y, dtype_kinds=None)
        require_labels(y)
        sets = LabelSets.from_labels(y, self.classes)
        encoded = y if sets is None else sets.encode(y)
        options = self._validation_options(X)
        if require_frames(X, X_public):
            inputs = validate_data(self, X, **options)
            require(len(inputs) > 0, "X", "a DataFrame without rows", "at least one record")
            zeros = np.zeros((len(inputs), 1))  # scikit-learn checks the labels beside them
            _, labels = check_X_y(zeros, encoded, multi_output=True, estimator=self)
        else:
            inputs, labels = validate_data(self, X, encoded, multi_output=True, **options)
        require_moderate("X", numbers_of(inputs), allows_missing=True)
        label_array = np.asarray(dense(labels))
        task: Task
        if sets is None:
            task, targets = task_of(label_array, self.classes)
        else:
            task = sets
            targets = label_array.astype(np.bool_)
        if isinstance(task, OneClass):
            for name, estimator in estimators.items():
                rule = "a classifier, as y holds classes"
                require(not is_regressor(estimator), name, type(estimator).__name__, rule)
        public = None
        if X_public is not None:
            public = validate_data(self, X_public, reset=False, **options)
            require_moderate("X_public", numbers_of(public), allows_missing=True)
            warn_of_shared_rows(inputs, public)
        pools = Pools.cut(
            inputs=inputs,
            targets=targets,
            groups=groups,
            public=public,
            fraction=self.public_fraction,
            public_groups=groups_public,
            known=known,
        )
        if self._has_estimators and is_frame(pools.public):
            public = with_own_types(pools.public, is_cut=X_public is None)
            private = with_public_types(pools.inputs, public)
            pools = replace(pools, public=public, inputs=private)
        return task, pools

    def _method(
        self,
        X: ArrayLike,
        y: ArrayLike,
        X_public: ArrayLike | None,
        *,
        groups: ArrayLike | None,
        groups_public: ArrayLike | None,
        y_public: ArrayLike | None = None,
        held_out: HeldOutArguments = _NO_TEST_RECORDS,
    ) -> FitMethod:
        """Checks the arguments and parameters of a fit, and returns its method."""
        require_order_of_rows("y", y, X, rows_name="X")
        require_order_of_rows("groups", groups, X, rows_name="X")
        require_order_of_rows("groups_public", groups_public, X_public, rows_name="X_public")
        reads_tables = not self._has_estimators
        held_out.require_price(
            self.score_epsilon, has_estimators=self._has_estimators, groups=groups
        )
        if y_public is not None:
            rule = "None beside estimators: only the student of private groups can begin at labels"
            require(reads_tables, "y_public", "given", rule)
            rule = "None beside public_fraction, which takes public samples from X"
            require(X_public is not None, "y_public", "given", rule)
            require_order_of_rows("y_public", y_public, X_public, rows_name="X_public")
            require_same_columns("y_public", y_public, y)
        inputs = as_pandas(X) if reads_tables else X
        labels = only_column(as_pandas(y) if reads_tables else y)
        public = as_pandas(X_public) if reads_tables else X_public
        task, pools = self._validated(
            inputs, labels, public, groups=groups, groups_public=groups_public
        )
        num_queries = self._num_queries(num_public=pools.public.shape[0])
        num_teachers = self._num_teachers(num_groups=pools.num_groups)
        self._require_terms()
        if reads_tables:
            public_labels = None
            if y_public is not None:
                public_labels = read_public_labels(
                    as_pandas(y_public),
                    task,
                    num_public=pools.public.shape[0],
                    has_classes=self.classes is not None,
                )
            schema = fit_schema(pools.public) if is_frame(pools.public) else None
            test = None
            if self.score_epsilon is not None:
                test = self._test_records(
                    held_out,
                    task,
                    pools,
                    y=y,
                    groups={"groups": groups, "groups_public": groups_public},
                )
            return GroupVotesMethod(
                task=task,
                pools=pools,
                budget=self._budget,
                num_teachers=num_teachers,
                allow_useless=self.allow_useless,
                adjacency=Adjacency.parse(self.adjacency),
                num_queries=num_queries,
                label_names=column_labels(labels) or task.label_names,
                classes_from_labels=self.classes is None and task.names_reveal_labels,
                classes_are_stated=self.classes is not None,
                table_schema=schema,
                public_labels=public_labels,
                score_epsilon=self.score_epsilon,
                test=test,
            )
        return EnsembleMethod(
            task=task,
            pools=pools,
            budget=self._budget,
            num_teachers=num_teachers,
            allow_useless=self.allow_useless,
            estimator=self._teacher,
            student_estimator=self._student,
            aggregator=self._aggregator_for(task),
            num_queries=num_queries or pools.public.shape[0],
            num_jobs=self.n_jobs,
            verbose=max(int(self.verbose) - 1, 0),  # of joblib
        )

    def _test_records(
        self,
        held_out: HeldOutArguments,
        task: Task,
        pools: Pools,
        *,
        y: Any,
        groups: Mapping[str, Any],
    ) -> HeldOutRecords:
        """Checks the private test records of a fit, and returns them.

        Args:
            held_out: the arguments of the fit that are about its test records.
            task: the kind of labels of the fit.
            pools: the private records and the public samples.
            y: the private labels, as the user passes them.
            groups: the groups of other rows of the fit, by the names of their parameters; None for no groups.
        """
        require_order_of_rows("y_test", held_out.labels, held_out.inputs, rows_name="X_test")
        require_order_of_rows("groups_test", held_out.groups, held_out.inputs, rows_name="X_test")
        require_same_columns("y_test", held_out.labels, y)
        raw_inputs = as_pandas(held_out.inputs)
        require_readable("X_test", raw_inputs)
        options = self._validation_options(pools.inputs)
        require_frames(pools.inputs, raw_inputs, name="X_test")
        inputs = validate_data(self, raw_inputs, reset=False, **options)
        require_moderate("X_test", numbers_of(inputs), allows_missing=True)
        cost = "whoever is in both pays for the release and for the scores"
        warn_of_shared_rows(pools.inputs, inputs, name="X_test", cost=cost)
        num_records = inputs.shape[0]
        has_gaps = pools.known is not None
        targets, known = held_out.targets(task, num_records=num_records, has_gaps=has_gaps)
        group_ids = np.arange(num_records)
        if held_out.groups is not None:
            others = {name: values for name, values in groups.items() if values is not None}
            group_ids = numbered_apart(
                "groups_test", held_out.groups, num_rows=num_records, others=others
            )
        return HeldOutRecords(inputs=inputs, targets=targets, groups=group_ids, known=known)

    def _headed_by_epsilon(self, error: InvalidValue) -> InvalidValue:
        """Returns the error for a useless release under the name `epsilon`, if the user named no number of teachers.

        Args:
            error: the error, which is returned unchanged if it is about another parameter.
        """
        if error.name != "num_teachers" or self.n_teachers is not None or self.epsilon is None:
            return error
        voters = "teachers" if self._has_estimators else "private groups"
        return InvalidValue(
            "target_epsilon",
            self.epsilon,
            rule=error.rule.replace(f"{error.value} teachers", f"{error.value} {voters}"),
            remedies=error.remedies,
            waiver=error.waiver,
        )

    def _num_queries(self, num_public: int) -> int | None:
        """Returns `n_queries`, which may be None; raises `InvalidValue` if the public samples are fewer."""
        if self.n_queries is None:
            return None
        num_queries = require_count("n_queries", self.n_queries)
        rule = f"at most {num_public}, the public samples"
        require(num_queries <= num_public, "n_queries", num_queries, rule)
        return num_queries

    def _num_teachers(self, num_groups: int) -> int:
        """Returns the number of teachers; raises `InvalidValue` if the private groups are fewer."""
        num_teachers = self.n_teachers
        if num_teachers is None:
            num_teachers = _ENSEMBLE_SIZE if self._has_estimators else num_groups
        require_count("n_teachers", num_teachers)
        rule = f"at most {num_groups}, the number of private groups"
        require(num_teachers <= num_groups, "n_teachers", num_teachers, rule)
        return num_teachers

    def _require_terms(self) -> None:
        """Raises `InvalidValue` if a parameter of the budget or of the ledger cannot be used."""
        is_path = self.ledger is None or isinstance(self.ledger, (str, os.PathLike))
        require(is_path, "ledger", type(self.ledger).__name__, "the path of a ledger file")
        if self.max_total_epsilon is not None:
            cap = require_positive("max_total_epsilon", self.max_total_epsilon)
            rule = "a ledger= beside it, the file of all fits"
            require(self.ledger is not None, "max_total_epsilon", cap, rule)
        if self.epsilon is not None:
            require_positive("epsilon", self.epsilon)
        elif self.aggregator is None:
            rule = "a number > 0, or an aggregator with its noise"
            raise InvalidValue("epsilon", None, rule=rule)

    def _aggregator_for(self, task: Task) -> Aggregator:
        """Returns the aggregator: the parameter, or the default of the task.

        Raises:
            InvalidValue: the aggregator has another adjacency than the classifier.
        """
        adjacency = Adjacency.parse(self.adjacency)
        if self.aggregator is None:
            return task.default_aggregator(adjacency)
        aggregator = self.aggregator
        is_word = isinstance(aggregator, (str, type))
        value = aggregator if is_word else type(aggregator).__name__
        rule = "an object such as GaussianVotes(noise_std=…)"
        require(isinstance(aggregator, Aggregator), "aggregator", value, rule)
        rule = f"{adjacency}, as the classifier's"
        is_same = aggregator.adjacency == adjacency
        require(is_same, "aggregator.adjacency", aggregator.adjacency, rule)
        return aggregator

    def _warn_of_plan(self, method: FitMethod, priced: PricedRelease, *, has_groups: bool) -> None:
        """Warns if a fit is allowed but rarely intended, such as a fit of a clone without groups."""
        task = method.task
        if not has_groups and getattr(self, "_is_clone", False):
            warnings.warn(_UNGROUPED, UngroupedFit, stacklevel=3)
        if self.classes is None and task.reads_classes:
            what = "words" if isinstance(task, LabelSets) else "classes"
            warnings.warn(_CLASSES_READ.format(what=what), ClassesFromLabels, stacklevel=3)
        if priced.aggregator.single_label and not isinstance(task, OneClass):
            warnings.warn(one_label_warning(priced.aggregator), stacklevel=3)
        for doubt in priced.doubts:
            warnings.warn(CLASSIFIER.doubt_line(doubt), DoubtfulPlan, stacklevel=3)
        for remark in method.remarks():
            warnings.warn(printable(remark), DoubtfulPlan, stacklevel=3)

    def _planned_fit(self, pools: Pools, priced: PricedRelease, unit: PrivacyUnit) -> PlannedFit:
        """Returns this fit as the process will remember it once it is charged."""
        return PlannedFit.from_inputs(
            pools.inputs,
            epsilon=priced.epsilon,
            delta=self.target_delta,
            event=priced.event,
            seed=self._seed,
            unit=unit,
            adjacency=priced.aggregator.adjacency,
        )

    def _planned_scores(self, scores: FitScores) -> PlannedFit:
        """Returns the scores of this fit as the process will remember them once they are charged."""
        return PlannedFit.from_inputs(
            scores.records.inputs,
            epsilon=scores.price.epsilon,
            delta=self.target_delta,
            event=scores.price.event,
            seed=self._seed,
            unit=scores.price.unit,
            adjacency=Adjacency.REPLACE_ONE,
        )

    def _ledger(
        self,
        method: FitMethod,
        priced: PricedRelease,
        unit: PrivacyUnit,
        *,
        scores: FitScores | None,
    ) -> Ledger:
        """Opens the ledger of a fit; without a path, the ledger is in memory.

        All fits are charged to one account, whatever their data. Separate accounts for different data would take the
        folds of a search for different people.

        Raises:
            InvalidValue: the ledger has no room for the fit, or has charges of runs, or an earlier fit in it had this
                seed.
        """
        is_new_file = self.ledger is not None and not os.path.lexists(self.ledger)
        if is_new_file and self.max_total_epsilon is not None:
            # Tried in memory first, so that a refused fit leaves no file with its cap.
            empty_ledger = self._opened_ledger(None, method, priced, unit)
            require_room(empty_ledger, priced=priced)
            if scores is not None:
                _require_room_beside(empty_ledger, priced, scores.price)
        try:
            ledger = self._opened_ledger(self.ledger, method, priced, unit)
        except InvalidValue as error:
            if error.name != "max_epsilon" or Ledger.stored(cast(str, self.ledger)).entries:
                raise
            rule = (
                f"{error.rule}; the ledger has no charge: without the file, a fit sets a cap anew"
            )
            raise InvalidValue(error.name, error.value, rule=rule, owner=error.owner) from error
        rule = "a ledger of fits alone; one of runs keeps the records of each run apart, and folds share records"
        require(not any(entry.data for entry in ledger.entries), "ledger", self.ledger, rule)
        rule = "None or another number: an earlier fit in this ledger drew its noise from this seed"
        is_new = not ledger.is_seed_used(seed_name(self._seed))
        require(is_new, "random_state", self.random_state, rule)
        require_room(ledger, priced=priced)
        if scores is not None:
            _require_room_beside(ledger, priced, scores.price)
        return ledger

    def _opened_ledger(
        self,
        path: str | os.PathLike[str] | None,
        method: FitMethod,
        priced: PricedRelease,
        unit: PrivacyUnit,
    ) -> Ledger:
        """Returns the ledger in a file with the settings of this classifier; None for a ledger in memory."""
        return Ledger(
            path,
            adjacency=priced.aggregator.adjacency,
            target_delta=self.target_delta,
            # In a file, fits of all methods are added up by one accountant.
            accountant=method.budget.accountant if self.ledger is None else self._accountant,
            max_epsilon=self.max_total_epsilon,
            unit=unit,
        )

    @property
    def _accountant(self) -> Callable[[], Accountant]:
        """The function that makes accountants: `accountant`, or `AutoAccountant` if that is None."""
        return self.accountant or AutoAccountant

    @property
    def _budget(self) -> Budget:
        """The delta of a fit, and the epsilon that its noise is solved for, if there is one.

        The release of a fit without estimators is one Gaussian event, whose least price the exact accountant computes.
        """
        accountant = self._accountant
        if self.accountant is None and not self._has_estimators:
            accountant = ExactAccountant
        return Budget(epsilon=self.epsilon, delta=self.target_delta, accountant=accountant)
