"""PATE as a scikit-learn estimator. `fit` has the steps 1 to 4 of `pate.run.train.train`, in memory.

This file has the class `PATEClassifier`: the steps of a fit, what a fitted classifier predicts and publishes, and what
scikit-learn asks of an estimator. The steps use other files of this folder, in this order:

* `fit_inputs.py` reads and checks the arguments of a fit (`FitArguments`), and returns its data (`FitInputs`).
* `fit_planner.py` chooses which teachers vote and which student learns, a `FitPlan`.
* `fit_plan.py` computes the price of the release and that of the scores, lets the teachers of the plan vote, and has
  the recipe of its student.
* `fit_ledger.py` opens the ledger that is charged.
* `priced_fit.py` holds what step 1 hands on to the others (`PricedFit`).
* `charging_record.py` charges the ledger before the release is drawn (`ChargingRecord`).
* `publication.py` holds what may be published (`Publication`), and the price of a fit (`FitPrice`).
"""

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
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from pate.accounting import (
    Accountant,
    AutoAccountant,
    PrivacyUnit,
)
from pate.accounting.rounding import format_delta, format_epsilon
from pate.aggregators import Aggregator, Release
from pate.array_types import FloatArray
from pate.bundle import Bundle
from pate.classifier.charging_record import ChargingRecord
from pate.classifier.ensemble import shown_error
from pate.classifier.fit_inputs import FitArguments, FitInputs, InputReader, validate_inputs
from pate.classifier.fit_ledger import LedgerSettings, check_ledger_parameters, unit_of
from pate.classifier.fit_plan import FitPlan
from pate.classifier.fit_planner import FitPlanner
from pate.classifier.fit_streams import streams_of
from pate.classifier.fit_warnings import (
    ClassesFromLabels,
    DoubtfulPlan,
    GapsFromLabels,
    UngroupedFit,
)
from pate.classifier.frames import as_pandas, encode_new
from pate.classifier.held_out import FitScores, HeldOutArguments
from pate.classifier.inputs import is_frame, require_readable, rows_of
from pate.classifier.label_models import Model
from pate.classifier.past_fits import warn_of_past_fits
from pate.classifier.priced_fit import PricedFit
from pate.classifier.publication import FitPrice, Publication
from pate.classifier.tasks import LabelSets, OneClass
from pate.data.partition import Partition
from pate.errors import shown_as, users_stack_level
from pate.extras import require_extra
from pate.html_table import html_table
from pate.models.sklearn import takes_nan
from pate.pricing import PricedRelease
from pate.report import PrivacyStatement
from pate.report.released_scores import ReleasedScores
from pate.run.plan_warnings import constant_student_warnings, one_label_per_query_warning
from pate.run.published_price import known_shares_by_label, privacy_of
from pate.run.student_prior import StudentPrior
from pate.run.tuned_runs import TunedRuns
from pate.setting_names import CLASSIFIER as CLASSIFIER_SPELLING
from pate.threads import all_cores, one_blas_thread
from pate.validation import InvalidValue, printable
from pate.votes.source import VoteSource

# ruff: noqa: N803 -- X is what scikit-learn calls it
# Rows of a sparse matrix that are predicted at a time: only so many rows are dense.
_PREDICTED_ROWS = 1000
# What the repr of a classifier adds after a fit whose student could not be trained.
_NO_STUDENT = "no student was fitted to this release"


