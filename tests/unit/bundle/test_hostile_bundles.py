"""Forged bundles: whatever their JSON holds, the model predicts or is refused in one line, with little memory."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import pate
from pate.bundle import ModelForm
from pate.bundle.model_form import SCHEMA
from pate.data import ImageForm, Preprocessing
from pate.features.extracted_form import ExtractedForm
from pate.features.patches import PatchExtractor
from pate.files.manifest import MANIFEST, Manifest
from pate.files.strict_json import to_json
from pate.models import CNNStudent, LinearStudent
from pate.models.student_model import StudentModel
from pate.validation import InvalidValue
from tests.unit.bundle.test_bundle import write_bundle

CARD = "student/student.json"
WEIGHTS = "student/student.safetensors"
EXTRACTOR = "extractor.safetensors"
# The memory that loading all copies may take beyond that of one valid bundle, in MB.
MAX_MB = 200
# Stands in a list of values for another length: an entry of a dict is left out, and one of a list occurs twice.
OTHER_LENGTH = object()
# Every so many values, one is tried at a path, and the next ones at the next paths.
_STRIDE = 6
# Values that a forger may write in place of any value of the JSON.
FORGED_VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1,
    7,
    2**20,
    2**31,
    2**63,
    10**400,
    0.5,
    -0.5,
    float("nan"),
    float("inf"),
    1e308,
    "",
    "x",
    "NaN",
    "inf",
    "\x1b[2J\n\u202e",
    [],
    {},
    [[[]]],
    [0],
    [2**40],
    [1e9, 1e9],
    [float("nan")],
    {"kind": "table"},
    {"kind": []},
    {"x": {}},
    ["a", "a"],
    ["=1"],
    [None],
    "vit_h_14",
    "backbone",
    "cnn",
)


def write_bundle_of_kind(kind: str, release_folder: Path) -> Path:
    """Trains a model of a kind, writes its bundle, and returns the folder.

    Args:
        kind: "table" for columns of a table, "extracted" for features of pictures, or "constant" for a model of
            pictures whose arrays do not determine the size of the pictures.
        release_folder: the folder to write.
    """
    rng = np.random.default_rng(0)
    if kind == "table":
        return write_bundle(release_folder)
    pictures = rng.random((12, 1, 8, 8)).astype(np.float32)
    labels = rng.random((12, 2)) < 0.5
    form: Preprocessing = ImageForm(channels=1, height=8, width=8)
    if kind == "extracted":
        filters = rng.standard_normal((4, 1, 4, 4)).astype(np.float32)
        arrays = {
            "filters": filters,
            "offsets": np.zeros(4, np.float32),
            "center": np.zeros(32, np.float32),
            "projection": rng.standard_normal((32, 3)).astype(np.float32),
        }
        settings = {
            "picture_shape": [1, 8, 8],
            "stride": 1,
            "grid": 2,
            "overlap": True,
            "threshold": 0.5,
            "compression": 5.0,
        }
        form = ExtractedForm(
            image_form=ImageForm(channels=1, height=8, width=8),
            extractor=PatchExtractor(arrays, settings, origin={"fitted": "here"}),
        )
        model: StudentModel = LinearStudent().fit(form.inputs(pictures), labels, seed=0)
    else:
        model = CNNStudent(width=8, blocks=1, epochs=1, folds=2).fit(
            pictures[:1], labels[:1], seed=0
        )
    model.save(release_folder / "student")
    ModelForm(
        name="faces",
        kind="images" if kind == "constant" else "features",
        labels=("a", "b"),
        input_shape=model.input_shape,
        features=(),
        preprocessing=form,
        threshold=model.threshold,
        model=model.kind,
        versions={"pate": "1"},
    ).write(release_folder)
    write_quick_manifest(release_folder)
    return release_folder


def write_quick_manifest(release_folder: Path) -> None:
    """Writes a manifest with the right digests of all files in a folder, without waiting for the disk."""
    file_names = [
        path.relative_to(release_folder).as_posix()
        for path in release_folder.rglob("*.*")
        if path.name != MANIFEST
    ]
    (release_folder / MANIFEST).write_text(
        to_json(
            dataclass_object=Manifest.from_files(
                release_folder, file_names, missing_file_remedy="none"
            )
        )
    )


def paths_of_values(json_value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yields the paths of a JSON value and of all values within it, as tuples of keys and indices.

    `path` is the path of `json_value` itself, empty for a whole document.
    """
    yield path
    items = (
        json_value.items()
        if isinstance(json_value, dict)
        else enumerate(json_value)
        if isinstance(json_value, list)
        else ()
    )
    for key, item in items:
        yield from paths_of_values(item, path=(*path, key))


