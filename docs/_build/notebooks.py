"""MkDocs hook: the notebooks are pages of the site.

`make site` runs them first, into `.venv/notebooks`, and then their pages have outputs. A build without that shows the
notebooks as they are kept in git, code and text alone.
"""

from __future__ import annotations

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
FOLDER = "notebooks"
WITH_OUTPUTS = ROOT / ".venv"  # where scripts/run_notebooks.py writes them, in FOLDER


@event_priority(100)  # before the plugin that turns notebooks into pages looks for them
def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds each notebook to the files of the site, with its outputs where it was run."""
    for notebook in sorted((ROOT / FOLDER).glob("*.ipynb")):
        path = f"{FOLDER}/{notebook.name}"
        source = WITH_OUTPUTS if (WITH_OUTPUTS / path).is_file() else ROOT
        files.append(File(path, str(source), config.site_dir, config.use_directory_urls))
    return files
