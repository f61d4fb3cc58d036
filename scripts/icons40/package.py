"""The package @iconify/json, as npm packs it or unpacked: sets of icons, each with its license."""

from __future__ import annotations

import json
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pate.validation import InvalidValue

NAME = "@iconify/json"
VERSION = "2.2.535"
"""The version of which the splits, the labels and all figures are."""

FETCH = f"npm pack {NAME}@{VERSION}, or make icons"

_OF_PROGRAMS = (
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "MIT",
    "MPL-2.0",
    "OFL-1.1",
    "Unlicense",
)
ALLOWED = frozenset(_OF_PROGRAMS) | {
    "CC0-1.0",
    "CC-BY-3.0",
    "CC-BY-4.0",
    "CC-BY-SA-3.0",
    "CC-BY-SA-4.0",
}
"""Licenses of sets that are taken: no condition on who uses the pictures, and none on programs that do (no GPL)."""

_BROKEN = (
    OSError,
    EOFError,
    zlib.error,
    tarfile.TarError,
    UnicodeDecodeError,
    json.JSONDecodeError,
    RecursionError,
)
_SIDE = 16  # of an icon that says no other, by the format's definition


@dataclass(frozen=True)
class IconSet:
    """A set of icons, read from its JSON."""

    prefix: str  # its name in the package
    content: dict[str, Any]  # the JSON object

    @property
    def names(self) -> list[str]:
        """Returns the names of the icons, sorted."""
        return sorted(self._icons)

    @property
    def about(self) -> dict[str, str]:
        """Returns title, author and license of the set, where the set states them."""
        metadata = _object(self.content.get("info"))
        author = _object(metadata.get("author"))
        license_ = _object(metadata.get("license"))
        fields = {
            "title": metadata.get("name"),
            "author": author.get("name"),
            "author_url": author.get("url"),
            "license": license_.get("spdx") or license_.get("title"),
            "license_url": license_.get("url"),
        }
        return {key: value for key, value in fields.items() if isinstance(value, str) and value}

    @property
    def refusal(self) -> str:
        """Returns the reason why the set is left out; empty for an accepted set."""
        if "license" not in self.about:
            return "no license"
        return "" if self.about["license"] in ALLOWED else f"license {self.about['license']}"

    def svg(self, name: str) -> str | None:
        """Returns an icon centered in a square SVG picture; None where its entry is no icon."""
        icon = self._icons[name]
        if not isinstance(icon, dict) or not isinstance(icon.get("body"), str):
            return None
        left, top, width, height = (
            icon.get(key, self.content.get(key, default))
            for key, default in (("left", 0), ("top", 0), ("width", _SIDE), ("height", _SIDE))
        )
        if (
            not all(_is_number(value) for value in (left, top, width, height))
            or min(width, height) <= 0
        ):
            return None
        side = max(width, height)
        box = f"{left - (side - width) / 2:g} {top - (side - height) / 2:g} {side:g} {side:g}"
        spaces = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
        return f'<svg {spaces} viewBox="{box}">{icon["body"]}</svg>'

    @property
    def _icons(self) -> dict[str, Any]:
        return _object(self.content.get("icons"))


@dataclass(frozen=True)
class IconPackage:
    """The package at a path: what `npm pack` wrote, or the folder that it unpacks to."""

    path: Path  # the .tgz file, or the folder with `package.json` and `json/`, or the one above it

    def require_version(self) -> None:
        """Raises `InvalidValue` unless the package has the expected name and version."""
        for file, content in self._files():
            if file == "package.json":
                metadata = _object(self._parsed(file, content))
                version = f"{metadata.get('name')} {metadata.get('version')}"
                if version != f"{NAME} {VERSION}":
                    raise InvalidValue(
                        "package", self.path, rule=f"{NAME} {VERSION}, found {version}; {FETCH}"
                    )
                return
        raise InvalidValue(
            "package", self.path, rule=f"{NAME} {VERSION}, found no package.json; {FETCH}"
        )

    def sets(self) -> Iterator[IconSet]:
        """Yields all sets in the order of the files; one set is in memory at a time.

        Raises:
            InvalidValue: no file and no folder of that name, or one that cannot be read to its end.
        """
        for file, content in self._files():
            if file.startswith("json/") and file.endswith(".json"):
                prefix = file.removeprefix("json/").removesuffix(".json")
                yield IconSet(prefix, content=_object(self._parsed(file, content)))

    def _files(self) -> Iterator[tuple[str, bytes]]:
        """Yields path and bytes of package.json and of the files in json/, paths relative to the package."""
        try:
            yield from self._in_folder() if self.path.is_dir() else self._in_archive()
        except _BROKEN as error:
            rule = f"{NAME} {VERSION} as a .tgz or a folder, whole; {FETCH}"
            raise InvalidValue("package", self.path, rule=f"{rule} ({_reason(error)})") from error

    def _in_folder(self) -> Iterator[tuple[str, bytes]]:
        folder = next(
            (
                candidate
                for candidate in (self.path, self.path / "package")
                if (candidate / "json").is_dir()
            ),
            self.path,
        )
        for path in [folder / "package.json", *sorted((folder / "json").glob("*.json"))]:
            if path.is_file():
                yield path.relative_to(folder).as_posix(), path.read_bytes()

    def _in_archive(self) -> Iterator[tuple[str, bytes]]:
        with tarfile.open(self.path, "r|gz") as archive:
            for member in archive:
                name = member.name.partition("/")[2]
                if member.isfile() and (name == "package.json" or name.startswith("json/")):
                    file = archive.extractfile(member)
                    yield name, file.read() if file is not None else b""

    def _parsed(self, file: str, content: bytes) -> Any:
        try:
            return json.loads(content)
        except (ValueError, RecursionError) as error:
            raise InvalidValue("package", self.path, rule=f"JSON in {file}; {FETCH}") from error


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e6


def _reason(error: BaseException) -> str:
    return (
        error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    ).partition("\n")[0]
