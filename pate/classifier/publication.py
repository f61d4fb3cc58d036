"""The publication of a fit: the files of `release/` as `pate-train` writes them, from what the fit has released alone.

Nothing here reads a private record. A fitted classifier holds a `Publication`: the release, its price, and public
facts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from pate.accounting import Budget, Event, PrivacyUnit
from pate.aggregators import Release
from pate.aggregators.release import PublicNames
from pate.bundle.model_card import write_model_card
from pate.bundle.model_form import ModelForm
from pate.data import Preprocessing
from pate.files.arrays import npz_bytes
from pate.files.atomic import atomic_write, write_text
from pate.files.manifest import Manifest
from pate.files.paths import make_folder
from pate.files.published_fields import published_fields
from pate.models import Student, Voter
from pate.models.student_model import StudentModel
from pate.pricing import PricedRelease
from pate.report import Privacy
from pate.report.released_scores import ReleasedScores
from pate.run.published_price import privacy_of, summary_of, write_price
from pate.run.tuned_runs import TunedRuns
from pate.validation import InvalidValue, require, require_text

# The settings that accountants have in conf/accountant/.
_ACCOUNTANT_SETTINGS = ("in_blocks",)
# What the cards name as public by the owner's statement, if the owner stated it of the names of classes.
_STATED_CLASSES = ("classes",)
# What the error of a damaged file advises.
_REMEDY = "publish into a new folder"


@dataclass(frozen=True)
class FitPrice:
    """The charge of a fit, as `pate.run.published_price.Charge` describes it.

    Attributes:
        priced_release: the release, with the price of its noise.
        budget: the epsilon and delta that the release may cost, and the accountant that computes the price.
        unit: the unit of privacy.
        seed: the seed of the noise; None for noise from the operating system.
        tuned: the price of the search in which this fit competes with others; None for a fit outside of a search.
    """

    priced_release: PricedRelease
    budget: Budget
    unit: PrivacyUnit
    seed: int | None
    tuned: TunedRuns | None = None

    @property
    def num_draws(self) -> int:
        """The number of draws of the release that were charged: 1, as a fit cannot be drawn again with fresh noise."""
        return 1

    @property
    def epsilon(self) -> float:
        """The epsilon of the release; for the best fit of a search, that of the whole search."""
        if self.tuned is not None:
            return self.budget.epsilon_of(self.tuned.event)
        return self.priced_release.epsilon

    @property
    def published_event(self) -> Event:
        """The price of what is published as an event, which any accountant can price; of a search, for all its fits."""
        return self.priced_release.event if self.tuned is None else self.tuned.event


@dataclass(frozen=True, kw_only=True)
class FitFacts:
    """The public facts of a fit whose student is published.

    Attributes:
        aggregator_name: the name of the aggregator in the configuration of `pate-train`.
        teacher_recipe: the recipe of the teachers.
        num_teachers: the number of teachers that was set; None for one teacher for each private group.
        student_recipe: the recipe of the student.
        label_names: the name of each label.
        one_class: whether each sample has exactly one of the labels.
        classes_from_labels: whether the names of classes were read from private labels and may reveal one; the classes
            0 and 1, or False and True, do not.
        classes_are_stated: whether the names of classes were passed to the classifier, as public.
        labels_have_gaps: whether labels of private records may be unknown, which is public.
        num_public_labels: the number of public samples from whose labels the student started; None for none.
        data_name: the name of the data, unless `publish` gets one.
        dataset_class_path: the class that reads such data in a configuration of `pate-train`, such as
            `pate.data.Arrays`.
        preprocessing: computes inputs from rows of a table; None if the inputs are arrays.
    """

    aggregator_name: str
    teacher_recipe: Voter
    num_teachers: int | None
    student_recipe: Student
    label_names: tuple[str, ...]
    one_class: bool
    classes_from_labels: bool
    classes_are_stated: bool
    labels_have_gaps: bool
    num_public_labels: bool | int | None
    data_name: str
    dataset_class_path: str
    preprocessing: Preprocessing | None


@dataclass(frozen=True, eq=False, kw_only=True)  # compared by identity, as its parts are
class Publication:
    """All that a fit may publish; its epsilon covers it, but for public facts and for scores, which have a price too.

    Attributes:
        release: the drawn release.
        fit_price: the price of the release.
        student: the student that learned from the release.
        fit_facts: the public facts of the fit.
        released_scores: the released scores of the student on private test records; None where none were released.
    """

    release: Release
    fit_price: FitPrice
    student: StudentModel
    fit_facts: FitFacts
    released_scores: ReleasedScores | None = None

    @property
    def privacy(self) -> Privacy:
        """The price of the release, the parameters of its mechanism, and the released scores."""
        privacy = privacy_of(drawn_release=self.release, release_charge=self.fit_price)
        return replace(privacy, scores=self.released_scores)

    @property
    def stated_public(self) -> tuple[str, ...]:
        """What the owner stated to be public by a parameter: the names of classes if `classes` is set, or nothing."""
        return _STATED_CLASSES if self.fit_facts.classes_are_stated else ()

    def write(self, folder: Path, *, name: str | None, classes_are_public: bool) -> None:
        """Writes the files of `release/` into a new folder; the manifest is written last.

        Args:
            folder: the folder, which does not exist or is empty.
            name: the public name of the data; None for `fit_facts.data_name`.
            classes_are_public: whether the owner states that the names of classes, read from private labels, are
                public.

        Raises:
            InvalidValue: the folder holds files; or the names of classes were read from private labels, and
                `classes_are_public` is false; or the release has another price than was charged.
        """
        self._require_writable(folder, classes_are_public=classes_are_public)
        fit_facts = self.fit_facts
        stated_public = _STATED_CLASSES if fit_facts.classes_from_labels else self.stated_public
        data_name = require_text("name", fit_facts.data_name if name is None else name)
        make_folder(folder)
        num_queries = self.fit_price.priced_release.shape.num_queries
        public_names = PublicNames(
            record_ids=np.arange(num_queries), label_names=fit_facts.label_names
        )
        with atomic_write(folder / "release.npz") as release_file:
            release_file.write(npz_bytes(self.release.arrays() | public_names.arrays()))
        self.student.save(folder / "student")
        write_text(folder / "config.yaml", text=self._settings_yaml(data_name))
        feature_settings = None
        if fit_facts.preprocessing is not None:
            feature_settings = dict(fit_facts.preprocessing.origin) or None
        write_price(
            drawn_release=self.release,
            release_charge=self.fit_price,
            privacy=self.privacy,
            release_folder=folder,
            data_name=data_name,
            is_real=True,
            aggregator_name=fit_facts.aggregator_name,
            feature_settings=feature_settings,
            stated_public=stated_public,
            labels_have_gaps=fit_facts.labels_have_gaps,
            label_names=fit_facts.label_names,
        )
        model_form = ModelForm.from_student(
            self.student,
            data_name=data_name,
            data_kind="features",
            label_names=fit_facts.label_names,
            preprocessing=fit_facts.preprocessing,
            one_class=fit_facts.one_class,
        )
        model_form.write(folder)
        write_model_card(
            folder,
            model_form,
            privacy=self.privacy,
            release_summary=summary_of(drawn_release=self.release),
            stated_public=stated_public,
            labels_have_gaps=fit_facts.labels_have_gaps,
        )
        file_paths = [path for path in folder.rglob("*") if not path.is_dir()]
        relative_paths = [path.relative_to(folder).as_posix() for path in file_paths]
        Manifest.from_files(folder, relative_paths, missing_file_remedy=_REMEDY).write(folder)

    def _require_writable(self, folder: Path, *, classes_are_public: bool) -> None:
        """Raises `InvalidValue` if `write` would refuse these arguments."""
        is_free = not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))
        require(is_free, "folder", folder, "a folder that is new or empty")
        if self.release.event != self.fit_price.priced_release.event:
            rule = "a release with the price that was charged for it"
            raise InvalidValue("release_", type(self.release).__name__, rule=rule)
        if self.fit_facts.classes_from_labels and not classes_are_public:
            rule = (
                "True, if the names of all classes are public: they were read from the private y, and no epsilon "
                "covers them; a new fit with classes=[...] reads none"
            )
            raise InvalidValue("public_classes", classes_are_public, rule=rule)

    def _settings_yaml(self, data_name: str) -> str:
        """Returns the public settings as YAML, as a run of `pate-train` publishes them in `release/config.yaml`.

        Args:
            data_name: the public name of the data.
        """
        budget = self.fit_price.budget
        aggregator = self.fit_price.priced_release.aggregator
        accountant = budget.accountant()
        accountant_settings = {
            name: getattr(accountant, name)
            for name in _ACCOUNTANT_SETTINGS
            if hasattr(accountant, name)
        }
        data: dict[str, Any] = {
            "_target_": self.fit_facts.dataset_class_path,
            "name": data_name,
        }
        if self.fit_facts.num_public_labels is not None:
            data["public_labels"] = self.fit_facts.num_public_labels
        settings = {
            "adjacency": str(aggregator.adjacency),
            "target_delta": budget.delta,
            "target_epsilon": budget.epsilon,
            "max_epsilon": None,
            "num_queries": self.fit_price.priced_release.shape.num_queries,
            "aggregator": _published_settings(
                public_package="pate.aggregators", published_part=aggregator
            ),
            "accountant": {
                "_target_": _target(public_package="pate.accounting", published_part=accountant),
                **accountant_settings,
            },
            "teacher": {
                **_published_settings(
                    public_package="pate.teachers", published_part=self.fit_facts.teacher_recipe
                ),
                "num_teachers": self.fit_facts.num_teachers,
            },
            "student": _published_settings(
                public_package="pate.student", published_part=self.fit_facts.student_recipe
            ),
            "data": data,
        }
        text: str = yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)
        return text


def _published_settings(public_package: str, published_part: Any) -> Mapping[str, Any]:
    """Returns the class of an aggregator or a recipe, as `_target_`, and its fields that may be published, by name.

    Args:
        public_package: the public package from which a configuration takes the class.
        published_part: an aggregator, the recipe of teachers, or the recipe of a student.
    """
    return {
        "_target_": _target(public_package=public_package, published_part=published_part),
        **published_fields(type(published_part), values=vars(published_part)),
    }


def _target(public_package: str, published_part: Any) -> str:
    """Returns the public name of the class of an object, such as `pate.aggregators.CenteredVotes`.

    Of a class outside of `pate`, the last name alone is returned.

    Args:
        public_package: the public package from which a configuration takes the class.
        published_part: the object.
    """
    name = type(published_part).__name__
    is_ours = type(published_part).__module__.split(".")[0] == "pate"
    return f"{public_package}.{name}" if is_ours else name
