"""Tests of forged bundles: for any content of the JSON, loading ends in one line, with little memory and time."""

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
MOST_MB = 200
LESS = object()  # or more: a place is left out, or there twice
_APART = 6  # of so many values one is tried in a place
VALUES: tuple[Any, ...] = (
    *(
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
    ),
    *(
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
    ),
    *(
        {"kind": "table"},
        {"kind": []},
        {"x": {}},
        ["a", "a"],
        ["=1"],
        [None],
        "vit_h_14",
        "backbone",
        "cnn",
    ),
)


def write_bundle_of_kind(kind: str, folder: Path) -> Path:
    """Writes a bundle of a kind: "table", "extracted", or "constant".

    The bundle "constant" is a model of pictures whose arrays do not determine the size of the pictures.
    """
    rng = np.random.default_rng(0)
    if kind == "table":
        return write_bundle(folder)
    pictures = rng.random((12, 1, 8, 8)).astype(np.float32)
    labels = rng.random((12, 2)) < 0.5
    form: Preprocessing = ImageForm(channels=1, height=8, width=8)
    if kind == "extracted":
        filters = rng.standard_normal((4, 1, 4, 4)).astype(np.float32)
        arrays = {
            "filters": filters,
            "offsets": np.zeros(4, np.float32),
            "center": np.zeros(32, np.float32),
        }
        arrays["projection"] = rng.standard_normal((32, 3)).astype(np.float32)
        settings = {"picture_shape": [1, 8, 8], "stride": 1, "grid": 2, "overlap": True}
        settings |= {"threshold": 0.5, "compression": 5.0}
        form = ExtractedForm(
            pictures=ImageForm(channels=1, height=8, width=8),
            extractor=PatchExtractor(arrays, settings, origin={"fitted": "here"}),
        )
        model: StudentModel = LinearStudent().fit(form.inputs(pictures), labels, seed=0)
    else:
        model = CNNStudent(width=8, blocks=1, epochs=1, folds=2).fit(
            pictures[:1], labels[:1], seed=0
        )
    model.save(folder / "student")
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
    ).write(folder)
    list_in_manifest(folder)
    return folder


def list_in_manifest(folder: Path) -> None:
    """Writes a manifest with the right digests, without waiting for the disk."""
    names = [
        path.relative_to(folder).as_posix() for path in folder.rglob("*.*") if path.name != MANIFEST
    ]
    (folder / MANIFEST).write_text(to_json(value=Manifest.from_files(folder, names, remedy="none")))


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
    """Yields changed copies of a JSON value: at each place another value, no value, or an additional value."""
    for turn, path in enumerate(paths_of_values(json_value)):
        for other in (*(VALUES[turn % _APART :: _APART] if path else ()), LESS):
            copy = json.loads(json.dumps(json_value))
            inner = copy
            for key in path[:-1]:
                inner = inner[key]
            if path and other is not LESS:
                inner[path[-1]] = other
            elif path and isinstance(inner, dict):
                del inner[path[-1]]
            elif path:
                inner.append(inner[path[-1]])
            yield copy
    yield from VALUES
    yield from copies_with_larger_sizes(json_value)


def copies_with_larger_sizes(json_value: Any) -> Iterator[Any]:
    """Yields copies of a JSON value in which all sizes are larger, in agreement with each other."""
    for size in (2**14, 2**13, 2**12, 2**11, 1000, 600):
        yield json.loads(
            re.sub(
                r": 8\b", f": {size}", json.dumps(json_value).replace("8, 8]", f"{size}, {size}]")
            )
        )


def is_refused(folder: Path) -> bool:
    """Loads a bundle; returns True if it is refused in one line, and False if it predicts."""
    try:
        bundle = pate.load(folder)
    except InvalidValue as error:
        assert str(error).isprintable()
        return True
    bundle.predict(np.zeros((1, *bundle.form.input_shape), np.float32))
    return False


def count_refused_copies(kind: str, folder: Path) -> int:
    """Returns how many of the changed copies of a bundle's files are refused."""
    write_bundle_of_kind(kind=kind, folder=folder)
    texts = {name: (folder / name).read_text() for name in (SCHEMA, CARD, MANIFEST)}
    files = {name: json.loads(text) for name, text in texts.items()}

    def is_change_refused(changed_files: dict[str, Any]) -> bool:
        for name, text in texts.items():
            (folder / name).write_text(
                json.dumps(changed_files[name]) if name in changed_files else text
            )
        if MANIFEST not in changed_files:
            list_in_manifest(folder)
        return is_refused(folder)

    names = texts if kind == "table" else (SCHEMA, CARD)
    num_refused = sum(
        is_change_refused(changed_files={name: mutant})
        for name in names
        for mutant in changed_copies(files[name])
    )
    num_refused += sum(
        map(is_change_refused, copies_with_larger_sizes({SCHEMA: files[SCHEMA], CARD: files[CARD]}))
    )
    if kind == "extracted":
        arrays = load_file(folder / EXTRACTOR)
        with safe_open(folder / EXTRACTOR, framework="numpy") as file:
            settings = json.loads(file.metadata()["extractor"])
        for mutant in changed_copies(settings):
            save_file(arrays, folder / EXTRACTOR, metadata={"extractor": json.dumps(mutant)})
            digest = Manifest.from_files(folder, names=[EXTRACTOR], remedy="none").sha256[EXTRACTOR]
            files[SCHEMA]["preprocessing"]["extractor"]["sha256"] = digest
            num_refused += is_change_refused(changed_files={SCHEMA: files[SCHEMA]})
    return num_refused


PROBE = """
import sys, resource, warnings
from pathlib import Path
import pate
from tests.unit.bundle import test_hostile_bundles as hostile
warnings.simplefilter("ignore")
folder = Path(sys.argv[2])
hostile.is_refused(hostile.write_bundle_of_kind(sys.argv[1], folder / "base"))
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
base = peak()
print(hostile.count_refused_copies(sys.argv[1], folder / "hostile"), peak() - base)
"""


@pytest.mark.process
@pytest.mark.parametrize("kind", ["table", "extracted", "constant"])
def test_a_forged_bundle_is_refused_in_one_line_with_little_memory(
    kind: str, tmp_path: Path
) -> None:
    """Over 120 changed copies of a bundle's JSON are refused in one line each. Memory grows by less than 200 MB."""
    command = [sys.executable, "-c", PROBE, kind, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    num_refused, grown_mb = map(int, done.stdout.split())
    assert num_refused > 120 and grown_mb < MOST_MB
