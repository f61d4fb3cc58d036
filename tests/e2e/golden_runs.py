"""Golden runs are small seeded runs whose results are recorded in `golden.json`, which lies beside this module.

There is one for each aggregator, one for votes in rounds, one for the classifier, one for a comparison, and two for
data with unknown labels. `python -m tests.e2e.golden_runs FILE` runs all of them and writes their results to FILE. With
`--folder RUNS` the folders of the runs are kept as well, so that `diff -r` can compare those of two checkouts byte by
byte.

The SHA-256 of each published text, without its decimal figures, is recorded, and that of each array of `release.npz`.
JSON files, charges and reports are recorded themselves, and so are a few figures of trained arrays. Their numbers are
compared with a tolerance, as the last digits of trained numbers depend on the processor.
"""

import argparse
import hashlib
import json
import math
import re
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from safetensors.numpy import load_file

from pate import PATEClassifier
from pate.accounting import Ledger
from pate.accounting.event_json import event_to_json
from pate.aggregators import GaussianVotes
from tests.e2e.commands import rows_of, succeeded

GOLDEN_FILE = Path(__file__).with_name("golden.json")
CONF = Path(__file__).resolve().parents[2] / "conf"
AGGREGATORS = tuple(sorted(path.stem for path in (CONF / "aggregator").glob("*.yaml")))
NUM_PRIVATE = 960
NUM_PUBLIC = 140
NUM_TEST = 300
RELATIVE_TOLERANCE = 1e-4
ABSOLUTE_TOLERANCE = 1e-6

# Parts of report.json that depend on the run alone: not on the moment, a version or the machine.
REPORT_PARTS = ("privacy", "release", "teachers", "student", "baselines", "verdict", "data", "seed")
# The digests of the files in release/. They are left out, since trained numbers are compared by themselves.
MANIFEST = "manifest.json"

Snapshot = dict[str, Any]


def write_data(folder: Path) -> list[str]:
    """Writes private, public and test arrays to files; returns the settings of `pate-train` that name them.

    Beside each file lies one in which labels are unknown, for `run_with_gaps`.
    """
    rng = np.random.default_rng(5)
    num_records = NUM_PRIVATE + NUM_PUBLIC + NUM_TEST
    inputs = rng.standard_normal((num_records, 8)).astype(np.float32)
    scores = inputs @ rng.standard_normal((8, 5)) + 0.3 * rng.standard_normal((num_records, 5))
    labels = scores > np.array([0.0, 0.5, 1.0, 2.0, -0.5])
    splits = {
        "private": slice(0, NUM_PRIVATE),
        "public": slice(NUM_PRIVATE, NUM_PRIVATE + NUM_PUBLIC),
        "test": slice(NUM_PRIVATE + NUM_PUBLIC, num_records),
    }
    for name, rows in splits.items():
        np.savez(folder / f"{name}.npz", inputs=inputs[rows], labels=labels[rows])
        known = rng.random(labels[rows].shape) < [0.3, 0.5, 0.7, 0.9, 1.0]
        np.savez(
            folder / f"{name}-with-gaps.npz",
            inputs=inputs[rows],
            labels=labels[rows] & known,
            known=known,
        )
    return ["data=arrays", *(f"data.{name}={folder / name}.npz" for name in splits)]


def canonical_number(value: float) -> float:
    """Returns a number rounded to 7 significant digits, finer than the tolerance; infinity and NaN do not change."""
    return float(f"{value:.7g}") if math.isfinite(value) else value


def numbers_of(value: Any) -> Any:
    """Returns a JSON value in which each float is rounded by `canonical_number`."""
    match value:
        case bool() | None | str() | int():
            return value
        case float():
            return canonical_number(value)
        case list() | tuple():
            return [numbers_of(item) for item in value]
        case _:
            return {str(name): numbers_of(item) for name, item in value.items()}


def fingerprint(array: np.ndarray) -> list[float]:
    """Returns the sum, the Euclidean length and the largest absolute value of an array's numbers."""
    values = np.asarray(array, dtype=np.float64)
    statistics = (values.sum(), np.linalg.norm(values), np.abs(values).max(initial=0.0))
    return [canonical_number(float(statistic)) for statistic in statistics]


