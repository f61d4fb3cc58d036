"""`build_icons` makes a data set of icons from a package of icon sets: families, splits, labels and pictures."""

import errno
import json
import re
import runpy
import sys
import tarfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hydra import compose, initialize_config_dir

from pate.config import CONFIG_FOLDER, build, register_configs
from pate.progress import unwatched
from scripts.icons40 import drawing
from scripts.icons40.build import Recipe
from scripts.icons40.drawing import BLANK, BROKEN, draw_icon, renderer_version
from scripts.icons40.package import NAME, VERSION, IconPackage, IconSet
from scripts.icons40.survey import choose_labels, deal_splits, number_of, survey_names
from scripts.icons40.words import family_of
from tests.refusals import ANY, refused_parameter

SHAPES = {
    "square": '<path d="M4 4h16v16H4z"/>',
    "bar": '<path d="M2 10h20v4H2z"/>',
    "pole": '<path d="M10 2h4v20h-4z"/>',
    "corner": '<path d="M2 2h10v10H2z"/>',
    "arrow": '<path d="M12 2l10 20H2z"/>',
    "wedge": '<path d="M2 2h20L2 22z"/>',
}
STYLES = ("", "-outline", "-24-bold", "-sharp")


def icon_set(
    prefix: str, *, license_: str | None = "MIT", more_icons: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Returns a set of 24 icons in 6 families; the width of its pictures depends on its name."""
    width = 24 + len(prefix)
    icons = {
        f"{shape}{style}": {"body": body.replace("/>", f' opacity="{1 - place / 5}"/>')}
        for shape, body in SHAPES.items()
        for place, style in enumerate(STYLES)
    }
    license_entry = {} if license_ is None else {"license": {"title": license_, "spdx": license_}}
    description = {
        "name": prefix.title(),
        "author": {"name": f"{prefix}'s author"},
        **license_entry,
    }
    return {
        "prefix": prefix,
        "info": description,
        "icons": {**icons, **(more_icons or {})},
        "width": width,
        "height": 24,
    }


@pytest.fixture
def icon_sets() -> dict[str, dict[str, Any]]:
    """Returns six sets: four that are accepted, one with another license, one without a license."""
    odd = {
        "bar-broken-one": {"body": "<path d=<"},
        "bar-blank": {"body": ""},
        "bar-entry": "none",
        "bar-flat": {"body": "<path/>", "width": 0},
    }
    return {
        "alpha": icon_set(prefix="alpha"),
        "be": icon_set(prefix="be", more_icons=odd),
        "gammas": icon_set(prefix="gammas", license_="CC-BY-4.0"),
        "deltadelta": icon_set(prefix="deltadelta", license_="Apache-2.0"),
        "copyleft": icon_set(prefix="copyleft", license_="GPL-3.0"),
        "nobody": icon_set(prefix="nobody", license_=None),
    }


@pytest.fixture
def make_package(tmp_path: Path) -> Callable[..., Path]:
    """Returns a function that writes sets of icons as npm does, in a `.tgz` archive unless `packed=False`."""

    def make(
        icon_sets: dict[str, Any], *, name: str = NAME, version: str = VERSION, packed: bool = True
    ) -> Path:
        folder = tmp_path / "unpacked" / "package"
        (folder / "json").mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text(json.dumps({"name": name, "version": version}))
        for prefix, content_of_icon_set in icon_sets.items():
            text = (
                content_of_icon_set
                if isinstance(content_of_icon_set, str)
                else json.dumps(content_of_icon_set)
            )
            (folder / "json" / f"{prefix}.json").write_text(text)
        if not packed:
            return folder.parent
        path = tmp_path / "iconify-json.tgz"
        with tarfile.open(path, "w:gz") as archive:
            archive.add(folder, "package")
        return path

    return make


def test_styles_and_sizes_of_an_icon_are_one_family() -> None:
    """Icons of a set whose names differ only in style or size, such as `home-outline`, are one family.

    Other icons and icons of other sets are in other families.
    """
    styles = (
        "home",
        "outline-home",
        *(f"home-{style}" for style in ("outline", "24-filled", "16-regular", "2")),
    )
    assert {family_of(icon_set="some", name=name) for name in (*styles, "home-sharp-outline")} == {
        "some:home"
    }
    assert family_of(icon_set="some", name="home-lock") == "some:home-lock"
    assert family_of(icon_set="other", name="home") == "other:home"
    assert family_of(icon_set="some", name="bold") == "some:bold"
    assert family_of(icon_set="some", name="24") == "some:24"


def test_number_of_a_family_is_its_digest() -> None:
    """The number of a family is a digest of its name, and differs from that of an icon with the same name."""
    # SHA-256 of "icons family a:b", its first 8 bytes without the last two bits; worked out with sha256sum.
    assert number_of(unit="family", name="a:b") == 0x66FA18AC7195D5AB >> 2
    assert number_of(unit="family", name="a:b") != number_of(unit="icon", name="a:b")


def test_whole_families_fill_the_splits_exactly() -> None:
    """Families of 1 to 4 icons are dealt whole, so that splits of 20 and 30 icons are filled exactly."""
    family_of_icon = np.repeat(np.arange(50), np.arange(50) % 4 + 1)
    families_of_four_icons = np.array([9, 2, 5, 2])
    assert deal_splits(families_of_four_icons, sizes=(2, 1)).tolist() == [2, 0, 1, 0], (
        "the smallest number is public"
    )
    split_of_icon = deal_splits(family_of_icon, sizes=(20, 30))
    assert np.bincount(split_of_icon)[:2].tolist() == [20, 30]
    for family in range(50):
        assert len(set(split_of_icon[family_of_icon == family])) == 1


def choose_labels_by_definition(
    words_by_icon: list[frozenset[str]],
    family_of_icon: np.ndarray,
    *,
    num_public: int,
    num_labels: int,
) -> list[str]:
    """Returns the chosen labels by their definition, which counts all words anew whenever the pool grows.

    The pool, that is, the icons whose words are counted, grows by whole families. The pool ends before more than
    `num_public` of its icons have a label; icons without a label do not count.

    Args:
        words_by_icon: the words of each icon.
        family_of_icon: the family of each icon; the pool grows by families in their order.
        num_public: the largest number of icons in the pool that have a label.
        num_labels: the number of labels.
    """
    labels: list[str] = []
    for last in np.unique(family_of_icon):
        pool = [
            words_of_icon
            for words_of_icon, family in zip(words_by_icon, family_of_icon, strict=True)
            if family <= last
        ]
        counts = Counter(word for words_of_icon in pool for word in words_of_icon)
        chosen = sorted(counts, key=lambda word: (-counts[word], word))[:num_labels]
        if sum(not words_of_icon.isdisjoint(chosen) for words_of_icon in pool) > num_public:
            break
        labels = chosen
    return labels


@pytest.mark.parametrize("seed", [0, 29, 34, 106, 112])
def test_the_pool_ends_where_it_is_full_for_the_first_time(seed: int) -> None:
    """`choose_labels` chooses the same labels as `choose_labels_by_definition`, for random words and families of icons.

    The pool is the icons of the first families, and the labels are its most frequent words. It ends before more than 25
    of its icons have a label. It ends there even if a longer pool had fewer such icons again, as can happen where other
    words become the most frequent ones.
    """
    rng = np.random.default_rng(seed)
    family_of_icon = np.repeat(np.arange(30), rng.integers(1, 6, size=30))
    words_of_families = [
        frozenset(rng.choice(list("abcdef"), size=rng.integers(1, 4)).tolist()) for _ in range(30)
    ]
    words_by_icon = [words_of_families[family] for family in family_of_icon]
    assert choose_labels(
        words_by_icon, family_of_icon, num_public=25, num_labels=2
    ) == choose_labels_by_definition(words_by_icon, family_of_icon, num_public=25, num_labels=2)


HEAD = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 8">'


@pytest.mark.parametrize(
    ("svg", "outcome"),
    [
        (f"{HEAD}</svg>", BLANK),
        (f'{HEAD}<path fill="#fff" d="M0 0h8v8H0z"/></svg>', BLANK),
        (f"{HEAD}<path", BROKEN),
        ("", BROKEN),
        ("no svg", BROKEN),
        (None, BROKEN),
        (f"{HEAD}{'<g>' * 5000}{'</g>' * 5000}</svg>", BROKEN),
        (f"{HEAD}<text>a</text></svg>", BLANK),  # a font would depend on the machine
    ],
)
def test_a_bad_icon_has_its_outcome(svg: str | None, outcome: int) -> None:
    """A blank icon has the outcome BLANK, and one that is no SVG or nested too deep BROKEN; both have an array."""
    levels, alpha = draw_icon(svg, pixels=8, color="grey")
    assert alpha == outcome
    assert levels.shape == (1, 8, 8)


Make = Callable[..., Path]


def test_a_faulty_package_is_refused_in_one_line(
    make_package: Make, icon_sets: dict[str, Any], tmp_path: Path
) -> None:
    """A package that is missing, of another version, cut off, no archive or not JSON is refused with the reason."""
    for path in (tmp_path / "none.tgz", tmp_path):
        with refused_parameter(
            "package", value=ANY, rule_words="npm pack @iconify/json@2.2.535, or make icons"
        ):
            IconPackage(path).require_version()
    for packed in (False, True):
        path = make_package(icon_sets, version="2.2.1", packed=packed)
        with refused_parameter(
            "package", value=ANY, rule_words="@iconify/json 2.2.535, found @iconify/json"
        ):
            IconPackage(path).require_version()
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with refused_parameter("package", value=ANY, rule_words=".tgz or a folder, whole"):
        list(IconPackage(path).sets())
    path.write_bytes(b"no archive")
    with refused_parameter("package", value=ANY, rule_words=".tgz or a folder, whole"):
        IconPackage(path).require_version()
    with refused_parameter("package", value=ANY, rule_words="JSON in json/odd.json"):
        list(IconPackage(make_package({"odd": "{"}, packed=False)).sets())


def test_sets_with_open_licenses_are_accepted() -> None:
    """A set under MIT or CC-BY-SA is accepted.

    Sets under CC-BY-NC, under GPL, under a license without an SPDX name or under none are refused with the reason.
    """
    for license_, refusal in (
        ({"spdx": "MIT", "title": "MIT"}, ""),
        ({"spdx": "CC-BY-SA-4.0"}, ""),
        *(({"spdx": name}, f"license {name}") for name in ("CC-BY-NC-4.0", "GPL-2.0-or-later")),
        ({"title": "Ask us"}, "license Ask us"),
        ({}, "no license"),
        (None, "no license"),
        ("MIT", "no license"),
    ):
        assert IconSet(prefix="some", content={"info": {"license": license_}}).refusal == refusal, (
            license_
        )


ROOT = Path(__file__).resolve().parents[2]
RECIPE = Recipe(pixels=8, num_public=20, num_test=16, num_labels=6)
NAMES = {"arrow", "bar", "corner", "pole", "square", "wedge", "outline", "bold", "sharp"}


@pytest.fixture
def icon_package(make_package: Make, icon_sets: dict[str, Any]) -> IconPackage:
    """Returns a package with the six sets of icons."""
    return IconPackage(make_package(icon_sets))


def build_icons_in(
    folder: Path, icon_package: IconPackage, recipe: Recipe = RECIPE, jobs: int = 1
) -> list[str]:
    """Builds the data set of a package in a folder, and returns the settings that read it."""
    return recipe.build(icon_package, folder=folder, stage=unwatched, jobs=jobs)


def entries(folder: Path) -> list[str]:
    """Returns the sorted names of the entries of a folder."""
    return sorted(path.name for path in folder.iterdir())


def contents(folder: Path) -> dict[str, bytes]:
    """Returns the bytes of all files below a folder, by their relative paths."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@pytest.mark.slow
def test_data_image_folder_reads_a_build(icon_package: IconPackage, tmp_path: Path) -> None:
    """The settings that a build prints load its pictures, with at most 20 public and 16 test icons.

    The private split shares no family with the others, and each private icon has a label.
    """
    pytest.importorskip("pyarrow")
    settings = build_icons_in(folder=tmp_path / "out", icon_package=icon_package)
    assert entries(folder=tmp_path / "out") == ["labels.csv", "manifest.json", "pictures"]
    register_configs()
    with initialize_config_dir(str(CONFIG_FOLDER), version_base="1.3"):
        node = compose("train", settings).data
    data = build(node, slot="data").load()
    assert (data.name, data.real, data.kind, data.input_shape) == (
        "icons",
        True,
        "images",
        (1, 8, 8),
    )
    assert 16 < len(data.public) <= 20, "whole families of up to four"
    assert 12 < len(data.test) <= 16
    assert data.num_labels == 6
    assert set(data.label_names) < NAMES
    assert data.private.labels.any(axis=1).all()
    groups = [set(split.group_ids.tolist()) for split in (data.private, data.public, data.test)]
    assert not groups[0] & groups[1] and not groups[0] & groups[2]
    assert len(groups[0]) < len(data.private)


def test_a_name_that_is_no_file_name_is_refused(
    make_package: Make, icon_sets: dict[str, Any]
) -> None:
    """A package with an icon named `../bar` is refused with this name."""
    icon_sets["alpha"] = icon_set(prefix="alpha", more_icons={"../bar": {"body": SHAPES["bar"]}})
    with refused_parameter(
        "package", value=ANY, rule_words="letters, digits, _ and -, found '../bar'"
    ):
        survey_names(
            IconPackage(make_package(icon_sets)),
            stage=unwatched,
            num_public=20,
            num_labels=6,
            styles=True,
        )


def test_the_manifest_counts_what_was_left_out_and_why(
    icon_package: IconPackage, tmp_path: Path
) -> None:
    """The manifest of a build counts icons and pictures, and those left out by license and by fault.

    The license and author of the sets are in it, too.
    """
    build_icons_in(
        folder=tmp_path / "out",
        icon_package=icon_package,
        recipe=Recipe(
            pixels=8, color="grey", styles=True, num_public=48, num_test=16, num_labels=9
        ),
    )
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    counts = manifest["counts"]
    assert counts["icons"] == 6 * 24 + 4
    assert (counts["left out: license GPL-3.0"], counts["left out: no license"]) == (24, 24)
    assert (counts["left out: blank"], counts["left out: broken"]) == (1, 3)
    assert counts["pictures"] == 4 * 24 == sum(manifest["splits"].values())
    assert manifest["left_out"]["nobody"]["reason"] == "no license"
    assert manifest["sets"]["gammas"]["license"] == "CC-BY-4.0"
    assert (
        manifest["sets"]["be"] | {"drawn": 24, "blank": 1, "broken": 3, "author": "be's author"}
        == manifest["sets"]["be"]
    )
    assert manifest["licenses"] == {"MIT": 48, "CC-BY-4.0": 24, "Apache-2.0": 24}
    assert manifest["package"] == "@iconify/json 2.2.535"


@pytest.mark.slow
def test_a_build_that_was_killed_goes_on(
    icon_package: IconPackage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A build that was killed goes on where it ended, and gives the files of an uninterrupted build.

    It was killed after it had drawn two of four sets. Then the file of one of the two is cut off. So the next build
    draws three sets: this one, and the two that are missing.
    """
    build_icons_in(folder=tmp_path / "whole", icon_package=icon_package)
    first_icons_of_drawn_shards = list[int]()
    max_shards = 2
    draw_shard = drawing.Shard.draw

    def draw_or_interrupt(self: drawing.Shard, folder: Path) -> None:
        if len(first_icons_of_drawn_shards) == max_shards:
            raise KeyboardInterrupt
        first_icons_of_drawn_shards.append(self.first)
        draw_shard(self, folder)

    monkeypatch.setattr(drawing.Shard, "draw", draw_or_interrupt)
    with pytest.raises(KeyboardInterrupt):
        build_icons_in(folder=tmp_path / "out", icon_package=icon_package)
    parts_folder = tmp_path / "out" / ".parts"
    assert entries(folder=tmp_path / "out") == [parts_folder.name]
    torn_path = next(path for path in parts_folder.iterdir() if path.suffix == ".npz")
    torn_path.write_bytes(torn_path.read_bytes()[:-100])
    first_icons_of_drawn_shards.clear()
    max_shards = 9
    build_icons_in(folder=tmp_path / "out", icon_package=icon_package)
    assert contents(folder=tmp_path / "out") == contents(folder=tmp_path / "whole")
    assert len(first_icons_of_drawn_shards) == 3, "of four sets one was whole"


@pytest.mark.parametrize(
    "writer_name", ["scripts.icons40.drawing.write_arrays", "scripts.icons40.build._save"]
)
def test_a_full_disk_leaves_no_table(
    icon_package: IconPackage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writer_name: str
) -> None:
    """If the disk is full while pictures or labels.csv are written, no labels.csv is left; the next build finishes."""

    def fail_to_write(*_: object, **arrays: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(writer_name, fail_to_write)
        with pytest.raises(OSError, match="No space left"):
            build_icons_in(folder=tmp_path / "out", icon_package=icon_package)
    assert not (tmp_path / "out" / "labels.csv").exists()
    build_icons_in(folder=tmp_path / "out", icon_package=icon_package)
    assert (tmp_path / "out" / "labels.csv").is_file()


def run_script(monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> int:
    """Runs scripts/build_icons.py with arguments and returns its exit code."""
    monkeypatch.setattr(sys, "argv", ["build_icons.py", *arguments])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / "scripts" / "build_icons.py"), run_name="__main__")
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_the_command_says_what_is_wrong_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The script refuses a missing package, a size of 0 and 0 jobs with exit code 2 and one line.

    If resvg is missing, the refusal has the command that installs it.
    """
    assert run_script(monkeypatch, arguments=[str(tmp_path / "none.tgz")]) == 2
    assert re.fullmatch(
        r"package=.*none\.tgz: expected @iconify/json .*\n", capsys.readouterr().err
    )
    assert run_script(monkeypatch, arguments=[str(tmp_path), "--pixels", "0"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert run_script(monkeypatch, arguments=[str(tmp_path), "--jobs", "0"]) == 2
    assert "jobs=0: expected" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    with refused_parameter("renderer", rule_words="pip install resvg-py"):
        renderer_version()
