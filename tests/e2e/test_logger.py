"""`logger=`: curves in the run's folder, a release on an MLflow server, or nothing."""

import json
from pathlib import Path

import pytest

from tests.e2e.commands import SMALL, refused, succeeded

WORDS = (*SMALL, "aggregator=gaussian_votes", "target_epsilon=200", "seed=0")


@pytest.mark.slow
def test_a_server_is_told_what_a_release_holds_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracking = pytest.importorskip("mlflow.tracking")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "server").as_uri())
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    words = (*WORDS, "logger=mlflow", f"output_dir={tmp_path / 'a_canary'}")
    for _ in range(2):  # a finished run that is shown again is not logged again
        succeeded("train", *words)
    assert not (tmp_path / "a_canary" / "tensorboard").exists()
    client = tracking.MlflowClient(tracking_uri=(tmp_path / "server").as_uri())
    (run,) = client.search_runs([client.get_experiment_by_name("pate").experiment_id])
    report = json.loads((tmp_path / "a_canary" / "report.json").read_text())
    release = tmp_path / "a_canary" / "release"
    metrics = run.data.metrics
    assert set(metrics) == {"epsilon", "delta", "answer_rate", "num_queries", "num_answered"}
    assert metrics["epsilon"] == report["privacy"]["epsilon"]
    assert run.data.params["teacher.num_teachers"] == "8"
    assert set(run.data.tags) <= {"pate.release", "mlflow.runName"}
    logged = tmp_path / "server" / run.info.experiment_id / run.info.run_id / "artifacts" / "release"
    for folder, other in ((logged, release), (release, logged)):
        for path in folder.rglob("*"):
            if path.is_file():
                assert path.read_bytes() == (other / path.relative_to(folder)).read_bytes()
    succeeded("train", *WORDS, "logger=none", f"output_dir={tmp_path / 'none'}")
    assert not (tmp_path / "none" / "tensorboard").exists()
    assert (tmp_path / "none/release/release.npz").read_bytes() == (release / "release.npz").read_bytes()
    accuracy = str(report["student"]["accuracy"])
    for path in (tmp_path / "server").rglob("*"):
        if path.is_file():
            assert b"a_canary" not in path.read_bytes(), path
            assert accuracy.encode() not in path.read_bytes(), path


def test_another_logger_is_one_line(tmp_path: Path) -> None:
    said = refused("train", "logger=wandb", f"output_dir={tmp_path / 'run'}")
    assert said == "logger=wandb: expected one of tensorboard, mlflow, none"
    assert not (tmp_path / "run").exists()