def digest_of_text(text: str) -> str:
    """Returns the SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def snapshot_of_release(release: Path, folder: Path) -> Snapshot:
    """Returns the record of `release/`: digests of texts and labels, fingerprints of trained numbers.

    Args:
        release: the folder `release/` of a run.
        folder: the folder of all runs, whose path is taken out of the texts before they are digested.
    """
    record: Snapshot = {}
    for path in sorted(file for file in release.rglob("*") if file.is_file()):
        file_name = str(path.relative_to(release))
        if path.suffix == ".safetensors":
            record[file_name] = {
                key: fingerprint(array) for key, array in sorted(load_file(path).items())
            }
        elif path.suffix == ".npz":
            with np.load(path) as arrays:
                record[file_name] = {
                    key: digest_of_text(repr(arrays[key].tolist())) for key in sorted(arrays.files)
                }
        elif path.suffix == ".json" and path.name != MANIFEST:
            json_content = json.loads(path.read_text(encoding="utf-8"))
            json_content.pop("versions", None)
            record[file_name] = numbers_of(json_content)
        elif path.name != MANIFEST:
            text = path.read_text(encoding="utf-8").replace(str(folder), "FOLDER")
            record[file_name] = digest_of_text(re.sub(r"\d+\.\d{2,}", "NUMBER", text))
    return record


def snapshot_of_ledger(ledger: Path) -> list[Any]:
    """Returns the event and the epsilon of each charge in a ledger."""
    return [
        {"event": numbers_of(event_to_json(entry.event)), "epsilon": numbers_of(entry.epsilon)}
        for entry in Ledger.stored(ledger).entries
    ]


def snapshot_of_report(report: Path) -> Snapshot:
    """Returns the parts of `report.json` that are the same whenever the run is made."""
    json_content = json.loads(report.read_text(encoding="utf-8"))
    return {part_name: numbers_of(json_content[part_name]) for part_name in REPORT_PARTS}


def run_aggregator(aggregator: str, data_settings: list[str], folder: Path) -> Snapshot:
    """Runs `pate-train` with an aggregator on the small arrays, and returns the record of the run's files."""
    output = folder / aggregator
    settings = [
        "teacher=linear",
        "teacher.num_teachers=24",
        "student=linear",
        "num_queries=40",
        "target_epsilon=100",
        "target_delta=1e-5",
        "accountant=rdp",
        "allow_useless=true",
        "all_records=false",
        "logger=none",
        "seed=3",
    ]
    succeeded(
        "train",
        arguments=[
            *data_settings,
            f"aggregator={aggregator}",
            *settings,
            f"output_dir={output}",
            f"ledger={output}.db",
        ],
    )
    return {
        "release": snapshot_of_release(release=output / "release", folder=folder),
        "ledger": snapshot_of_ledger(output.with_suffix(".db")),
        "report": snapshot_of_report(report=output / "report.json"),
    }


def run_rounds(data_settings: list[str], folder: Path) -> Snapshot:
    """Runs `experiment=centered_votes`, in which each record votes in rounds; returns the record of the run's files."""
    output = folder / "rounds"
    settings = [
        "target_epsilon=8",
        "num_queries=100",
        "all_records=false",
        "allow_useless=true",
        "logger=none",
    ]
    output_settings = [f"output_dir={output}", f"ledger={output}.db"]
    succeeded(
        "train",
        arguments=[
            "experiment=centered_votes",
            *data_settings,
            *settings,
            "seed=3",
            *output_settings,
        ],
    )
    return {
        "release": snapshot_of_release(release=output / "release", folder=folder),
        "ledger": snapshot_of_ledger(output.with_suffix(".db")),
        "report": snapshot_of_report(report=output / "report.json"),
    }


def run_with_gaps(aggregator: str, data_settings: list[str], folder: Path) -> Snapshot:
    """Runs `pate-train` with linear teachers on arrays in which many labels are unknown; returns the run's record."""
    settings = [setting.replace(".npz", "-with-gaps.npz") for setting in data_settings]
    output = folder / f"{aggregator}-with-gaps"
    settings += [
        f"aggregator={aggregator}",
        "teacher=linear",
        "teacher.num_teachers=240",
        "student=linear",
        "num_queries=40",
        "target_epsilon=100",
        "target_delta=1e-5",
        "accountant=rdp",
        "allow_useless=true",
        "logger=none",
        "seed=3",
        f"output_dir={output}",
        f"ledger={output}.db",
    ]
    succeeded("train", arguments=settings)
    return {
        "release": snapshot_of_release(release=output / "release", folder=folder),
        "ledger": snapshot_of_ledger(output.with_suffix(".db")),
        "report": snapshot_of_report(report=output / "report.json"),
    }


