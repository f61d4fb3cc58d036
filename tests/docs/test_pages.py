"""What pages promise: the sections of a proof note, paths that exist, a place in the navigation."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    ROOT / "reproductions" / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "tests" / "README.md",
    ROOT / "CHANGELOG.md",
    *sorted(DOCS.rglob("*.md")),
]
NOTES = sorted(set((DOCS / "proofs").glob("*.md")) - {DOCS / "proofs" / "index.md"})
PATH = re.compile(r"`((?:pate|tests|docs|conf|scripts|benchmarks|reproductions)/[\w/.-]*)`")
DOC_PATH = re.compile(r"docs/[\w/-]+\.md")


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def test_the_table_of_notes_is_complete() -> None:
    listed = re.findall(r"\]\((\w+\.md)\)", (DOCS / "proofs" / "index.md").read_text(encoding="utf-8"))
    assert set(listed) == {note.name for note in NOTES}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_paths_in_a_page_exist(page: Path) -> None:
    paths = [path for path in PATH.findall(page.read_text(encoding="utf-8")) if "NAME" not in path]
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_documents_named_in_code_exist() -> None:
    sources = [path for folder in ("pate", "scripts", "conf", "reproductions") for path in (ROOT / folder).rglob("*.*")]
    named = {
        reference
        for path in sources
        if path.suffix in {".py", ".yaml"}
        for reference in DOC_PATH.findall(path.read_text(encoding="utf-8"))
    }
    assert len(named) >= 4
    assert sorted(reference for reference in named if not (ROOT / reference).exists()) == []


def test_every_page_is_in_the_navigation_and_nothing_else() -> None:
    listed = re.findall(r"([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))
