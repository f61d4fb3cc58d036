import errno
import json
import os
import re
import runpy
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pate.data import Icons
from pate.data.dataset import unwatched
from pate.files.atomic import locked
from pate.validation import InvalidValue
from scripts.icons40 import shards
from scripts.icons40.build import Recipe
from scripts.icons40.package import NAME, VERSION, IconPackage
from scripts.icons40.words import family_of

Make = Callable[..., Path]
ROOT = Path(__file__).resolve().parents[3]
RECIPE = Recipe(pixels=8, num_public=20, num_test=16, num_labels=6)
NAMES = {"arrow", "bar", "corner", "pole", "square", "wedge", "outline", "bold", "sharp"}


@pytest.fixture
def package(make_package: Make, sets: dict[str, Any]) -> IconPackage:
    return IconPackage(make_package(sets))


def built(package: IconPackage, folder: Path, recipe: Recipe = RECIPE, jobs: int = 1) -> Path:
    return recipe.build(package, folder, unwatched, jobs=jobs)


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_file_is_what_the_loader_reads(package: IconPackage, tmp_path: Path) -> None:
    path = built(package, tmp_path / "out")
    data = Icons(path, image_size=8).load()
    assert left(tmp_path / "out") == ["icons-8-grey.json", "icons-8-grey.npz"]
    assert (data.name, data.real, data.kind, data.input_shape) == ("icons", True, "images", (1, 8, 8))
    assert 16 < len(data.public) <= 20, "whole families of up to four"
    assert 12 < len(data.test) <= 16
    assert data.num_labels == 6
    assert set(data.label_names) < NAMES
    assert data.private.labels.any(axis=1).all()


def test_pictures_labels_and_families_are_those_of_the_names(package: IconPackage, tmp_path: Path) -> None:
    data = Icons(built(package, tmp_path / "out"), image_size=8).load()
    pictures, groups = np.asarray(data.public.inputs), data.public.group_ids
    families = [family_of(*name.split(":")) for name in data.published_ids]
    for row, name in enumerate(data.published_ids.tolist()):
        shape, *style = name.partition(":")[2].split("-")
        told = {label for label, holds in zip(data.label_names, data.public.labels[row], strict=True) if holds}
        assert told == {shape, *style} & set(data.label_names)
        if shape in ("corner", "bar"):
            assert pictures[row, 0, 2, 2] < 1 or shape == "bar"
            assert pictures[row, 0, 7, 7] == 1
    assert len(set(zip(families, groups.tolist(), strict=True))) == len(set(families)) == len(set(groups.tolist()))


def test_the_manifest_counts_what_was_left_out_and_why(package: IconPackage, tmp_path: Path) -> None:
    said = json.loads(
        built(package, tmp_path / "out", Recipe(8, "grey", True, 48, 16, 9)).with_suffix(".json").read_text()
    )
    counts = said["counts"]
    assert counts["icons"] == 6 * 24 + 4
    assert (counts["left out: license GPL-3.0"], counts["left out: no license"]) == (24, 24)
    assert (counts["left out: blank"], counts["left out: broken"]) == (1, 3)
    assert counts["pictures"] == 4 * 24 == sum(said["splits"].values())
    assert said["left_out"]["nobody"]["reason"] == "no license"
    assert said["sets"]["gammas"]["license"] == "CC-BY-4.0"
    assert said["sets"]["be"] | {"drawn": 24, "blank": 1, "broken": 3, "author": "be's author"} == said["sets"]["be"]
    assert said["licenses"] == {"MIT": 48, "CC-BY-4.0": 24, "Apache-2.0": 24}
    assert said["package"] == "@iconify/json 2.2.535"


def test_labels_can_be_those_of_what_is_shown_alone(package: IconPackage, tmp_path: Path) -> None:
    path = built(package, tmp_path / "out", Recipe(8, "rgb", False, 20, 16, 4))
    data = Icons(path, image_size=8, channels=3).load()
    assert path.name == "icons-8-rgb-shown.npz"
    assert set(data.label_names).isdisjoint(("outline", "bold", "sharp"))
    assert data.input_shape == (3, 8, 8)


@pytest.mark.slow
@pytest.mark.process
def test_the_bytes_do_not_depend_on_processes_or_on_the_package_s_form(
    make_package: Make, sets: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "SIZE", 10)
    packed = built(IconPackage(make_package(sets)), tmp_path / "one", jobs=2)
    unpacked = built(IconPackage(make_package(sets, packed=False)), tmp_path / "other")
    for suffix in (".npz", ".json"):
        assert packed.with_suffix(suffix).read_bytes() == unpacked.with_suffix(suffix).read_bytes()


