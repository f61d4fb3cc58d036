from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pate.validation import InvalidValue
from scripts.icons40.package import IconPackage, IconSet

Make = Callable[..., Path]


def test_archive_and_folder_hold_the_same(make_package: Make, sets: dict[str, Any]) -> None:
    packed, unpacked = make_package(sets), make_package(sets, packed=False)
    found = [
        {each.prefix: each.content for each in IconPackage(path).sets()}
        for path in (packed, unpacked, unpacked / "package")
    ]
    assert found[0] == found[1] == found[2] == sets
    IconPackage(packed).require_version()
    IconPackage(unpacked).require_version()


@pytest.mark.parametrize("packed", [True, False])
def test_another_version_is_one_line(make_package: Make, sets: dict[str, Any], packed: bool) -> None:
    path = make_package(sets, version="2.2.1", packed=packed)
    with pytest.raises(InvalidValue, match=r"expected @iconify/json 2\.2\.535, found @iconify/json 2\.2\.1; npm pack"):
        IconPackage(path).require_version()


def test_no_package_is_one_line(tmp_path: Path) -> None:
    for path in (tmp_path / "none.tgz", tmp_path):
        with pytest.raises(InvalidValue, match=r"^package=.*npm pack @iconify/json@2\.2\.535, or make icons"):
            IconPackage(path).require_version()


def test_a_package_that_was_cut_off_is_one_line(make_package: Make, sets: dict[str, Any]) -> None:
    path = make_package(sets)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(InvalidValue, match=r"as a \.tgz or a folder, whole"):
        list(IconPackage(path).sets())
    path.write_bytes(b"no archive")
    with pytest.raises(InvalidValue, match=r"as a \.tgz or a folder, whole"):
        IconPackage(path).require_version()


def test_a_set_that_is_no_json_is_one_line(make_package: Make) -> None:
    with pytest.raises(InvalidValue, match=r"expected JSON in json/odd\.json"):
        list(IconPackage(make_package({"odd": "{"}, packed=False)).sets())


@pytest.mark.parametrize(
    ("license_", "refusal"),
    [
        ({"spdx": "MIT", "title": "MIT"}, ""),
        ({"spdx": "CC-BY-SA-4.0"}, ""),
        ({"spdx": "CC-BY-NC-4.0"}, "license CC-BY-NC-4.0"),
        ({"spdx": "GPL-2.0-or-later"}, "license GPL-2.0-or-later"),
        ({"title": "Ask us"}, "license Ask us"),
        ({}, "no license"),
        (None, "no license"),
        ("MIT", "no license"),
    ],
)
def test_which_licenses_are_taken(license_: Any, refusal: str) -> None:
    assert IconSet("some", {"info": {"license": license_}}).refusal == refusal


def test_a_set_without_a_word_about_itself_is_left_out() -> None:
    for content in ({}, {"info": None}, {"info": []}):
        assert IconSet("some", content).refusal == "no license"
        assert IconSet("some", content).names == []


def test_a_picture_is_a_square_with_the_icon_in_its_middle() -> None:
    icons = {"wide": {"body": "<g/>", "width": 40, "left": 2}, "plain": {"body": "<g/>"}}
    svg = IconSet("some", {"icons": icons, "height": 20}).svg
    assert 'viewBox="2 -10 40 40"' in str(svg("wide"))
    assert 'viewBox="-2 0 20 20"' in str(svg("plain")), "16 wide, the format's own default"


@pytest.mark.parametrize(
    "icon",
    [None, "x", {}, {"body": 3}, {"body": "", "width": 0}, {"body": "", "top": "a"}, {"body": "", "height": True}],
)
def test_an_entry_that_is_no_icon(icon: Any) -> None:
    assert IconSet("some", {"icons": {"odd": icon}}).svg("odd") is None