def run_classifier(data_settings: list[str], folder: Path) -> Snapshot:
    """Fits `PATEClassifier` on the small data; returns the record of its release, charges and predictions."""
    private = np.load(folder / "private.npz")
    public = np.load(folder / "public.npz")
    ledger = folder / "classifier.db"
    model = PATEClassifier(
        n_teachers=24,
        aggregator=GaussianVotes(noise_std=4.0),
        epsilon=100.0,
        target_delta=1e-5,
        random_state=3,
        allow_useless=True,
        ledger=ledger,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of the seed, and of so large an epsilon
        model.fit(private["inputs"], private["labels"], X_public=public["inputs"])
    return {
        "labels": digest_of_text(repr(model.release_.labels.tolist())),
        "epsilon": canonical_number(model.epsilon_),
        "charges": snapshot_of_ledger(ledger),
        "probabilities": fingerprint(np.asarray(model.predict_proba(public["inputs"]))),
    }


def run_comparison(data_settings: list[str], folder: Path) -> Snapshot:
    """Compares three aggregators and one method without teachers, and returns the rows of `comparison.csv`."""
    output = folder / "comparison"
    settings = [
        "aggregators=[gaussian_votes@24,stable_top_k_table@24,centered_votes]",
        "methods=[dp_gd]",
        "epsilons=[100]",
        "seeds=1",
        "num_queries=40",
        "target_delta=1e-5",
        "teacher=linear",
        "student=linear",
        "accountant=rdp",
        "allow_useless=true",
        "all_records=false",
        "num_workers=1",
    ]
    succeeded("compare", arguments=[*data_settings, *settings, f"output_dir={output}"])
    return {"rows": [row_of_numbers(row) for row in rows_of(csv_path=output / "comparison.csv")]}


def row_of_numbers(row: Mapping[str, str]) -> Snapshot:
    """Returns a row of a CSV table, with texts that spell numbers turned into numbers."""
    values: Snapshot = {}
    for column, text in row.items():
        try:
            values[column] = canonical_number(float(text))
        except ValueError:
            values[column] = text
    return values


def golden_runs() -> dict[str, Callable[[list[str], Path], Snapshot]]:
    """Returns all golden runs by name; each is a function of the settings that name the data, and of a folder."""
    runs: dict[str, Callable[[list[str], Path], Snapshot]] = {
        "rounds": run_rounds,
        "classifier": run_classifier,
        "comparison": run_comparison,
    }
    for aggregator in ("centered_votes", "gaussian_votes"):
        runs[f"gaps, aggregator={aggregator}"] = partial(run_with_gaps, aggregator)
    for aggregator in AGGREGATORS:
        runs[f"aggregator={aggregator}"] = partial(run_aggregator, aggregator)
    return runs


def differences(golden: Any, current: Any, key_path: str = "") -> list[str]:
    """Returns a line for each value that differs from the recorded one."""
    if isinstance(golden, dict) and isinstance(current, dict):
        lines = [f"{key_path}/{name}: is gone" for name in golden if name not in current]
        lines += [f"{key_path}/{name}: is new" for name in current if name not in golden]
        for name in golden.keys() & current.keys():
            lines += differences(golden[name], current[name], key_path=f"{key_path}/{name}")
        return lines
    if isinstance(golden, list) and isinstance(current, list) and len(golden) == len(current):
        pairs = enumerate(zip(golden, current, strict=True))
        return [
            line
            for index, (old, new) in pairs
            for line in differences(old, current=new, key_path=f"{key_path}[{index}]")
        ]
    if is_number(golden) and is_number(current):
        close = math.isclose(
            golden, current, rel_tol=RELATIVE_TOLERANCE, abs_tol=ABSOLUTE_TOLERANCE
        )
        return [] if close else [f"{key_path}: {current} where it was {golden}"]
    return [] if golden == current else [f"{key_path}: {current!r:.80} where it was {golden!r:.80}"]


def is_number(value: object) -> bool:
    """Returns True if the value is an int or a float, but not a bool."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def main() -> None:
    """Runs all golden runs and writes them to a file."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("file", type=Path, help="where to write what the runs left, as JSON")
    parser.add_argument(
        "--folder", type=Path, help="an empty folder that keeps the folders of the runs"
    )
    arguments = parser.parse_args()
    with TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        data_settings = write_data(folder)
        snapshots = {
            name: run(data_settings, folder) for name, run in sorted(golden_runs().items())
        }
    text = json.dumps(snapshots, indent=1, sort_keys=True, ensure_ascii=False)
    arguments.file.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
