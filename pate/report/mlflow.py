"""A finished release on an MLflow server, which others read: nothing that `release/` does not hold."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from pate.files.disk import file_digest
from pate.files.manifest import MANIFEST
from pate.report.report import Report
from pate.validation import InvalidValue

_TAG = "pate.release"
_LONGEST = 500  # characters of a parameter


def log_release(release: Path, report: Report, *, folder: Path) -> str:
    """Logs a release once, however often it is called, and returns the id of MLflow's run.

    Parameters are those of `release/config.yaml`, metrics the price and the counts that its privacy card holds,
    artifacts the files of `release/`. No name of a user, of a file outside or of a program is sent, and no telemetry.

    Of the report its price and the counts of the release are read, nothing else. Runs are kept in `folder`, unless
    `MLFLOW_TRACKING_URI` says where; raises `InvalidValue` for a server that does not answer, or refuses.
    """
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    uri = os.environ.get("MLFLOW_TRACKING_URI") or folder.absolute().as_uri()
    if uri.startswith("file:"):
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
    from mlflow.exceptions import MlflowException
    from mlflow.tracking import MlflowClient

    digest = file_digest(release / MANIFEST, remedy="the same command writes it")
    settings = yaml.safe_load((release / "config.yaml").read_text(encoding="utf-8"))
    counts = report.release
    metrics = {
        "epsilon": report.privacy.epsilon,
        "delta": report.privacy.delta,
        "answer_rate": counts.answer_rate,
    }
    metrics |= {
        "num_queries": float(counts.num_queries),
        "num_answered": float(counts.num_answered),
    }
    name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "pate")
    try:
        client = MlflowClient(tracking_uri=uri)
        known = client.get_experiment_by_name(name)
        experiment = client.create_experiment(name) if known is None else known.experiment_id
        for earlier in client.search_runs(
            [experiment], filter_string=f"tags.`{_TAG}` = '{digest}'"
        ):
            if earlier.info.status == "FINISHED":
                return str(earlier.info.run_id)
        run = str(
            client.create_run(
                experiment, tags={_TAG: digest}, run_name=f"release {digest[:8]}"
            ).info.run_id
        )
        for key, value in _flat(settings):
            client.log_param(run, key, str(value)[:_LONGEST])
        for key, value in metrics.items():
            client.log_metric(run, key, value)
        client.log_artifacts(run, str(release), artifact_path="release")
        client.set_terminated(run)
    except MlflowException as error:
        reason = " ".join(str(error).split())[:_LONGEST]
        remedy = "the run is complete, and the same command tries again"
        raise InvalidValue(
            "logger", "mlflow", rule=f"a server that takes runs ({reason}); {remedy}"
        ) from error
    return run


def _flat(node: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Settings by their dotted names."""
    if isinstance(node, Mapping):
        for key, value in node.items():
            yield from _flat(value, f"{prefix}.{key}".lstrip("."))
    else:
        yield prefix.replace("._target_", "").replace("_target_", "class"), node