def changed_copies(json_value: Any) -> Iterator[Any]:
    """Yields copies of a JSON value; all but the first are changed.

    At each path, copies have another value, or one value more or fewer. Then other values stand in place of the whole
    JSON. In the last copies, sizes are larger.
    """
    for turn, path in enumerate(paths_of_values(json_value)):
        for other in (*(FORGED_VALUES[turn % _STRIDE :: _STRIDE] if path else ()), OTHER_LENGTH):
            copy = json.loads(json.dumps(json_value))
            inner = copy
            for key in path[:-1]:
                inner = inner[key]
            if path and other is not OTHER_LENGTH:
                inner[path[-1]] = other
            elif path and isinstance(inner, dict):
                del inner[path[-1]]
            elif path:
                inner.append(inner[path[-1]])
            yield copy
    yield from FORGED_VALUES
    yield from copies_with_larger_sizes(json_value)


def copies_with_larger_sizes(json_value: Any) -> Iterator[Any]:
    """Yields copies of a JSON value in which each 8 that is a size is replaced by one larger number."""
    for size in (2**14, 2**13, 2**12, 2**11, 1000, 600):
        yield json.loads(
            re.sub(
                r": 8\b", f": {size}", json.dumps(json_value).replace("8, 8]", f"{size}, {size}]")
            )
        )


def is_refused(release_folder: Path) -> bool:
    """Loads a bundle, and returns True if it is refused in one printable line, or False if it predicts."""
    try:
        bundle = pate.load(release_folder)
    except InvalidValue as error:
        assert str(error).isprintable()
        return True
    zero_record = np.zeros((1, *bundle.form.input_shape), np.float32)
    bundle.predict(zero_record)
    return False


def count_refused_copies(kind: str, release_folder: Path) -> int:
    """Writes a bundle, a published model, and returns how many changed copies of its JSON files are refused.

    `kind` is the kind of bundle that `write_bundle_of_kind` writes.
    """
    write_bundle_of_kind(kind=kind, release_folder=release_folder)
    valid_texts_of_files = {
        file_name: (release_folder / file_name).read_text()
        for file_name in (SCHEMA, CARD, MANIFEST)
    }
    valid_json_of_files = {
        file_name: json.loads(text) for file_name, text in valid_texts_of_files.items()
    }

    def is_change_refused(changed_json_of_files: dict[str, Any]) -> bool:
        """Writes the JSON files with changed values by their names, and returns whether the bundle is refused."""
        for file_name, text in valid_texts_of_files.items():
            (release_folder / file_name).write_text(
                json.dumps(changed_json_of_files[file_name])
                if file_name in changed_json_of_files
                else text
            )
        if MANIFEST not in changed_json_of_files:
            write_quick_manifest(release_folder)
        return is_refused(release_folder)

    changed_file_names = valid_texts_of_files if kind == "table" else (SCHEMA, CARD)
    num_refused = sum(
        is_change_refused(changed_json_of_files={file_name: changed_json})
        for file_name in changed_file_names
        for changed_json in changed_copies(valid_json_of_files[file_name])
    )
    num_refused += sum(
        map(
            is_change_refused,
            copies_with_larger_sizes(
                {SCHEMA: valid_json_of_files[SCHEMA], CARD: valid_json_of_files[CARD]}
            ),
        )
    )
    if kind == "extracted":
        extractor_arrays = load_file(release_folder / EXTRACTOR)
        with safe_open(release_folder / EXTRACTOR, framework="numpy") as file:
            extractor_settings = json.loads(file.metadata()["extractor"])
        for changed_json in changed_copies(extractor_settings):
            save_file(
                extractor_arrays,
                release_folder / EXTRACTOR,
                metadata={"extractor": json.dumps(changed_json)},
            )
            manifest = Manifest.from_files(
                release_folder, file_names=[EXTRACTOR], missing_file_remedy="none"
            )
            digest = manifest.sha256[EXTRACTOR]
            valid_json_of_files[SCHEMA]["preprocessing"]["extractor"]["sha256"] = digest
            num_refused += is_change_refused(
                changed_json_of_files={SCHEMA: valid_json_of_files[SCHEMA]}
            )
    return num_refused


# A program that prints the number of refused copies of a kind of bundle, and the MB that loading them took.
PROBE = """
import sys, resource, warnings
from pathlib import Path
import pate
from tests.unit.bundle import test_hostile_bundles as hostile
warnings.simplefilter("ignore")
folder = Path(sys.argv[2])
base_folder = hostile.write_bundle_of_kind(sys.argv[1], folder / "base")
hostile.is_refused(base_folder)
def peak_mb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
base_mb = peak_mb()
num_refused = hostile.count_refused_copies(sys.argv[1], folder / "hostile")
print(num_refused, peak_mb() - base_mb)
"""


@pytest.mark.process
@pytest.mark.parametrize("kind", ["table", "extracted", "constant"])
def test_a_forged_bundle_is_refused_in_one_line_with_little_memory(
    kind: str, tmp_path: Path
) -> None:
    """Over 120 changed copies of a bundle's JSON are refused, each in one line; bundles of the other copies predict.

    Loading all of them takes less than 200 MB of memory.
    """
    command = [sys.executable, "-c", PROBE, kind, str(tmp_path)]
    process = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert process.returncode == 0, process.stderr[-3000:]
    num_refused, grown_mb = map(int, process.stdout.split())
    assert num_refused > 120 and grown_mb < MAX_MB
