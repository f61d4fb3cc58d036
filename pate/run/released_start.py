"""This module reads an earlier release, of other people's records, at which the student of a new release starts.

Only the folder `release/` of the earlier run is read. Its student computes features from inputs. Its moments are noisy
covariances of these features and the labels (`NoisyMoments`). The new student first learns from these moments, and then
from the votes of the new release.

The folder may come from anybody. So shapes, types and digests are checked before anything is spent, and no code of the
folder is run. Wrong numbers in the folder make a worse student. They do not weaken the guarantee of the new release: a
price covers any start that does not depend on the private records (docs/proofs/renewal.md).
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Self

import numpy as np

from pate.accounting import Adjacency, NoOpEvent
from pate.accounting.special import expit
from pate.aggregators.centered_release import RoundsRelease
from pate.array_types import Float32Array, IntArray
from pate.bundle.bundle import Bundle
from pate.data import Dataset
from pate.data.preprocessing import Preprocessing
from pate.files.digests import file_digest
from pate.files.manifest import MANIFEST, Manifest
from pate.files.reading import damaged
from pate.files.strict_json import plain
from pate.models.released_model import ReleasedModel
from pate.report.privacy import EarlierPrice
from pate.validation import InvalidValue
from pate.votes.moment_student import MomentStudent
from pate.votes.noisy_moments import NoisyMoments
from pate.votes.public_start import PublicStart, StartSource
from pate.votes.recipe import Recipe
from pate.votes.round_votes import RoundVotes

# The file of the released arrays.
_RELEASE = "release.npz"
_RULE = "the file of a release in rounds"
_REMEDY = "copy the folder anew from where it was published"
# An error names at most this many labels.
_MAX_LABELS_SHOWN = 5


@dataclass(frozen=True, eq=False)  # == of arrays is an array
class ReleasedStart(StartSource):
    """An earlier release of centered votes in rounds, from which the student of a new release starts.

    Attributes:
        model: the published student of the earlier release. It computes the features that its `moments` belong to.
        moments: the noisy moments that the earlier release published: the covariance of each feature and label over
            its private records. Labels are in the order of the new data.
        label_order: `[num_labels]`, the place of each label of the new data among those of the model.
        earlier_price: the price of the earlier release as its folder states it, with the digest of the folder.
        public_inputs: the public pool of the new release, float32 `[num_public, ...]`.
        recipe: the tuned constants of the new release.
    """

    model: ReleasedModel
    moments: NoisyMoments
    label_order: IntArray
    earlier_price: EarlierPrice
    public_inputs: Float32Array
    recipe: Recipe

    @classmethod
    def read(cls, release_folder: str | PathLike[str], dataset: Dataset, recipe: Recipe) -> Self:
        """Reads an earlier release, and checks that its labels and inputs are those of a data set.

        Args:
            release_folder: the folder `release/` of the earlier run, or a copy of it.
            dataset: the data set of the new run, of which the names of labels and the public pool are read.
            recipe: the tuned constants of the new release.

        Raises:
            InvalidValue: the folder holds no release in rounds, or one of a version that published no moments; a file
                is damaged or altered; or labels, inputs or preprocessing are not those of the data set.
        """
        release_folder_path = Path(release_folder).expanduser()
        try:
            bundle = Bundle.load(release_folder_path)
        except InvalidValue as bundle_error:
            raise InvalidValue("start", bundle_error.value, rule=bundle_error.rule) from None
        released_model = bundle.model
        rule = "a release of centered votes in rounds, whose student has the released weights"
        if not isinstance(released_model, ReleasedModel):
            raise InvalidValue(
                "start",
                release_folder,
                rule=f"{rule}; this one is of kind {released_model.kind}",
            )
        _require_same_label_set(
            release_folder, released_names=bundle.labels, label_names=dataset.label_names
        )
        _require_inputs(release_folder, bundle=bundle, dataset=dataset)
        label_order = np.array([bundle.labels.index(name) for name in dataset.label_names])
        moments = _read_moments(
            release_folder_path,
            num_features=len(released_model.arrays["weights"]),
            label_order=label_order,
        )
        if not all(np.isfinite(array).all() for array in released_model.arrays.values()):
            raise InvalidValue("start", release_folder, rule="a student of finite numbers")
        privacy = bundle.privacy
        if privacy is None:
            raise InvalidValue("start", release_folder, rule="a release that states its price")
        return cls(
            model=released_model,
            moments=moments,
            label_order=label_order,
            earlier_price=EarlierPrice(
                sha256=file_digest(release_folder_path / MANIFEST, remedy=_REMEDY),
                epsilon=privacy.epsilon,
                delta=privacy.delta,
            ),
            public_inputs=np.asarray(dataset.public.inputs),
            recipe=recipe,
        )

    @property
    def identity(self) -> str:
        """The text "release " and the SHA-256 of the earlier release's manifest, which tells two starts apart."""
        return f"release {self.earlier_price.sha256}"

    @property
    def direction_ratio(self) -> float:
        """The factor by which the noise counts as smaller when the number of directions of the new release is chosen.

        It is the root of 2, as if the earlier release told as much as the new one. An earlier release of far fewer
        records tells less.
        """
        num_equal_releases = 2
        return math.sqrt(num_equal_releases)

    def public_start(self, votes: RoundVotes) -> PublicStart:
        """Returns the start of the new rounds: the student that the earlier moments give, in the new features.

        The moments are converted by a linear fit between new and earlier features on the first rows of the public pool,
        those that have features in `votes`. The prevalence of a label is the mean probability of the earlier student on
        these rows, kept away from 0 and 1 by `recipe.matched_floor`.

        Args:
            votes: the votes of the new release, of which the public features are read.
        """
        asked_public_inputs = self.public_inputs[: len(votes.public_features)]
        earlier_features = self.model.features(asked_public_inputs)
        weights = self.model.arrays["weights"][:, self.label_order].astype(np.float64)
        bias = self.model.arrays["bias"][self.label_order].astype(np.float64)
        floor = self.recipe.matched_floor
        predicted_prevalence = (
            expit(earlier_features @ weights + bias).mean(axis=0).clip(floor, 1 - floor)
        )
        # features of rounds leave room for the constant in a row of length 1
        earlier_features *= math.sqrt(1 - self.recipe.constant_feature**2)
        moment_student = MomentStudent(
            public_features=votes.public_features,
            feature_variances=votes.feature_variances,
            recipe=self.recipe,
        )
        converted_moments = moment_student.convert_moments(
            self.moments, earlier_release_features=earlier_features, prevalence=predicted_prevalence
        )
        return moment_student.as_start(converted_moments, prevalence=predicted_prevalence)


