"""MkDocs hook: the build fails where a public name is on no page of the reference.

A name is public where a package says so in `__all__`. What the pages document stands in `objects.inv`.
"""

from __future__ import annotations

import zlib
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

from mkdocs.exceptions import PluginError

_HEADER_LINES = 4


def documented(inventory: bytes) -> set[str]:
    """The full names in a Sphinx inventory of version 2."""
    body = inventory.split(b"\n", _HEADER_LINES)[_HEADER_LINES]
    return {line.partition(" ")[0] for line in zlib.decompress(body).decode().splitlines()}


def public_names() -> dict[str, str]:
    """Each public name with the module that defines it: a page may have it under either."""
    names = {}
    package = import_module("pate")
    for module in ("pate", *(found.name for found in walk_packages(package.__path__, "pate."))):
        try:
            loaded = import_module(module)
        except ImportError:  # of an extra that is not installed, which the module's first line says
            continue
        for name in getattr(loaded, "__all__", ()):
            home = getattr(getattr(loaded, name), "__module__", module)
            names[f"{module}.{name}"] = f"{home}.{name}"
    return names


def undocumented(known: set[str]) -> list[str]:
    """The public names that are not among those known."""
    return sorted(name for name, home in public_names().items() if not {name, home} & known)


def on_post_build(config: dict[str, Any]) -> None:
    """Called by MkDocs when the site has been written."""
    inventory = Path(config["site_dir"]) / "objects.inv"
    if missing := undocumented(documented(inventory.read_bytes())):
        raise PluginError(f"docs/api/ has no entry for {', '.join(missing)}")
