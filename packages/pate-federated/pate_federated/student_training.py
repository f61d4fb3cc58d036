"""The training of a student on a release, which anybody can do with the release and the public samples.

It is post-processing, and costs no epsilon.
"""

import os
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from pate.accounting import Adjacency, NoOpEvent
from pate.aggregators.centered_release import CenteredRelease, RoundsRelease
from pate.aggregators.release import PublicNames, Release
from pate.bundle import Bundle
from pate.bundle.model_card import write_model_card
from pate.bundle.model_form import SCHEMA, ModelForm
from pate.errors import InvalidValue
from pate.files.arrays import ArrayForm, read_arrays
from pate.files.atomic import atomic_write, remove_partials, write_text
from pate.files.digests import file_digest
from pate.files.manifest import MANIFEST, Manifest
from pate.files.paths import make_folder, require_no_links
from pate.files.plain_yaml import read_yaml
from pate.files.reading import damaged, read_text
from pate.models import Student, StudentModel
from pate.progress import Monitor
from pate.report.card import PRIVACY_FILE
from pate.run.plan_warnings import constant_student_warnings
from pate.run.queries import Queries, require_queries
from pate.run.random_streams import RandomStreams
from pate.run.votes_release import COPY_ANEW, TERMS, Terms
from pate.threads import all_cores
from pate.validation import require
from pate.votes import DEFAULT_RECIPE, Recipe

# the files of a release, and the files that the training adds
_RELEASED_FILES = ("release.npz", "privacy_card.md", PRIVACY_FILE, "config.yaml")
_STUDENT_FILES = (
    "README.md",
    SCHEMA,
    "extractor.safetensors",
    "student/student.json",
    "student/student.safetensors",
)


@dataclass(frozen=True, kw_only=True)
class StudentPlan:
    """The plan of a student: with the release it determines the trained model.

    Attributes:
        student: the kind of student and its settings.
        queries: a function that reads the public samples: first those that the teachers voted on, then the rest of the
            student's pool.
        seed: the seed of the training; None for a seed computed from the release, so that each training gives the same
            student.
        with_student: a function that takes the text of the release's `config.yaml`, and returns the text for the
            bundle, with the student's settings.
    """

    student: Student
    queries: Callable[[], Queries]
    seed: int | None = None
    with_student: Callable[[str], str] = str  # leaves the text as it is


@all_cores()
def train_on_release(
    plan: StudentPlan,
    release_path: Path | str,
    output: Path | str | None = None,
    monitor: Monitor | None = None,
) -> StudentModel:
    """Trains a student on a release and writes a bundle, which `pate.load` reads. Training costs no epsilon.

    If the folder of the bundle has a finished student, that one is returned and nothing is trained.

    Args:
        plan: the plan of the student.
        release_path: the folder that `pate-release` wrote, its `release/`, or a copy of that.
        output: the folder of the bundle; None for `release/` itself.
        monitor: displays the progress; None for no display.

    Raises:
        InvalidValue: the folder has no release, the release was altered, or the samples are not those voted on.
    """
    monitor = monitor or Monitor()

    # 1. Find the release, and the folder of the bundle.
    release_path = Path(release_path)
    published_folder = folder_of(release_path)
    bundle_folder = published_folder if output is None else Path(output)
    if output is None:
        require_no_links(release_path, name="release")
    else:
        require_no_links(bundle_folder, name="output")
    terms = _terms_of(published_folder, named_folder=release_path)
    if _is_finished(bundle_folder):
        monitor.say(f"release={bundle_folder}: its student is there; nothing was trained again")
        return Bundle.load(bundle_folder).model
    if terms is None:
        rule = "the folder of pate-release; a student that is there already, as of pate-train, is not trained again"
        raise InvalidValue("release", release_path, rule=rule)
    _remove_partials(bundle_folder)
    _require_as_released(published_folder, digest_of_file=terms.sha256)

    # 2. Read the release and the public samples that were asked.
    with monitor.stage("reading what was released"):
        published_release, public_names = _read_release(
            published_folder / "release.npz", adjacency=Adjacency.parse(terms.privacy.adjacency)
        )
        queries = plan.queries()
    num_queries = published_release.num_queries
    _require_asked(queries, num_queries=num_queries, terms=terms, public_names=public_names)

    # 3. Train the student.
    inputs = queries.inputs
    num_labels = published_release.labels.shape[1]
    plan.student.check(tuple(inputs.shape[1:]), num_labels)
    seed = _student_seed(plan, published_folder)
    with monitor.stage("training the student"):
        training_set = replace(
            published_release.training_set(inputs[:num_queries]),
            recipe=published_recipe(release=published_folder),
        )
        model = plan.student.learn(training=training_set, pool=inputs[num_queries:], seed=seed)
    for line in constant_student_warnings(model, public_inputs=inputs):
        monitor.say(line)

    # 4. Write the bundle.
    if bundle_folder != published_folder:
        _copy_release(published_folder, bundle_folder)
    model.save(bundle_folder / "student")
    model_form = ModelForm.from_student(
        model,
        data_name=terms.dataset,
        data_kind="features" if inputs.ndim == 2 else "images",
        label_names=public_names.label_names,
        preprocessing=queries.preprocessing,
    )
    model_form.write(bundle_folder)
    write_model_card(
        bundle_folder, model_form, privacy=terms.privacy, release_summary=terms.release
    )
    _complete_bundle(folder=bundle_folder, add_student_settings=plan.with_student)
    return model


