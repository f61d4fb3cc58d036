"""The folder of a run is changed only once the run is known to work, and only where the folder is the run's own."""

from pathlib import Path

import pytest

from pate.run.folder import RunFolder
from pate.validation import InvalidValue
from tests.refusals import ANY, refused_parameter

SETTINGS = {"seed": 3, "data": {"name": "x"}}
CLAIMED_DIGESTS = {"data": "ab" * 32, "release": "cd" * 32}


def claimed_folder(path: Path) -> RunFolder:
    """Returns the claimed folder of a run."""
    folder = RunFolder(path)
    with folder.lock_for(settings=SETTINGS):
        folder.claim(SETTINGS, digests=CLAIMED_DIGESTS)
    return folder


def test_an_unclaimed_folder_is_left_unchanged(tmp_path: Path) -> None:
    """A run that is refused before it marks its folder as its own changes nothing.

    An existing folder keeps its mode and content, and a folder that was missing is not made.
    """
    wide = tmp_path / "wide"
    wide.mkdir()
    wide.chmod(0o777)
    for path in (wide, tmp_path / "new" / "run"):
        with (
            refused_parameter("plan", rule_words="refused"),
            RunFolder(path).lock_for(settings=SETTINGS),
        ):
            raise InvalidValue("plan", rule="refused")
    assert wide.stat().st_mode & 0o777 == 0o777
    assert list(wide.iterdir()) == []
    assert [entry.name for entry in tmp_path.iterdir()] == ["wide"]


def test_only_partial_files_of_a_killed_call_are_removed(
    tmp_path: Path,
) -> None:
    """Opening a folder removes only those partial files whose names a run writes."""
    (tmp_path / ".run.json.7.partial").write_text("{")
    claimed_folder(path=tmp_path)
    assert not (tmp_path / ".run.json.7.partial").exists()
    (tmp_path / "teachers").mkdir()
    own_names = ("teachers/.teachers-000001-000016.safetensors.7.partial", ".votes.npz.7.partial")
    other_names = (".thesis.tex.7.partial", "film.partial", "teachers/.film.mp4.1.partial")
    for name in (*own_names, *other_names):
        (tmp_path / name).touch()
    with RunFolder(tmp_path).lock_for(settings=SETTINGS):
        pass
    assert all((tmp_path / name).exists() for name in other_names)
    assert not any((tmp_path / name).exists() for name in own_names)


@pytest.mark.parametrize("name", ["data", "release"])
def test_a_lost_digest_is_written_again_only_before_the_partition(
    tmp_path: Path, name: str
) -> None:
    """If a digest is missing, it is written again for a run without a partition, and a run with one is refused."""
    folder = claimed_folder(path=tmp_path)
    path = tmp_path / f"{name}.sha256"
    path.unlink()
    with folder.lock_for(settings=SETTINGS):
        folder.claim(SETTINGS, digests=CLAIMED_DIGESTS)  # as after a kill right at the start
    path.unlink()
    (tmp_path / "partition.json").touch()
    with (
        folder.lock_for(settings=SETTINGS),
        refused_parameter("file", value=path),
    ):
        folder.claim(SETTINGS, digests=CLAIMED_DIGESTS)


def test_refusals_name_settings_and_hide_digests(
    tmp_path: Path,
) -> None:
    """The refusal of other data shows no digest, and that of other settings shows some settings in a short line."""
    folder = claimed_folder(path=tmp_path / "run")
    with (
        folder.lock_for(settings=SETTINGS),
        refused_parameter("data", value="another") as caught,
    ):
        folder.claim(SETTINGS, digests=CLAIMED_DIGESTS | {"data": "ef" * 32})
    assert "efef" not in str(caught.value) and "abab" not in str(caught.value)
    folder = RunFolder(tmp_path / "other")
    long_settings = {f"name_{index}": "x" * 100 for index in range(100)}
    with folder.lock_for(settings=long_settings):
        folder.claim(long_settings, digests=CLAIMED_DIGESTS)
    with (
        refused_parameter(
            "output_dir", value=ANY, rule_words="found a run with name_0=x"
        ) as caught,
        folder.lock_for(settings=SETTINGS),
    ):
        pass
    assert len(str(caught.value)) < 700


def test_a_new_setting_that_is_null_does_not_refuse_old_runs(
    tmp_path: Path,
) -> None:
    """A run that lacks a new setting can be opened if the new setting is null. Other values are refused."""
    claimed_folder(path=tmp_path)
    later = {"seed": 3, "data": {"name": "x", "date_order": None}, "tune": None}
    with RunFolder(tmp_path).lock_for(settings=later):
        pass
    for other in (
        {"seed": 3, "data": {"name": "x", "date_order": "dmy"}},
        {"seed": None, "data": {"name": "x"}},
    ):
        with (
            refused_parameter("output_dir", value=ANY, rule_words="new folder or this run's own"),
            RunFolder(tmp_path).lock_for(settings=other),
        ):
            pass


def test_nothing_is_written_through_a_link_in_the_folder(tmp_path: Path) -> None:
    """A link in a run's folder, to a folder or to nothing, is refused by its name, and its target is left as it was."""
    claimed_folder(path=tmp_path / "run")
    (tmp_path / "there").mkdir(mode=0o755)
    for name in (
        "release",
        "teachers",
        "tensorboard",
        "release/student",
        "report.json",
        "votes.npz",
    ):
        link = tmp_path / "run" / name
        link.parent.mkdir(exist_ok=True)
        for elsewhere in ("there", "nowhere"):
            link.symlink_to(tmp_path / elsewhere)
            line = f"^output_dir=.*/run: expected no links in it, found {name}; remove that$"
            with (
                pytest.raises(InvalidValue, match=line),
                RunFolder(tmp_path / "run").lock_for(settings=SETTINGS),
            ):
                raise AssertionError("a link was opened")
            assert link.is_symlink()
            link.unlink()
    assert not any((tmp_path / "there").iterdir()) and not (tmp_path / "nowhere").exists()


def test_a_claimed_folder_behind_a_link_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    """If the folder of a run is a link, the folder behind it gets mode 0700, and its files 0600.

    A link to nothing is refused.
    """
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk").chmod(0o777)
    (tmp_path / "run").symlink_to(tmp_path / "disk")
    claimed_folder(path=tmp_path / "run")
    modes = {
        path.name: path.stat().st_mode & 0o777
        for path in (tmp_path / "disk", *(tmp_path / "disk").iterdir())
    }
    assert modes == {"disk": 0o700} | dict.fromkeys(
        ("run.json", "run.lock", "data.sha256", "release.sha256"), 0o600
    )
    lost = RunFolder(tmp_path / "lost")
    (tmp_path / "lost").symlink_to(tmp_path / "nowhere")
    with (
        refused_parameter("output_dir", value=ANY, rule_words="a folder"),
        lost.lock_for(settings={}),
    ):
        raise AssertionError("a link to nothing was opened")
    assert not (tmp_path / "nowhere").exists()