def _require_same_label_set(
    release_folder: str | PathLike[str],
    *,
    released_names: tuple[str, ...],
    label_names: tuple[str, ...],
) -> None:
    """Raises `InvalidValue` unless a release has exactly the labels `label_names`, in any order."""
    lacking = [name for name in label_names if name not in released_names]
    foreign = [name for name in released_names if name not in label_names]
    differences = [
        f"{text} {', '.join(labels[:_MAX_LABELS_SHOWN])}{', …' if len(labels) > _MAX_LABELS_SHOWN else ''}"
        for text, labels in (("it lacks", lacking), ("it also has", foreign))
        if labels
    ]
    if differences:
        rule = f"a release of the {len(label_names)} labels of the data; {'; '.join(differences)}"
        raise InvalidValue("start", release_folder, rule=rule)


def _require_inputs(
    release_folder: str | PathLike[str], *, bundle: Bundle, dataset: Dataset
) -> None:
    """Raises `InvalidValue` unless a released student takes the inputs of a data set, made by the same preprocessing.

    Args:
        release_folder: the folder of the release, for the error.
        bundle: the content of that folder, with the student and its preprocessing.
        dataset: the data set of the new run.
    """
    shape = bundle.form.input_shape
    if shape != dataset.input_shape:
        rule = f"a student of inputs of shape {dataset.input_shape}; this one takes {shape}"
        raise InvalidValue("start", release_folder, rule=rule)
    if _text_of(bundle.form.preprocessing) != _text_of(dataset.preprocessing):
        rule = (
            "a release whose inputs were made as in this run: give the schema or the features of that run, "
            "as data.schema= or features="
        )
        raise InvalidValue("start", release_folder, rule=rule)


def _text_of(preprocessing: Preprocessing | None) -> str:
    return "" if preprocessing is None else json.dumps(plain(preprocessing.plain()), sort_keys=True)


def _read_moments(
    release_folder_path: Path, *, num_features: int, label_order: IntArray
) -> NoisyMoments:
    """Returns the noisy moments that a release published, with labels in the order of the new data.

    Args:
        release_folder_path: the folder `release/`.
        num_features: the number of features of the released student, which the moments must have, too.
        label_order: for each label of the new data, its index among the labels of the release, `[num_labels]`.

    Raises:
        InvalidValue: the release has no moments, or they are damaged or altered.
    """
    release_file = release_folder_path / _RELEASE
    release_digests = Manifest.read(
        release_folder_path, rule="the digests of a release", remedy=_REMEDY
    ).sha256
    if file_digest(release_file, rule=_RULE, remedy=_REMEDY) != release_digests.get(_RELEASE):
        rule = "the file as it was published"
        raise damaged(release_file, rule=rule, finding="it is another", remedy=_REMEDY)
    # no price is read from the file
    release = RoundsRelease.load(release_file, event=NoOpEvent(), adjacency=Adjacency.REPLACE_ONE)
    values = release.moments
    variances = release.moment_variances
    if values is None or variances is None:
        rule = "a release with moments; the version that made this one published none"
        raise InvalidValue("start", release_folder_path, rule=rule)
    shape = (num_features, len(label_order))
    has_numbers = (
        values.shape == variances.shape == shape
        and bool(np.isfinite(values).all() and np.isfinite(variances).all())
        and bool((variances > 0).all())
    )
    if not has_numbers:
        finding = f"arrays {values.shape} and {variances.shape}"
        rule = f"finite moments {list(shape)} with variances > 0"
        raise damaged(release_file, rule=rule, finding=finding, remedy=_REMEDY)
    return NoisyMoments(
        values=values[:, label_order].astype(np.float64),
        variances=variances[:, label_order].astype(np.float64),
    )