def _remove_partials(bundle_folder: Path) -> None:
    """Removes the partial files of a bundle that a killed call left."""
    for path in (bundle_folder / name for name in (*_RELEASED_FILES, *_STUDENT_FILES, MANIFEST)):
        remove_partials(path.parent, name_patterns=[re.escape(path.name)])


def _require_as_released(published_folder: Path, *, digest_of_file: Mapping[str, str]) -> None:
    """Raises `InvalidValue` if a file of a release is not as it was released.

    Args:
        published_folder: the folder of the release.
        digest_of_file: the SHA-256 of each file as it was released, by the name of the file.
    """
    for name, digest in digest_of_file.items():
        if (
            file_digest(published_folder / name, rule="a file of a release", remedy=COPY_ANEW)
            != digest
        ):
            raise damaged(
                published_folder / name,
                rule="the file as it was released",
                finding="it is another",
                remedy=COPY_ANEW,
            )


def _require_asked(
    queries: Queries, *, num_queries: int, terms: Terms, public_names: PublicNames
) -> None:
    """Raises `InvalidValue` unless the first samples are those of a release.

    If the release has a digest of its queries, names of labels that come with the samples must include the release's.

    Args:
        queries: the public samples.
        num_queries: the number of samples that were asked.
        terms: the terms of the release, with the digest of its queries if it has one.
        public_names: the names of the queries and of the labels in the release.
    """
    require_queries(
        queries,
        num_queries=num_queries,
        expected_digest=terms.queries,
        rule=f"at least {num_queries} samples, those that were asked",
    )
    if not terms.queries:
        # The release has no digest of its queries, so their ids are compared.
        has_same_ids = np.array_equal(
            queries.record_ids[:num_queries].astype(str), public_names.record_ids.astype(str)
        )
        rule = f"those that were asked: {num_queries} samples with the ids of release.npz"
        require(has_same_ids, "queries", "others", rule)
    elif queries.label_names:
        # in the order of the holders' files, without a label that none of them has
        are_asked = set(public_names.label_names) <= set(queries.label_names)
        require(are_asked, "queries.label_names", "others", "those of the release")


def _student_seed(plan: StudentPlan, published_folder: Path) -> int:
    """Returns the seed of the training, from the seed of the plan or else from the bytes of the release."""
    root_seed = plan.seed
    if root_seed is None:
        digest = file_digest(published_folder / "release.npz", rule="a release", remedy=COPY_ANEW)
        root_seed = int(digest[:16], base=16)
    return RandomStreams(root_seed).seed("student")


def _copy_release(published_folder: Path, bundle_folder: Path) -> None:
    """Copies the files of a release, those that there are, to the folder of a bundle."""
    make_folder(bundle_folder)
    for path in filter(Path.is_file, (published_folder / name for name in _RELEASED_FILES)):
        with path.open("rb") as original, atomic_write(bundle_folder / path.name) as copy:
            shutil.copyfileobj(original, copy)


