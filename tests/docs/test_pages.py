"""Paths on the pages exist, each page is in the navigation, and each proof note is in the index of proofs."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
BESIDE = (
    "README.md",
    "reproductions/README.md",
    "CONTRIBUTING.md",
    "tests/README.md",
    "CHANGELOG.md",
)
PAGES = [*(ROOT / name for name in BESIDE), *sorted(DOCS.rglob("*.md"))]
SOURCES = [
    path
    for folder in ("pate", "scripts", "conf", "reproductions")
    for path in (ROOT / folder).rglob("*.*")
]
PATH = re.compile(r"`((?:pate|tests|docs|conf|scripts|benchmarks|reproductions)/[\w/.-]*)`")
DOC_PATH = re.compile(r"docs/[\w/-]+\.md")


def test_paths_in_pages_and_documents_named_in_code_exist() -> None:
    """Each path that a page names exists, and so does each page of the documentation that code names."""
    page_paths = [
        (page, path) for page in PAGES for path in PATH.findall(page.read_text(encoding="utf-8"))
    ]
    code = [path for path in SOURCES if path.suffix in {".py", ".yaml"}]
    code_documents = [
        (path, document)
        for path in code
        for document in DOC_PATH.findall(path.read_text(encoding="utf-8"))
    ]
    assert len(page_paths) > 100 and len(code_documents) >= 4
    missing = [
        (str(where), path)
        for where, path in page_paths + code_documents
        if not (ROOT / path).exists() and "NAME" not in path
    ]
    assert missing == []


def test_every_page_is_in_the_navigation_and_every_note_in_its_table() -> None:
    """mkdocs.yml lists exactly the pages in `docs`, and the index of proofs links exactly the notes."""
    listed = re.findall(
        r"([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert sorted(listed) == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))
    notes = re.findall(
        r"\]\((\w+\.md)\)", (DOCS / "proofs" / "index.md").read_text(encoding="utf-8")
    )
    assert {*notes, "index.md"} == {note.name for note in (DOCS / "proofs").glob("*.md")}
