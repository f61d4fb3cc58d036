"""A run that renews a student starts from the release of an earlier cohort, which consists of other people."""

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pate.accounting import Ledger
from pate.files.digests import file_digest
from pate.files.manifest import MANIFEST, Manifest
from tests.e2e.commands import call, refused_command, succeeded
from tests.e2e.small_run import watch_sums

NUM_PRIVATE = 600  # of each cohort
NUM_PUBLIC = 300
NUM_TEST = 400
NAMES = ("flu", "cough", "fever", "rash")
NUM_INPUTS = 6
EPSILON = 2.0


@dataclass(frozen=True)
class Renewed:
    """Two runs in one folder: one on a first cohort, and one on a second, which starts from the first release.

    Attributes:
        folder: the folder that holds data, ledger and both runs.
        settings: the settings of both runs; those of private file, ledger and output are added by `arguments`.
    """

    folder: Path
    settings: list[str]

    @property
    def first(self) -> Path:
        """The folder of the first run."""
        return self.folder / "first"

    @property
    def second(self) -> Path:
        """The folder of the second run."""
        return self.folder / "second"

    def arguments(self, cohort: str, output: Path, settings: Sequence[str] = ()) -> list[str]:
        """Returns the settings of a run on the records of a cohort.

        Args:
            cohort: the name of the private file without its ending.
            output: the folder of the run.
            settings: further settings.
        """
        private = f"data.private={self.folder / cohort}.npz"
        ledger = f"ledger={self.folder / 'ledger.db'}"
        return [*self.settings, private, ledger, f"output_dir={output}", *settings]


def write_records(
    path: Path, num_rows: int, first_id: int, label_names: tuple[str, ...] = NAMES
) -> None:
    """Writes records whose ids and groups count upward from `first_id`.

    In all files of these calls, labels depend on inputs in the same way.
    """
    rng = np.random.default_rng(first_id)
    inputs = rng.standard_normal((num_rows, NUM_INPUTS)).astype(np.float32)
    weights = np.random.default_rng(0).standard_normal((NUM_INPUTS, len(label_names)))
    labels = inputs @ weights + rng.standard_normal((num_rows, len(label_names))) > 1
    ids = np.arange(num_rows) + first_id
    np.savez(
        path, inputs=inputs, labels=labels, label_names=np.array(label_names), ids=ids, groups=ids
    )


@pytest.fixture(scope="module")
def renewed(tmp_path_factory: pytest.TempPathFactory) -> Renewed:
    """Runs `pate-train` on two files of private records, the first and the second cohort, and returns both runs.

    The second run starts from the release of the first one (`start=`). The public and test records are the same.
    """
    folder = tmp_path_factory.mktemp("renewal")
    write_records(path=folder / "first.npz", num_rows=NUM_PRIVATE, first_id=0)
    write_records(path=folder / "second.npz", num_rows=NUM_PRIVATE, first_id=10_000)
    write_records(path=folder / "public.npz", num_rows=NUM_PUBLIC, first_id=20_000)
    write_records(path=folder / "test.npz", num_rows=NUM_TEST, first_id=30_000)
    settings = [
        "experiment=centered_votes",
        "data=arrays",
        f"data.public={folder / 'public.npz'}",
        f"data.test={folder / 'test.npz'}",
        f"target_epsilon={EPSILON}",
        "target_delta=1e-5",
        "num_queries=100",
        "all_records=false",
        "logger=none",
        "seed=3",
    ]
    runs = Renewed(folder=folder, settings=settings)
    succeeded("train", arguments=runs.arguments(cohort="first", output=runs.first))
    succeeded(
        "train",
        arguments=runs.arguments(
            cohort="second",
            output=runs.second,
            settings=["seed=4", f"start={runs.first / 'release'}"],
        ),
    )
    return runs


def read_json(path: Path) -> dict[str, Any]:
    """Returns the content of a JSON file."""
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def test_each_cohort_pays_once(renewed: Renewed) -> None:
    """The ledger has an account for each cohort, with one charge: the epsilon of that cohort's release."""
    digests = [
        (run / "private.sha256").read_text().strip() for run in (renewed.first, renewed.second)
    ]
    accounts = [Ledger.stored(path=renewed.folder / "ledger.db", data=digest) for digest in digests]
    assert [len(account.entries) for account in accounts] == [1, 1]
    assert [account.epsilon for account in accounts] == pytest.approx([EPSILON] * 2, abs=0.01)


