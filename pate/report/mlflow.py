"""The log of a finished release on an MLflow server, with nothing that is not also in `release/`."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from pate.files.digests import file_digest
from pate.files.manifest import MANIFEST
from pate.report.report import Report
from pate.validation import InvalidValue

# The tag of MLflow's run with the digest of the release's manifest, by which a logged release is recognized.
_DIGEST_TAG = "pate.release"
# The largest length of a parameter, in characters, that MLflow stores.
_MAX_LENGTH = 500


def log_release(release_folder: Path, report: Report, *, folder: Path) -> str:
    """Logs a release to MLflow, and returns the id of MLflow's run; repeated calls log the release only once.

    The parameters are the settings in `release/config.yaml`, each cut to 500 characters. The metrics are epsilon,
    delta, the numbers of queries and answers, and the answer rate. The artifacts are the files of `release/`. No name
    of a user, a program or a file outside of `release/` is sent, and no telemetry.

    Args:
        release_folder: the folder `release/` of a run.
        report: the report, of which only the price and the numbers of the release are used.
        folder: the folder in which MLflow stores runs, unless the environment variable `MLFLOW_TRACKING_URI` is set.

    Raises:
        InvalidValue: the server does not answer, or refuses the log.
    """
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    tracking_uri = os.environ.get("MLFLOW_TRACKING_URI") or folder.absolute().as_uri()
    if tracking_uri.startswith("file:"):
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
    from mlflow.exceptions import MlflowException
    from mlflow.tracking import MlflowClient

    manifest_digest = file_digest(release_folder / MANIFEST, remedy="the same command writes it")
    release_settings = yaml.safe_load((release_folder / "config.yaml").read_text(encoding="utf-8"))
    release_summary = report.release
    price_and_counts = {
        "epsilon": report.privacy.epsilon,
        "delta": report.privacy.delta,
        "answer_rate": release_summary.answer_rate,
        "num_queries": float(release_summary.num_queries),
        "num_answered": float(release_summary.num_answered),
    }
    experiment_name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "pate")
    try:
        client = MlflowClient(tracking_uri=tracking_uri)
        experiment_id = _experiment_id(client, experiment_name=experiment_name)
        same_digest_filter = f"tags.`{_DIGEST_TAG}` = '{manifest_digest}'"
        for mlflow_run in client.search_runs([experiment_id], filter_string=same_digest_filter):
            if mlflow_run.info.status == "FINISHED":
                return str(mlflow_run.info.run_id)
        mlflow_run = client.create_run(
            experiment_id,
            tags={_DIGEST_TAG: manifest_digest},
            run_name=f"release {manifest_digest[:8]}",
        )
        run_id = str(mlflow_run.info.run_id)
        for setting_name, setting in _dotted_settings(release_settings):
            client.log_param(run_id, key=setting_name, value=str(setting)[:_MAX_LENGTH])
        for number_name, number in price_and_counts.items():
            client.log_metric(run_id, key=number_name, value=number)
        client.log_artifacts(run_id, str(release_folder), artifact_path="release")
        client.set_terminated(run_id)
    except MlflowException as error:
        reason = " ".join(str(error).split())[:_MAX_LENGTH]
        rule = f"a server that takes runs ({reason}); the run is complete, and the same command tries again"
        raise InvalidValue("logger", "mlflow", rule=rule) from error
    return run_id


def _experiment_id(client: Any, experiment_name: str) -> Any:
    """Returns the id of the experiment `experiment_name`; the experiment is made if it does not exist."""
    experiment = client.get_experiment_by_name(experiment_name)
    if experiment is None:
        return client.create_experiment(experiment_name)
    return experiment.experiment_id


def _dotted_settings(settings: Any, name_prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yields nested settings as pairs of a dotted name and a value.

    The class of a part of the configuration, its setting `_target_`, has the part's name alone, such as `aggregator`.

    Args:
        settings: a mapping of settings, or the value of a single setting.
        name_prefix: the dotted name of `settings`; empty for all settings.
    """
    if isinstance(settings, Mapping):
        for setting_name, inner_settings in settings.items():
            yield from _dotted_settings(
                inner_settings, name_prefix=f"{name_prefix}.{setting_name}".lstrip(".")
            )
    else:
        yield name_prefix.replace("._target_", "").replace("_target_", "class"), settings
