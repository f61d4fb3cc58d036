"""A small package of icons that are drawn here: squares, bars and rings in four styles."""

import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scripts.icons40.package import NAME, VERSION

SHAPES = {
    "square": '<path d="M4 4h16v16H4z"/>',
    "bar": '<path d="M2 10h20v4H2z"/>',
    "pole": '<path d="M10 2h4v20h-4z"/>',
    "corner": '<path d="M2 2h10v10H2z"/>',
    "arrow": '<path d="M12 2l10 20H2z"/>',
    "wedge": '<path d="M2 2h20L2 22z"/>',
}
STYLES = ("", "-outline", "-24-bold", "-sharp")


def icon_set(prefix: str, *, license_: str | None = "MIT", **more: Any) -> dict[str, Any]:
    """24 icons in 6 families; a set's pictures differ from another's by their width."""
    width = 24 + len(prefix)
    icons = {
        f"{shape}{style}": {"body": body.replace("/>", f' opacity="{1 - place / 5}"/>')}
        for shape, body in SHAPES.items()
        for place, style in enumerate(STYLES)
    }
    license_said = {} if license_ is None else {"license": {"title": license_, "spdx": license_}}
    info = {"name": prefix.title(), "author": {"name": f"{prefix}'s author"}, **license_said}
    return {"prefix": prefix, "info": info, "icons": {**icons, **more}, "width": width, "height": 24}


@pytest.fixture
def sets() -> dict[str, dict[str, Any]]:
    """Six sets: four that are taken, one of a license that is not, one of none."""
    odd = {
        "bar-broken-one": {"body": "<path d=<"},
        "bar-blank": {"body": ""},
        "bar-entry": "none",
        "bar-flat": {"body": "<path/>", "width": 0},
    }
    return {
        "alpha": icon_set("alpha"),
        "be": icon_set("be", **odd),
        "gammas": icon_set("gammas", license_="CC-BY-4.0"),
        "deltadelta": icon_set("deltadelta", license_="Apache-2.0"),
        "copyleft": icon_set("copyleft", license_="GPL-3.0"),
        "nobody": icon_set("nobody", license_=None),
    }


@pytest.fixture
def make_package(tmp_path: Path) -> Callable[..., Path]:
    """Writes a folder as npm unpacks it, and packs it."""

    def make(sets: dict[str, Any], *, name: str = NAME, version: str = VERSION, packed: bool = True) -> Path:
        folder = tmp_path / "unpacked" / "package"
        (folder / "json").mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text(json.dumps({"name": name, "version": version}))
        for prefix, content in sets.items():
            text = content if isinstance(content, str) else json.dumps(content)
            (folder / "json" / f"{prefix}.json").write_text(text)
        if not packed:
            return folder.parent
        path = tmp_path / "iconify-json.tgz"
        with tarfile.open(path, "w:gz") as archive:
            archive.add(folder, "package")
        return path

    return make