def test_the_second_release_tells_more_than_the_first(renewed: Renewed) -> None:
    """The second student has the higher score, and the median of its released variances is under 0.6 of the first's.

    A release states the variance of each released moment.
    """
    scores = [
        read_json(path=run / "report.json")["student"]["mean_average_precision"]
        for run in (renewed.first, renewed.second)
    ]
    assert scores[1] > scores[0]
    variances = []
    for run in (renewed.first, renewed.second):
        with np.load(run / "release" / "release.npz") as arrays:
            variances.append(float(np.median(arrays["moment_variances"])))
    assert variances[1] < 0.6 * variances[0]


@pytest.mark.slow
def test_what_is_published_states_where_the_student_started(renewed: Renewed) -> None:
    """The second run's privacy card, `privacy.json` and dossier have the digest of the first release's manifest.

    `privacy.json` also has the price of the first release. The path of the first run is in no published file.
    """
    digest_of_manifest = file_digest(path=renewed.first / "release" / MANIFEST, remedy="")
    release = renewed.second / "release"
    start = read_json(path=release / "privacy.json")["start"]
    assert start == {"sha256": digest_of_manifest, "epsilon": EPSILON, "delta": 1e-5}
    assert digest_of_manifest in (release / "privacy_card.md").read_text(encoding="utf-8")
    assert "start" not in read_json(path=renewed.first / "release" / "privacy.json")
    page = renewed.folder / "dossier.html"
    succeeded("dossier", arguments=[f"release={release}", f"output={page}"])
    assert digest_of_manifest in page.read_text(encoding="utf-8")
    published = b"".join(path.read_bytes() for path in release.rglob("*") if path.is_file())
    assert str(renewed.first).encode() not in published


