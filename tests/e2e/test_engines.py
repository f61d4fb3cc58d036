"""Runs in which each record votes in rounds publish the same bytes with every engine.

An engine computes the teachers, for example in threads or in processes.
"""

from collections.abc import Sequence
from pathlib import Path

import pytest

from pate.accounting import Ledger
from tests.e2e.commands import FEW, call, run, succeeded

ROUNDS = (
    *FEW,
    "experiment=centered_votes",
    "aggregator.rounds=5",
    "num_queries=20",
    "target_epsilon=20",
    "all_records=false",
    "allow_useless=true",
    "accountant=rdp",
    "seed=1",
)


def settings_of(run_folder: Path, engine_settings: Sequence[str] = ()) -> list[str]:
    """Returns the settings of a run in a folder, whose ledger lies beside it."""
    return [*ROUNDS, *engine_settings, f"output_dir={run_folder}", f"ledger={run_folder}.db"]


def published(run_folder: Path) -> dict[str, bytes]:
    """Returns the bytes of all files in `release/`, by their relative paths."""
    release = run_folder / "release"
    files = sorted(path for path in release.rglob("*") if path.is_file())
    return {str(path.relative_to(release)): path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def in_threads(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Returns the files that a run with the default engine, `threads`, publishes."""
    run_folder = tmp_path_factory.mktemp("threads") / "run"
    succeeded("train", arguments=settings_of(run_folder))
    return published(run_folder)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["sequential", "stacked", "processes"])
def test_every_engine_leaves_the_release_of_threads(
    engine: str, in_threads: dict[str, bytes], tmp_path: Path
) -> None:
    """A run publishes the same bytes with `sequential`, `stacked` and `processes` as with `threads`."""
    run_folder = tmp_path / "run"
    succeeded("train", arguments=settings_of(run_folder, engine_settings=[f"engine={engine}"]))
    assert published(run_folder) == in_threads


@pytest.mark.slow
def test_ray_leaves_the_release_of_threads(in_threads: dict[str, bytes], tmp_path: Path) -> None:
    """A run with `engine=ray`, which starts a cluster for itself, publishes the same bytes as with `threads`."""
    pytest.importorskip("ray", reason="Ray is an optional dependency: the extra ray")
    run_folder = tmp_path / "run"
    ended = run("train", arguments=settings_of(run_folder, engine_settings=["engine=ray"]))
    assert ended.returncode == 0, ended.stderr
    assert published(run_folder) == in_threads


@pytest.mark.slow
def test_a_finished_run_is_recognized_with_another_engine(tmp_path: Path) -> None:
    """A run that was finished with `engine=processes` is recognized as finished with `engine=sequential`."""
    run_folder = tmp_path / "run"
    succeeded(
        "train",
        arguments=settings_of(
            run_folder, engine_settings=["engine=processes", "engine.num_workers=1"]
        ),
    )
    again = succeeded(
        "train", arguments=settings_of(run_folder, engine_settings=["engine=sequential"])
    )
    assert "this run is finished" in again.stderr


@pytest.mark.slow
def test_a_cluster_that_does_not_answer_is_one_line_and_costs_nothing(tmp_path: Path) -> None:
    """If no Ray cluster is at `engine.address`, a run ends with a line on it and exit code 1, and charges nothing."""
    pytest.importorskip("ray", reason="Ray is an optional dependency: the extra ray")
    run_folder = tmp_path / "run"
    ended = call(
        "train",
        arguments=settings_of(
            run_folder, engine_settings=["engine=ray", "engine.address=127.0.0.1:1"]
        ),
    )
    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr
    last = ended.stderr.splitlines()[-1]
    assert "Ray did not start or answer (engine.address=127.0.0.1:1: " in last
    assert last.endswith("the same command continues once that is mended")
    assert len(Ledger.stored(Path(f"{run_folder}.db")).entries) == 0