def test_a_build_that_was_killed_goes_on(package: IconPackage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = built(package, tmp_path / "whole").read_bytes()
    drawn, draw = [], shards.Shard.draw

    def killed(self: shards.Shard, folder: Path) -> None:
        if len(drawn) == 2:
            raise KeyboardInterrupt
        drawn.append(self.first)
        draw(self, folder)

    monkeypatch.setattr(shards.Shard, "draw", killed)
    with pytest.raises(KeyboardInterrupt):
        built(package, tmp_path / "out")
    parts = tmp_path / "out" / ".icons-8-grey.npz.parts"
    assert left(tmp_path / "out") == [parts.name]
    torn = next(path for path in parts.iterdir() if path.suffix == ".npz")
    torn.write_bytes(torn.read_bytes()[:-100])

    def counted(self: shards.Shard, folder: Path) -> None:
        drawn.append(self.first)
        draw(self, folder)

    monkeypatch.setattr(shards.Shard, "draw", counted)
    drawn.clear()
    assert built(package, tmp_path / "out").read_bytes() == whole
    assert len(drawn) == 3, "of four sets one was whole"
    assert left(tmp_path / "out") == ["icons-8-grey.json", "icons-8-grey.npz"]


@pytest.mark.parametrize("place", ["scripts.icons40.shards.write_arrays", "scripts.icons40.build.write_arrays"])
def test_a_full_disk_leaves_no_half_written_file(
    package: IconPackage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    def full(path: Path, **arrays: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    with monkeypatch.context() as patched:
        patched.setattr(place, full)
        with pytest.raises(OSError, match="No space left"):
            built(package, tmp_path / "out")
    assert not list((tmp_path / "out").glob("*.npz"))
    assert not list((tmp_path / "out").glob(".*/pictures"))
    assert built(package, tmp_path / "out").is_file()


def test_a_second_build_in_the_same_folder_is_refused(package: IconPackage, tmp_path: Path) -> None:
    parts = tmp_path / "out" / f".{RECIPE.file_name}.parts"
    parts.mkdir(parents=True)
    with locked(parts / "lock"), pytest.raises(InvalidValue, match="expected no other build that writes there"):
        built(package, tmp_path / "out")


def test_too_few_icons_are_one_line(make_package: Make, sets: dict[str, Any], tmp_path: Path) -> None:
    few = IconPackage(make_package({"alpha": sets["alpha"]}, packed=False))
    with pytest.raises(InvalidValue, match=r"expected more than 20 \+ 16 icons with a label.* found 2"):
        built(few, tmp_path / "out")
    with pytest.raises(InvalidValue, match="expected names with at least 40 words, in sets with an open license"):
        built(few, tmp_path / "out", Recipe())
    with pytest.raises(InvalidValue, match="found 0 in 0 icons"):
        built(IconPackage(make_package({"alpha": {}}, packed=False)), tmp_path / "out")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"pixels": 0}, "pixels=0: expected"),
        ({"pixels": 300}, "pixels=300: expected at most 256"),
        ({"color": "gray"}, "color=gray: expected one of grey, rgb"),
    ],
)
def test_settings_out_of_range(setting: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        Recipe(**setting)


def command(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr(sys, "argv", ["build_icons.py", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / "scripts" / "build_icons.py"), run_name="__main__")
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_the_command_says_what_is_wrong_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(monkeypatch, tmp_path / "none.tgz") == 2
    assert re.fullmatch(r"package=.*none\.tgz: expected @iconify/json .*\n", capsys.readouterr().err)
    assert command(monkeypatch, tmp_path, "--pixels", "0") == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert command(monkeypatch, tmp_path, "--jobs", "0") == 2
    assert "jobs=0: expected" in capsys.readouterr().err


def test_make_fetches_the_version_that_is_built() -> None:
    makefile = (ROOT / "Makefile").read_text()
    assert f"ICONS_PACKAGE := {NAME}@{VERSION}\n" in makefile
    assert f"ICONS_FILE := iconify-json-{VERSION}.tgz\n" in makefile


@pytest.mark.slow
@pytest.mark.process
def test_a_signal_ends_the_command_in_one_line(tmp_path: Path) -> None:
    package = tmp_path / "package.tgz"
    os.mkfifo(package)
    words = [sys.executable, str(ROOT / "scripts" / "build_icons.py"), str(package), "--output", str(tmp_path / "out")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=environment) as process:
        held = None
        while held is None and process.poll() is None:
            with suppress(OSError):  # until the command reads
                held = os.open(package, os.O_WRONLY | os.O_NONBLOCK)
            time.sleep(0.05)
        process.terminate()
        _, told = process.communicate(timeout=60)
    if held is not None:
        os.close(held)
    assert process.returncode == 143
    assert told == "ended by SIGTERM; the same command continues where it stopped\n"


def test_a_full_disk_ends_the_command_in_one_line(
    package: IconPackage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(self: Recipe, *rest: object, **more: object) -> Path:
        raise OSError(errno.ENOSPC, "No space left on device", str(tmp_path / "out"))

    monkeypatch.setattr(Recipe, "build", full)
    assert command(monkeypatch, package.path, "--output", tmp_path / "out") == 1
    assert capsys.readouterr().err.endswith("; the same command continues once that is mended\n")
