"""docs/papers-words.md translates words of the papers to settings, all of which exist."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir

from pate.config import CONFIG_FOLDER, register_configs
from tests.aggregator_settings import settings_of_aggregator

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "papers-words.md").read_text(encoding="utf-8")
ROWS = [line.strip("|").split("|") for line in PAGE.splitlines() if line.startswith("| ")]
FIELD = re.compile(r"`aggregator\.(\w+)=(\w*)` of `(\w+)`")
CHOICE = re.compile(r"`aggregator=(\w+)`")


@pytest.fixture(autouse=True, scope="module")
def hydra_config() -> Iterator[None]:
    """Initializes Hydra with the shipped configuration."""
    register_configs()
    with initialize_config_dir(str(CONFIG_FOLDER), version_base="1.3"):
        yield


def setting_of(papers_word: str) -> str:
    """Returns the cell with the setting in the first row that begins with the word."""
    return next(cells[2] for cells in ROWS if cells[0].strip().startswith(papers_word))


@pytest.mark.parametrize(
    ("papers_word", "setting"),
    [
        ("sigma_1", "aggregator.selection_scale="),
        ("sigma_2", "aggregator.test_std="),
        ("delta_t", "aggregator.failure_prob="),
        ("RNM-Gaussian", "aggregator.selection_noise=gaussian"),
        ("PTR-Gaussian", "aggregator.test=gaussian"),
        ("boundary wrapper", "aggregator=stable_top_k_boundary"),
        ("k, fixed", "aggregator.k="),
        ("sigma of GNMax", "aggregator.noise_std="),
        ("tau of PATE-tau", "aggregator.vote_clip="),
        ("sigma_1 of Confident-GNMax", "aggregator.screening_std="),
        ("sigma_2 of Confident-GNMax", "aggregator.noise_std="),
    ],
)
def test_a_word_has_the_setting_that_its_paper_means(papers_word: str, setting: str) -> None:
    """The row of a paper's word in docs/papers-words.md names the expected setting."""
    assert f"`{setting}`" in setting_of(papers_word)


@pytest.mark.slow
def test_every_setting_of_the_page_exists() -> None:
    """Each setting and aggregator that docs/papers-words.md names is in the configuration, and each value composes."""
    fields = FIELD.findall(PAGE)
    assert len(fields) > 15
    for field, value, aggregator in fields:
        assert field in settings_of_aggregator(aggregator), (field, aggregator)
        if value:
            compose("train", [f"aggregator={aggregator}", f"aggregator.{field}={value}"])
    for name in CHOICE.findall(PAGE):
        assert "_target_" in settings_of_aggregator(name)


@pytest.mark.parametrize(
    "page", ["README.md", "mkdocs.yml", "docs/notation.md", "docs/concepts.md"]
)
def test_the_page_is_linked_where_people_look(page: str) -> None:
    """The README, the navigation, the notation and the concepts link docs/papers-words.md."""
    assert "papers-words.md" in (ROOT / page).read_text(encoding="utf-8")


def test_the_readme_names_celeba_and_how_to_compare_aggregators_on_it() -> None:
    """The README links the page on CelebA, and shows a `pate-compare data=celeba` command."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "docs/how-to/celeba.md" in readme
    assert re.search(r"^pate-compare data=celeba data\.root=", readme, re.MULTILINE)