def _complete_bundle(folder: Path, add_student_settings: Callable[[str], str]) -> None:
    """Completes the bundle of a trained student: writes its settings and manifest, and removes the terms in its folder.

    Args:
        folder: the folder of the bundle.
        add_student_settings: returns the text of `config.yaml` with the student's settings added to it.
    """
    if (folder / "config.yaml").exists():
        settings_text = read_text(
            folder / "config.yaml", rule="settings of a release", remedy=COPY_ANEW
        )
        write_text(folder / "config.yaml", text=add_student_settings(settings_text))
    text_files = sorted(path.name for path in folder.glob("text-*.safetensors"))
    possible_names = (*_RELEASED_FILES, *_STUDENT_FILES, *text_files)
    file_names = [name for name in possible_names if (folder / name).is_file()]
    manifest = Manifest.from_files(folder, file_names=file_names, missing_file_remedy=COPY_ANEW)
    manifest.write(folder)
    (folder / TERMS).unlink(missing_ok=True)


def folder_of(release: Path) -> Path:
    """Returns the folder that holds release.npz: the given folder, or `release/` within it.

    Raises `InvalidValue` if neither holds it.
    """
    for folder in (release, release / "release"):
        if (folder / "release.npz").is_file():
            return folder
    raise InvalidValue(
        "release", release, rule="the folder that pate-release wrote, or its release/"
    )


def _terms_of(published_folder: Path, *, named_folder: Path) -> Terms | None:
    """Returns the terms of a release, from `published_folder` or else from `named_folder`.

    Returns None if there are none, and a student was trained in `published_folder`, as training removes the terms.
    Raises `InvalidValue` if there are neither terms nor a student.

    Args:
        published_folder: the folder that holds release.npz.
        named_folder: the folder that the user named.
    """
    for folder in (published_folder, named_folder):
        if os.path.lexists(folder / TERMS):
            return Terms.read(folder)
    if _is_finished(published_folder):
        return None
    raise InvalidValue(
        "release", named_folder, rule=f"a folder with {TERMS}, as pate-release writes it"
    )


def _is_finished(folder: Path) -> bool:
    """Returns True if a student was trained in a folder: it has a manifest, and no terms are left."""
    return (folder / MANIFEST).is_file() and not os.path.lexists(folder / TERMS)


def published_recipe(release: Path) -> Recipe:
    """Returns the recipe in the config.yaml of a release; the default recipe if config.yaml names none."""
    path = release / "config.yaml"
    if not path.exists():
        return DEFAULT_RECIPE
    settings_text = read_text(path, rule="settings of a release", remedy=COPY_ANEW)
    settings = read_yaml(settings_text, name="config.yaml", rule="YAML as pate-release writes it")
    aggregator = settings.get("aggregator") if isinstance(settings, dict) else None
    recipe_values = aggregator.get("recipe") if isinstance(aggregator, dict) else None
    return Recipe.from_values(recipe_values) if isinstance(recipe_values, dict) else DEFAULT_RECIPE


def _read_release(path: Path, adjacency: Adjacency) -> tuple[Release, PublicNames]:
    """Reads a release, and the public names of its queries and labels.

    If the file also has centered votes' scores of labels, the release has them too.

    Args:
        path: the file of the release.
        adjacency: the adjacency that the release is priced for.
    """
    forms = PublicNames.FORMS | {
        "labels": ArrayForm(dtype_kinds="b"),
        "answered": ArrayForm(dtype_kinds="b"),
    }
    arrays = read_arrays(path, optional_forms=forms)
    rule = "labels, answered, record_ids and label_names of a release"
    lacking = sorted(forms.keys() - arrays.keys())
    if lacking:
        raise damaged(path, rule, finding=f"it lacks {', '.join(lacking)}", remedy=COPY_ANEW)
    labels = arrays["labels"]
    answered = arrays["answered"]
    ids = arrays["record_ids"]
    names = tuple(map(str, arrays["label_names"].tolist()))
    if (
        labels.ndim != 2
        or answered.shape != ids.shape
        or labels.shape != (len(answered), len(names))
    ):
        raise damaged(path, rule, finding="arrays of different lengths", remedy=COPY_ANEW)
    public_names = PublicNames(record_ids=ids, label_names=names)
    for release_class, needed_arrays in (
        (CenteredRelease, {"scores", "noise_std", "center"}),
        (RoundsRelease, {"scores", "student"}),
    ):
        if needed_arrays <= arrays.keys():
            release_with_scores = release_class.load(path, event=NoOpEvent(), adjacency=adjacency)
            return release_with_scores, public_names
    return Release(labels, answered, event=NoOpEvent(), adjacency=adjacency), public_names