@pytest.mark.slow
def test_a_killed_renewal_goes_on_with_the_same_bytes(
    renewed: Renewed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that starts from a release, killed after three rounds and called again, writes the same release.npz."""
    start = f"start={renewed.first / 'release'}"
    # a ledger of its own, in which nobody has drawn this noise
    ledger = f"ledger={tmp_path / 'ledger.db'}"
    arguments = renewed.arguments(
        cohort="second", output=tmp_path / "run", settings=["seed=4", start, ledger]
    )
    with monkeypatch.context() as patch:
        questions = watch_sums(patch, max_sums=3)
        assert call("train", arguments).returncode != 0
    assert len(questions) == 3
    succeeded("train", arguments)
    name = Path("release", "release.npz")
    assert (tmp_path / "run" / name).read_bytes() == (renewed.second / name).read_bytes()


@pytest.mark.slow
def test_people_of_the_earlier_cohort_are_refused(renewed: Renewed, tmp_path: Path) -> None:
    """A second cohort that includes ten people of the first is refused, and the line says how many the ledger knows."""
    write_records(
        path=renewed.folder / "mixed.npz", num_rows=NUM_PRIVATE, first_id=NUM_PRIVATE - 10
    )
    start = f"start={renewed.first / 'release'}"
    line = refused_command(
        "train",
        arguments=renewed.arguments(
            cohort="mixed", output=tmp_path / "run", settings=[start, "seed=5"]
        ),
    )
    assert "knows 20 of these 1200 ids and groups" in line
    assert "new_account=true" in line


@pytest.mark.slow
def test_people_of_both_cohorts_pay_less_than_the_sum(renewed: Renewed, tmp_path: Path) -> None:
    """With `new_account=true` a cohort may include people of an earlier one; a line states their total epsilon.

    The total is above the epsilon of one release, and below the sum of two.
    """
    write_records(path=tmp_path / "mixed.npz", num_rows=NUM_PRIVATE, first_id=NUM_PRIVATE - 5)
    ledger = tmp_path / "ledger.db"
    shutil.copy(renewed.folder / "ledger.db", ledger)
    settings = [
        f"data.private={tmp_path / 'mixed.npz'}",
        f"ledger={ledger}",
        f"start={renewed.first / 'release'}",
        "seed=7",
        "new_account=true",
    ]
    stderr = succeeded(
        "train",
        arguments=renewed.arguments(cohort="first", output=tmp_path / "run", settings=[*settings]),
    ).stderr
    line = next(line for line in stderr.splitlines() if "whoever is in all of them" in line)
    both = float(line.partition("has paid epsilon ")[2].split()[0])
    assert EPSILON < both < 2 * EPSILON, (
        "two Gaussian releases cost less than the sum of their epsilons"
    )


Change = Callable[[dict[str, Any]], None]


def remove_moments(arrays: dict[str, Any]) -> None:
    """Removes the moments, which earlier versions did not publish."""
    del arrays["moments"], arrays["moment_variances"]


def put_nan_in_moments(arrays: dict[str, Any]) -> None:
    """Puts a NaN into the released moments."""
    arrays["moments"][0, 0] = np.nan


def put_zero_in_variances(arrays: dict[str, Any]) -> None:
    """Makes the variance of one moment 0."""
    arrays["moment_variances"][0, 0] = 0


def cut_features(arrays: dict[str, Any]) -> None:
    """Removes the moments of the last feature."""
    arrays["moments"] = arrays["moments"][:-1]
    arrays["moment_variances"] = arrays["moment_variances"][:-1]


def copy_of_release(renewed: Renewed, folder: Path, change_arrays: Change) -> Path:
    """Returns a copy of the first release with changed arrays and a manifest that fits them."""
    release_folder = folder / "release"
    shutil.copytree(renewed.first / "release", release_folder)
    with np.load(release_folder / "release.npz") as stored:
        arrays = dict(stored)
    change_arrays(arrays)
    np.savez(release_folder / "release.npz", **arrays)
    names_of_files = list(Manifest.read(release_folder, rule="", remedy="").sha256)
    (release_folder / MANIFEST).unlink()
    manifest = Manifest.from_files(release_folder, names_of_files, missing_file_remedy="")
    manifest.write(release_folder)
    return release_folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change_arrays", "words"),
    [
        (remove_moments, "a release with moments"),
        (put_nan_in_moments, "finite moments"),
        (put_zero_in_variances, "variances > 0"),
        (cut_features, "finite moments"),
    ],
)
def test_a_release_with_wrong_moments_is_refused(
    change_arrays: Change, words: str, renewed: Renewed, tmp_path: Path
) -> None:
    """A run refuses to start from a release whose moments are missing, not finite or of another shape.

    A variance of 0 is refused, too. No folder is made.
    """
    release = copy_of_release(renewed, folder=tmp_path, change_arrays=change_arrays)
    line = refused_command(
        "train",
        arguments=renewed.arguments(
            cohort="second", output=tmp_path / "run", settings=[f"start={release}"]
        ),
    )
    assert words in line
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_an_altered_release_is_refused(renewed: Renewed, tmp_path: Path) -> None:
    """A run refuses to start from a release with a file that differs from its digest in the manifest."""
    release = copy_of_release(renewed, folder=tmp_path, change_arrays=put_nan_in_moments)
    shutil.copy(renewed.first / "release" / MANIFEST, release / MANIFEST)
    line = refused_command(
        "train",
        arguments=renewed.arguments(
            cohort="second", output=tmp_path / "run", settings=[f"start={release}"]
        ),
    )
    assert "the file as it was published" in line


@pytest.mark.slow
def test_other_labels_are_named(renewed: Renewed, tmp_path: Path) -> None:
    """A run refuses to start from a release with other labels, and names those that differ."""
    names = ("flu", "cough", "fever", "gout")
    for name in ("private", "public", "test"):
        write_records(
            path=tmp_path / f"{name}.npz",
            num_rows=NUM_PUBLIC,
            first_id=len(name) * 50_000,
            label_names=names,
        )
    files = [f"data.{name}={tmp_path / name}.npz" for name in ("private", "public", "test")]
    start = f"start={renewed.first / 'release'}"
    line = refused_command(
        "train",
        arguments=renewed.arguments(
            cohort="second", output=tmp_path / "run", settings=[*files, start]
        ),
    )
    assert "it lacks gout; it also has rash" in line


@pytest.mark.slow
@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("aggregator.rounds=1", "only votes in rounds have a start"),
        ("experiment=quick", "aggregator=centered_votes"),
        ("start=nowhere", "the folder release/ of a finished run"),
    ],
)
def test_a_start_that_nothing_reads_is_refused(
    setting: str, words: str, renewed: Renewed, tmp_path: Path
) -> None:
    """`start=` is refused for votes in one round, for other aggregators, and if the folder does not exist."""
    arguments = renewed.arguments(cohort="second", output=tmp_path / "run", settings=["seed=6"])
    arguments = [f"start={renewed.first / 'release'}", *arguments]
    replaced = setting.partition("=")[0]
    arguments = [word for word in arguments if not word.startswith(f"{replaced}=")]
    assert words in refused_command("train", arguments=[*arguments, setting])