@dataclass(eq=False, repr=False)  # compared and hashed by identity, as scikit-learn's estimators
class PATEClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """A private classifier: teachers vote on public samples, noisy votes are released, and a student learns from them.

    `PATEClassifier(epsilon=1.0).fit(X, Y, X_public=P)` has one teacher for each private group, without training. Each
    group votes with its own records (`CenteredVotes`), the votes are released in 20 rounds at the price of one Gaussian
    release, and the student's weights are the released numbers. Equal records and seeds give the release and student
    of `pate-train experiment=centered_votes`, byte for byte.

    With `estimator`, `aggregator` or `student`, the classifier is an ensemble of estimators: `fit` divides the private
    records into `n_teachers` disjoint parts, and fits a clone of `estimator` to each. The teachers' votes on the public
    samples are released through `aggregator`, and `student` is fitted to that release.

    The labels `y` are 0 and 1 for each label, `[n, L]`, or a set or list of words for each record, or one class per
    record, `[n]`. Of one class per record, each class counts as a label, and the student predicts one class.

    Formal guarantees:
        * What a fitted classifier holds is (`epsilon_`, `delta_`)-private for `adjacency_`: under replace-one, for the
          replacement of one private record, or of one group of records if `groups` were passed; under add/remove, for
          one teacher. It holds no teacher, no vote and no part of the records. For test records it is (`score_epsilon`,
          `delta_`)-private; a person in both spends both.
        * The price is fixed by the parameters and by the shapes of the data, and is charged before noise is drawn.
        * Not covered: public inputs and labels, the number of records, the names of columns and labels, and whether
          labels may be missing. The set of classes is not covered, either (a fit that reads them from y warns; pass
          `classes` if they are not public). Neither is whatever was done to the data before `fit`: scaling or feature
          selection fitted on private records is a release of its own. Inside `estimator` it is covered:
          `make_pipeline(StandardScaler(), ...)`.
        * Each fit is a release of its own. A search or a cross-validation of scikit-learn makes many, whose prices add
          up, and its scores on held-out private records are covered by no epsilon.

    Edge cases:
        * A release whose noise would hide the votes is refused, and the error states what would work, if anything does.
        * With fewer than 200 teachers (by default the private groups), centered votes are released at once.
        * Without an answered query the student predicts no label, or the first class.
        * A fit with `random_state` warns: its noise protects nobody who knows the seed.
        * A fit that fails before its charge does not change the classifier. It may leave a new ledger without a charge.
        * If the student cannot be fitted, `release_`, `epsilon_` and the other figures of the price are those of the
          release that was paid for. The earlier student and its classes stay, and `publish` refuses.

    Args:
        estimator (estimator, default=None): the teachers, cloned. None for one teacher for each private group, without
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
        accountant (callable, default=None): makes an empty accountant. None for `ExactAccountant` without estimators,
            and for `AutoAccountant` with them, and for the total of a ledger file.
        classes (array-like, default=None): all classes, or the words of all sets, public. None takes those that occur
            in y, as public knowledge, and warns (`ClassesFromLabels`). A y of truth values `[n]` has the classes False
            and True, and no classes are read from a y `[n, L]`; neither warns.
        public_fraction (float, default=None): share of X that is declared public, in (0, 1): the last rows, or with
            `groups` all rows of the last groups by their first rows. Their inputs are not protected, and nothing is
            learned from their labels. The number of these rows is public, and the same however many rows a private
            group has. For tools that call `fit(X, y)` and nothing else.
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
            warning. False refuses it before anything is fitted, and the error states what would work, if anything does.
        verbose (int, default=0): 0 prints nothing; 1 a line for each stage of a fit; 2 and more also what joblib prints
            of the teachers.

    Attributes:
        epsilon_ (float): price of this fit's release at `delta_`; for the best fit of a `PATESearch`, that of the
            search.
        delta_ (float): `target_delta`.
        adjacency_ (Adjacency): the neighboring relation of data sets that the price is for.
        unit_ (str): the unit of privacy in words, that is, the records that are protected together: one row, or one
            value of `groups` with all its rows. The name of the column is added if `groups` has one. Under add/remove
            the unit is one teacher. The repr of a fitted classifier has it, too.
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

    # These two have no annotations, so the dataclass makes no parameters of them. `cast` states the type instead.
    _is_clone = False  # a clone sets True
    _tuned_runs = cast(TunedRuns | None, None)  # `PATESearch` sets the runs of its tuning

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

        The steps 1 to 4 are those of `pate.run.train.train`. The ledger is charged before noise is drawn. What only a
        fit does, and what only a run of `pate-train` does, is listed in docs/how-to/use-the-classifier.md.

        A comment after "Private:" lists the objects of a step that hold private records, or results that no epsilon
        covers. All of them end with this function. Keyed digests of private records stay in the memory of the process,
        for the warning `RepeatedRelease`.

        Args:
            X: the private inputs, `[num_private, num_features]`, which are converted to float32. Of a sparse matrix, at
                most the rows of one estimator are dense at a time, or with `n_jobs` those of some; without estimators
                all rows become dense at once. Estimators get a DataFrame with the column types of its public rows, so
                that a `ColumnTransformer` finds columns, words and missing cells. Without estimators, its columns
                become numbers by what the public rows tell of them.
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
                public groups; with None, or fewer than 30 public groups, for groups of one record.
            y_public: labels of the first public samples, `[num_labeled, num_labels]` or in another form of y, taken as
                public; NaN where they are unknown, and at least one of them 1. The student begins with what they teach,
                as far as the private records do not disagree. Only without estimators and with `X_public`; words and
                classes need `classes`.
            X_test: the inputs of private test records, `[num_test, num_features]`, with `score_epsilon`. Their people
                are others than those of X, and pay `score_epsilon` alone.
            y_test: the labels of the test records, private, in the form of y.
            groups_test: the group of each test record, `[num_test]`, if `groups` are passed. A group that is also in
                `groups` or `groups_public` is refused.

        Raises:
            InvalidValue: a parameter is out of range, there are fewer groups than teachers, or there are no public
                samples. Nothing is spent then. The error is also raised if the student cannot be fitted to the release.
                It then says that the release is paid for.
        """
        fit_arguments = FitArguments(
            inputs=X,
            labels=y,
            public_inputs=X_public,
            groups=groups,
            public_groups=groups_public,
            public_labels=y_public,
            held_out_arguments=HeldOutArguments(
                inputs=X_test, labels=y_test, groups=groups_test, score_epsilon=self.score_epsilon
            ),
        )

        # 1. The price. Nothing is spent, and nothing learns from private records. Private: `inputs`, `plan` and
        #    `scores` of `priced_fit`.
        priced_fit = self._price_fit(fit_arguments)

        # 2. The teachers learn from disjoint records, and vote on public samples. Private: `vote_source`.
        vote_source = self._train_and_vote(priced_fit)

        # 3. The only way out. `release` has the stated epsilon, and may be published; `charging_record` charges.
        charging_record = priced_fit.record()
        release = self._release(
            priced_fit, vote_source=vote_source, charging_record=charging_record
        )

        # 4. Post-processing of the release, which costs nothing more. The student may be published, too.
        self._train_student(priced_fit, release=release, charging_record=charging_record)
        # Scores are the one other way out: the people in the test records pay for them, at a price of their own.
        if priced_fit.scores is not None:
            with charging_record.note_spent_price_on_error(
                consequence="the student is fitted to its release"
            ):
                self._release_scores(priced_fit.scores, priced_fit=priced_fit)
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
        """Returns the aggregator with its noise, and the price, of a fit with the same arguments; nothing is fitted.

        Of the data, only shapes change the price. The price of scores is left out, as other people pay it.
        Whether a ledger has room is not checked.

        Raises:
            InvalidValue: the fit would be refused.
        """
        fit_arguments = FitArguments(
            inputs=X,
            labels=y,
            public_inputs=X_public,
            groups=groups,
            public_groups=groups_public,
            public_labels=y_public,
        )
        with shown_as(CLASSIFIER_SPELLING):
            _, _, priced_release = self._plan_and_price(fit_arguments)
        return priced_release

    def predict(self, X: ArrayLike) -> Any:
        """Returns the student's predictions in the form of the labels of the fit.

        The forms are classes `[num_samples]`, 0 and 1 `[num_samples, num_labels]`, or a tuple of words for each sample.

        Args:
            X: the inputs, `[num_samples, num_features]`.

        Raises:
            NotFittedError: no student was fitted.
        """
        predicted_bits = self._student_output(X, method_name="predict")
        return self._task.decode(predicted_bits)

    @available_if(lambda self: self._predicts_probabilities)  # type: ignore[untyped-decorator]  # scikit-learn is untyped
    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Returns the probability of each class or label, `[num_samples, num_classes]` or `[num_samples, num_labels]`.

        The method exists only if the student can predict probabilities.

        Args:
            X: the inputs, `[num_samples, num_features]`.

        Raises:
            NotFittedError: no student was fitted.
        """
        return np.asarray(self._student_output(X, method_name="predict_proba"))

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Returns the accuracy: the (weighted) share of samples for which all labels are predicted correctly.

        Args:
            X: the inputs, `[num_samples, num_features]`.
            y: the true labels, in the form of the labels of the fit.
            sample_weight: the weight of each sample, `[num_samples]`; None for equal weights.
        """
        check_is_fitted(self, "student_")
        if not isinstance(self._task, LabelSets):
            return float(super().score(X, y, sample_weight))
        true_labels = self._task.encode(y)
        predicted_labels = self._student_output(X, method_name="predict")
        return float(accuracy_score(true_labels, predicted_labels, sample_weight=sample_weight))

    def report(self) -> PrivacyStatement:
        """Returns the price of the fit and the public facts of its release, as `publish` writes them to `privacy.json`.

        The name of the data and the statement on classes are those of `publish` without arguments. Estimators, which
        `publish` refuses, have a report, too.

        Raises:
            NotFittedError: `fit` has released nothing.
        """
        check_is_fitted(self, "release_")
        release = self.release_
        fit_price = self._fit_price
        publication = self._publication if self._student_is_of_release else None
        data_name = "data"
        stated_public: tuple[str, ...] = ()
        known_shares: Mapping[str, float] = {}
        if publication is not None:
            data_name = publication.fit_facts.data_name
            stated_public = publication.stated_public
            known_shares = known_shares_by_label(
                release, label_names=publication.fit_facts.label_names
            )
        privacy = privacy_of(drawn_release=release, release_charge=fit_price)
        return PrivacyStatement.from_privacy(
            replace(privacy, scores=self.scores_),
            data_name=data_name,
            num_answered=release.num_answered,
            num_labels=fit_price.priced_release.shape.num_labels,
            num_teachers=fit_price.priced_release.shape.num_teachers,
            stated_public=stated_public,
            known_shares=known_shares,
        )

    def publish(
        self,
        folder: str | os.PathLike[str],
        *,
        name: str | None = None,
        public_classes: bool = False,
    ) -> Bundle:
        """Writes the student and its price into a folder that may be given to anybody, and returns the bundle in it.

        The files are those of `release/` of `pate-train`. They are the student in numbers, the release, a model card
        (`README.md`), the privacy card, `privacy.json`, the public settings, and the digests of all files.
        `pate.load(folder)` reads them with the extra `predict` alone.

        All content is public or covered by `epsilon_`, except for the scores on private test records, if there are any:
        `score_epsilon` is their price. Public are the names of columns, labels and classes, the number of groups, and
        the name of the column in `groups`. The schema of a DataFrame has categories, ranges and frequent words of its
        public rows. Neither the seed nor the path of the ledger is in a file.

        Args:
            folder: a folder that does not exist or is empty.
            name: the public name of the data, on the cards. With None, the name is `table` after a fit of DataFrames,
                and `arrays` after any other fit.
            public_classes: True states that the names of all classes are public, if `classes` is None and they were
                read from y. The cards and `privacy.json` repeat the statement. Without it, such a fit is refused, as
                a single record may show that a class exists. No statement is needed for labels that are truth values
                or columns, or for the two classes 0 and 1.

        Raises:
            NotFittedError: no student was fitted.
            InvalidValue: the folder holds files; or the student is a scikit-learn estimator, which only a pickle holds;
                or the last fit could not fit a student to its release. The same error is raised if the names of classes
                were read from y, and `public_classes` is false.
        """
        check_is_fitted(self, "student_")
        if not self._student_is_of_release:
            rule = (
                "a student of release_, and the last fit could not train one; release_.save(FILE) writes the release, "
                "and another fit has a price of its own"
            )
            raise InvalidValue("student_", type(self.student_).__name__, rule=rule)
        publication = self._publication
        if publication is None:
            rule = (
                "None, as only the released weights of a fit without estimators can be published: an estimator is a "
                "pickle, which runs code where it is read; release_.save(FILE) writes the release"
            )
            raise InvalidValue("estimator", type(self._student_estimator).__name__, rule=rule)
        release_folder = Path(folder).expanduser()
        publication.write(release_folder, name=name, classes_are_public=public_classes)
        return Bundle.load(release_folder)

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
            NotFittedError: no student was fitted.
            MissingPackage: huggingface_hub is not installed.
            InvalidValue: `publish` refuses the student or its classes.
        """
        require_extra("push_to_hub", "hub")
        with TemporaryDirectory() as folder:
            bundle = self.publish(
                Path(folder) / "release", name=name, public_classes=public_classes
            )
            return bundle.push_to_hub(repo_id, private=private)

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """Returns the parameters; for a fitted classifier, also its price and unit of privacy."""
        settings = str(super().__repr__(N_CHAR_MAX=N_CHAR_MAX))
        if not hasattr(self, "unit_"):
            return settings
        price = f"epsilon <= {format_epsilon(self.epsilon_)} at delta = {format_delta(self.delta_)}"
        remark = "" if self._student_is_of_release else f"; {_NO_STUDENT}"
        if self.spent_epsilon_ != self.epsilon_:
            remark += f"; total of the ledger: epsilon {format_epsilon(self.spent_epsilon_)}"
        return f"{settings}, fitted: {price} ({self.adjacency_}, unit: {self.unit_}){remark}"

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        """Returns what notebooks show: scikit-learn's diagram and, after a fit, a table of the price and the unit."""
        mimebundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        if "text/html" in mimebundle and hasattr(self, "unit_"):
            table_rows = [
                ("epsilon", format_epsilon(self.epsilon_)),
                ("delta", format_delta(self.delta_)),
                ("adjacency", str(self.adjacency_)),
                ("unit of privacy", self.unit_),
            ]
            if self.spent_epsilon_ != self.epsilon_:
                table_rows.append(("total of the ledger", format_epsilon(self.spent_epsilon_)))
            if not self._student_is_of_release:
                table_rows.append(("student", _NO_STUDENT))
            mimebundle["text/html"] += html_table(title="Fitted", rows=table_rows)
        return mimebundle

    @property
    def _repr_html_(self) -> Callable[[], str]:
        """A function that returns the HTML of `_repr_mimebundle_`, for notebooks that do not call that method.

        The attribute does not exist where scikit-learn's `display` is no diagram.
        """
        _ = super()._repr_html_  # raises AttributeError if no diagram is shown
        return lambda: self._repr_mimebundle_()["text/html"]

    def __sklearn_clone__(self) -> Self:
        """Returns a clone that knows that it is a clone, since searches and cross-validation fit clones."""
        unfitted: Self = super().__sklearn_clone__()
        unfitted._is_clone = True
        return unfitted

    def __sklearn_tags__(self) -> Any:
        """Returns scikit-learn's tags: several labels and sparse inputs are allowed.

        Missing inputs are allowed if teacher and student allow them.
        """
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = takes_nan(self._teacher_estimator) and takes_nan(
            self._student_estimator
        )
        return tags

    @property
    def _has_estimators(self) -> bool:
        """Whether the classifier is an ensemble: `estimator`, `aggregator` or `student` is set."""
        parts = (self.estimator, self.aggregator, self.student)
        return any(part is not None for part in parts)

    @property
    def _predicts_probabilities(self) -> bool:
        """Whether the student predicts probabilities, as released weights do and not every estimator does."""
        return not self._has_estimators or hasattr(self._student_estimator, "predict_proba")

    @property
    def _teacher_estimator(self) -> Any:
        """The unfitted estimator of the teachers: the parameter `estimator`, or its default.

        Without estimators it is never fitted, and only tells scikit-learn which inputs are allowed.
        """
        return LogisticRegression(max_iter=300) if self.estimator is None else self.estimator

    @property
    def _student_estimator(self) -> Any:
        """The unfitted estimator of the student: the parameter `student`, or that of the teachers."""
        return self._teacher_estimator if self.student is None else self.student

    @property
    def _seed(self) -> int | None:
        """The seed of the noise; None for noise from the operating system."""
        return None if self.random_state is None else int(self.random_state)

    @property
    def _accountant(self) -> Callable[[], Accountant]:
        """The function that makes accountants: the parameter `accountant`, or `AutoAccountant` if that is None."""
        return self.accountant or AutoAccountant

    def _make_reader(self) -> InputReader:
        """Returns the reader of the arguments of a fit, with the parameters that decide how they are read."""
        return InputReader(
            # scikit-learn's checks set `n_features_in_` on the copy
            validation_estimator=copy(self),
            teacher_estimator=self._teacher_estimator,
            student_estimator=self._student_estimator,
            votes_by_group=not self._has_estimators,
            classes=self.classes,
            public_fraction=self.public_fraction,
        )

    def _make_planner(self) -> FitPlanner:
        """Returns the planner of a fit, with the parameters that decide how it is planned."""
        return FitPlanner(
            has_estimators=self._has_estimators,
            teacher_estimator=self._teacher_estimator,
            student_estimator=self._student_estimator,
            aggregator=self.aggregator,
            adjacency=self.adjacency,
            epsilon=self.epsilon,
            target_delta=self.target_delta,
            make_accountant=self.accountant,
            num_teachers=self.n_teachers,
            num_queries=self.n_queries,
            classes_are_stated=self.classes is not None,
            allow_useless=self.allow_useless,
            num_jobs=self.n_jobs,
            verbose=self.verbose,
        )

    @shown_as(CLASSIFIER_SPELLING)
    def _price_fit(self, fit_arguments: FitArguments) -> PricedFit:
        """Reads the arguments of a fit, prices its release and scores, and opens its ledger. Nothing is spent.

        Of the private records, the prices depend on the numbers of groups and labels alone. At the end the estimators
        of a DataFrame are fitted to public rows, as a test.
        """
        privacy_unit = unit_of(fit_arguments.groups)
        fit_inputs, fit_plan, priced_release = self._plan_and_price(fit_arguments)
        priced_scores = fit_plan.price_scores(privacy_unit)
        self._warn_of_plan(
            fit_plan,
            priced_release,
            has_groups=fit_arguments.groups is not None,
            labels_are_masked=isinstance(fit_arguments.labels, np.ma.MaskedArray),
        )
        random_streams = streams_of(self.random_state)
        ledger_settings = self._ledger_settings(fit_plan, privacy_unit)
        score_price = None if priced_scores is None else priced_scores.score_price
        ledger = ledger_settings.open(priced_release, score_price=score_price)
        priced_fit = PricedFit(
            inputs=fit_inputs,
            plan=fit_plan,
            price=FitPrice(
                priced_release=priced_release,
                budget=fit_plan.budget,
                unit=privacy_unit,
                seed=self._seed,
                tuned=self._tuned_runs,
            ),
            scores=priced_scores,
            streams=random_streams,
            ledger_settings=ledger_settings,
            ledger=ledger,
        )
        if self.ledger is None:
            warn_of_past_fits(priced_fit.fit_to_remember.costliest_fits())
            if priced_scores is not None:
                scores_to_remember = priced_scores.fit_to_remember(self._seed)
                warn_of_past_fits(scores_to_remember.costliest_fits())
        # This fits the estimators to public rows of a DataFrame with invented labels. So an estimator that cannot read
        # the columns fails before anything is spent.
        fit_plan.rehearse()
        return priced_fit

    def _plan_and_price(
        self, fit_arguments: FitArguments
    ) -> tuple[FitInputs, FitPlan, PricedRelease]:
        """Reads the arguments of a fit, and returns its data, its plan and its priced release."""
        fit_inputs = self._make_reader().read(fit_arguments)
        check_ledger_parameters(self.ledger, max_total_epsilon=self.max_total_epsilon)
        planner = self._make_planner()
        fit_plan = planner.plan(fit_inputs)
        return fit_inputs, fit_plan, planner.price(fit_plan)

    def _train_and_vote(self, priced_fit: PricedFit) -> VoteSource:
        """Trains the teachers of a fit on disjoint parts of the private records, and returns their votes."""
        plan = priced_fit.plan
        partition = Partition.draw(
            plan.data_pools.private_group_ids,
            plan.num_teachers,
            priced_fit.streams.generator("partition"),
        )
        teacher_seeds = priced_fit.streams.seeds("teachers", num_seeds=plan.num_teachers)
        with _stage(f"{plan.num_teachers} teachers", verbose=self.verbose):
            return plan.vote(priced_fit.priced_release, partition, seeds=teacher_seeds)

    def _release(
        self, priced_fit: PricedFit, *, vote_source: VoteSource, charging_record: ChargingRecord
    ) -> Release:
        """Draws noise around the votes, and sets all attributes of the release.

        The ledger is charged before the noise is drawn. A kill after the charge has paid for a release that nobody has
        seen.
        """
        priced_release = priced_fit.priced_release
        student_prior = StudentPrior(
            student_recipe=priced_fit.plan.student_recipe,
            inputs=priced_fit.plan.query_inputs,
            seed=priced_fit.student_seed,
            never_empty=priced_release.aggregator.never_empty,
        )
        aggregator = priced_release.aggregator.with_prior(student_prior)
        with (
            charging_record.note_spent_price_on_error(
                consequence="its release is lost, and nobody has seen it"
            ),
            _stage(
                f"release, epsilon {format_epsilon(priced_release.epsilon)}",
                verbose=self.verbose,
            ),
            all_cores(),
        ):
            release = aggregator.release(
                vote_source, rng=priced_fit.streams.generator("noise"), record=charging_record
            )
        self._set_release(release, priced_fit.price, spent_epsilon=charging_record.spent_epsilon)
        return release

    def _train_student(
        self, priced_fit: PricedFit, *, release: Release, charging_record: ChargingRecord
    ) -> None:
        """Trains the student of a release, and sets all its attributes; costs nothing more.

        Raises `InvalidValue` if the student cannot be trained. The release stays, and so does an earlier student.
        """
        fit_plan = priced_fit.plan
        answers = f"{release.num_answered} answers to {release.num_queries} queries"
        try:
            with (
                charging_record.note_spent_price_on_error(
                    consequence="release_ is the release that was paid for"
                ),
                _stage(f"student of {answers}", verbose=self.verbose),
                all_cores(),
            ):
                trained_student = self._fitted_student(
                    fit_plan, release, seed=priced_fit.student_seed
                )
                constant_lines = list(
                    constant_student_warnings(
                        trained_student,
                        public_inputs=fit_plan.query_inputs,
                        remedy=priced_fit.priced_release.aggregator.remedies["noise"],
                    )
                )
        except Exception as error:
            raise self._student_error(error, fit_plan=fit_plan) from error
        self._set_student(
            trained_student,
            priced_fit.inputs,
            fit_plan,
            publication=fit_plan.publication(trained_student, release, priced_fit.price),
        )
        for line in constant_lines:
            warnings.warn(line, DoubtfulPlan, stacklevel=users_stack_level())

    def _warn_of_plan(
        self,
        fit_plan: FitPlan,
        priced_release: PricedRelease,
        *,
        has_groups: bool,
        labels_are_masked: bool,
    ) -> None:
        """Warns if a fit is allowed but rarely intended, such as a fit of a clone without groups.

        Args:
            fit_plan: the plan of the fit.
            priced_release: the priced release.
            has_groups: whether the user passed `groups`.
            labels_are_masked: whether the user passed labels as a masked array, which says by itself that some may be
                missing.
        """
        label_task = fit_plan.label_task
        if fit_plan.data_pools.known_label_mask is not None and not labels_are_masked:
            warnings.warn(GapsFromLabels.TEXT, GapsFromLabels, stacklevel=users_stack_level())
        if not has_groups and self._is_clone:
            warnings.warn(UngroupedFit.TEXT, UngroupedFit, stacklevel=users_stack_level())
        if self.classes is None and label_task.reads_classes:
            kind_of_names = "words" if isinstance(label_task, LabelSets) else "classes"
            warnings.warn(
                ClassesFromLabels.TEXT.format(what=kind_of_names),
                ClassesFromLabels,
                stacklevel=users_stack_level(),
            )
        if priced_release.aggregator.single_label and not isinstance(label_task, OneClass):
            warnings.warn(
                one_label_per_query_warning(priced_release.aggregator),
                stacklevel=users_stack_level(),
            )
        for doubt in priced_release.doubts:
            warnings.warn(
                CLASSIFIER_SPELLING.doubt_line(doubt), DoubtfulPlan, stacklevel=users_stack_level()
            )
        for remark in fit_plan.remarks():
            warnings.warn(printable(remark), DoubtfulPlan, stacklevel=users_stack_level())

    def _ledger_settings(self, fit_plan: FitPlan, privacy_unit: PrivacyUnit) -> LedgerSettings:
        """Returns the settings of the ledger that a fit is charged to, a file or memory; it is not opened yet."""
        return LedgerSettings(
            ledger_path=self.ledger,
            max_epsilon=self.max_total_epsilon,
            target_delta=self.target_delta,
            # In a file, one accountant adds up all fits, whatever their plans.
            make_accountant=fit_plan.budget.accountant if self.ledger is None else self._accountant,
            unit=privacy_unit,
            seed=self._seed,
        )

    def _set_release(self, release: Release, fit_price: FitPrice, *, spent_epsilon: float) -> None:
        """Sets all attributes of a release that was paid for; `student_` still belongs to an earlier release, if any.

        Args:
            release: the drawn release.
            fit_price: the price of the release.
            spent_epsilon: the total of the ledger after the charge.
        """
        self._student_is_of_release = False
        self.scores_: ReleasedScores | None = None
        self.release_ = release
        self._fit_price = fit_price
        self.aggregator_ = fit_price.priced_release.aggregator
        self.adjacency_ = release.adjacency
        self.epsilon_ = fit_price.epsilon
        self.delta_ = fit_price.budget.delta
        self.spent_epsilon_ = spent_epsilon
        self.unit_ = fit_price.unit.protected_under(release.adjacency)

    def _fitted_student(self, fit_plan: FitPlan, release: Release, *, seed: int) -> Model:
        """Returns a student that is fitted to a release.

        Args:
            fit_plan: the plan of the fit, with the recipe of the student and the public samples.
            release: the drawn release.
            seed: the seed of the training.
        """
        training_set = release.training_set(fit_plan.query_inputs)
        predictor = fit_plan.student_recipe.learn(
            training_set, pool=fit_plan.pool_inputs, seed=seed
        )
        return fit_plan.fitted_model(predictor)

    def _student_error(self, error: Exception, *, fit_plan: FitPlan) -> InvalidValue:
        """Returns the error for a student that cannot be fitted to a release that is paid for.

        Args:
            error: the error that the student raised.
            fit_plan: the plan of the fit, with the recipe of the student.
        """
        reason = f"{type(error).__name__}: {shown_error(error)}"
        rule = (
            f"one that can be fitted to released labels ({reason}); the release is paid and stays: "
            "another estimator can be fitted to release_.training_set(X_public)"
        )
        student = self._student_estimator if self._has_estimators else fit_plan.student_recipe
        return InvalidValue("student", type(student).__name__, rule=rule)

    def _set_student(
        self,
        trained_student: Model,
        fit_inputs: FitInputs,
        fit_plan: FitPlan,
        *,
        publication: Publication | None,
    ) -> None:
        """Sets all attributes of a student that was fitted to `release_`.

        Args:
            trained_student: the student.
            fit_inputs: the data of the fit, of which the number and the names of the features are kept.
            fit_plan: the plan of the fit, of which the kind of labels and the schema are kept.
            publication: all that the fit may publish; None if its student cannot be published.
        """
        self.n_features_in_ = fit_inputs.num_features
        if fit_inputs.feature_names is not None:
            self.feature_names_in_ = fit_inputs.feature_names
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_  # of an earlier fit, which scikit-learn would compare with
        self.student_ = trained_student
        self._task = fit_plan.label_task
        self._table_schema = fit_plan.schema
        self.classes_ = fit_plan.label_task.classes
        self._publication = publication
        self._student_is_of_release = True

    def _release_scores(self, priced_scores: FitScores, *, priced_fit: PricedFit) -> None:
        """Draws the scores of the student, commits them with their charge, and sets `scores_`.

        Args:
            priced_scores: the priced scores, with the private test records.
            priced_fit: the fit whose student has the scores.
        """
        score_ledger = priced_fit.ledger_settings.score_account(priced_fit.ledger)
        epsilon = format_epsilon(priced_scores.score_price.epsilon)
        with (
            shown_as(CLASSIFIER_SPELLING),
            _stage(f"scores, epsilon {epsilon}", verbose=self.verbose),
            all_cores(),
        ):
            released_scores = priced_scores.release(
                self.student_,
                score_ledger,
                seed=self._seed,
                rng=priced_fit.streams.generator("scores"),
            )
        priced_scores.fit_to_remember(self._seed).remember()
        assert self._publication is not None  # as a student with scores can be published
        self._publication = replace(self._publication, released_scores=released_scores)
        self.scores_ = released_scores
        if self.ledger is not None:
            self.spent_epsilon_ = score_ledger.spent_epsilon

    def _student_output(self, X: ArrayLike, *, method_name: str) -> NDArray[Any]:
        """Returns the result of a method of the student for new inputs.

        Rows of a sparse matrix are passed in blocks, so that only a few of them are dense at a time.

        Args:
            X: the inputs, `[num_samples, num_features]`.
            method_name: the name of the student's method, `predict` or `predict_proba`.

        Raises:
            InvalidValue: the fit read a DataFrame, and these inputs are none; or a cell has another kind than its
                column.
        """
        check_is_fitted(self, "student_")
        output_of = getattr(self.student_, method_name)
        inputs = X if self._table_schema is None else as_pandas(X)
        if not is_frame(inputs):
            if self._table_schema is not None:
                rule = "a DataFrame with the columns of the fit"
                raise InvalidValue("X", type(X).__name__, rule=rule)
            require_readable("X", X)
        inputs = validate_inputs(self, inputs, reset=False)
        if self._table_schema is not None:
            with shown_as(CLASSIFIER_SPELLING):
                inputs = encode_new(inputs, self._table_schema)
        with one_blas_thread():  # the same last bits on any number of cores
            if not sparse.issparse(inputs):
                return np.asarray(output_of(inputs))
            input_blocks = [
                rows_of(inputs, rows=slice(start, start + _PREDICTED_ROWS))
                for start in range(0, inputs.shape[0], _PREDICTED_ROWS)
            ]
            return np.asarray(
                np.concatenate([output_of(input_block) for input_block in input_blocks])
            )


@contextmanager
def _stage(name: str, *, verbose: int) -> Iterator[None]:
    """Measures the time of a `with` block, and prints its name and time if `verbose` is not 0.

    The line begins with the class in brackets, as scikit-learn's do. If the block raises an error, nothing is printed.
    """
    started = time.monotonic()
    yield
    if verbose:
        sys.stdout.write(f"[PATEClassifier] {name}: {time.monotonic() - started:.1f} s\n")
