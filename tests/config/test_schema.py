"""The class behind a YAML says which keys there are; what is said before anything is composed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import ConfigCompositionException
from omegaconf import MISSING, OmegaConf

from pate.aggregators import GNMax, StableTopK
from pate.config import CONFIG_FOLDER, register_configs
from pate.config.location import file_of
from pate.config.schema import member_schema, schema_of, target_of
from pate.config.targets import located

if TYPE_CHECKING:
    from nowhere import Nothing


@dataclasses.dataclass
class Mine:
    needed: int
    share: float | None = None
    names: list[str] = dataclasses.field(default_factory=lambda: ["a"])
    made: int = dataclasses.field(default=3, init=False)


@dataclasses.dataclass
class Hinted:
    thing: Nothing | None = None
    number: int = 3


def test_a_schema_has_the_fields_that_can_be_given() -> None:
    node = OmegaConf.structured(schema_of(Mine, without=("share",), extra=[("beside", int, 5)]))
    assert OmegaConf.to_container(node) == {
        "_target_": f"{__name__}.Mine",
        "beside": 5,
        "needed": MISSING,
        "names": ["a"],
    }


def test_hints_that_cannot_be_read_leave_values_unchecked() -> None:
    node = OmegaConf.structured(schema_of(Hinted))
    node.number = "three"
    assert node.number == "three"


@pytest.mark.parametrize(
    ("target", "cls"),
    [
        ("pate.aggregators.GNMax", GNMax),
        ("pate.aggregators.stable_top_k.StableTopK", StableTopK),
        ("pate.aggregators.Nothing", None),
        ("pate.aggregators.gnmax.draw_largest", None),
        ("nowhere.Thing", None),
        ("word", None),
    ],
)
def test_a_class_is_located_by_its_name(target: str, cls: Any) -> None:
    assert located(target) is cls


def test_a_module_that_lacks_another_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lacking.py").write_text("import certainly_not_installed\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ModuleNotFoundError, match="certainly_not_installed"):
        located("lacking.Thing")


FILES = {
    "aggregator/mine.yaml": "# Ours with less.\ndefaults: [stable_top_k_table, _self_]\nmax_k: 3\n",
    "aggregator/broken.yaml": "_target_: lacking.Thing\n",
    "aggregator/untargeted.yaml": "x: 1\n",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "lacking.py").write_text("import certainly_not_installed\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


@pytest.fixture
def hydra_config(folder: Path) -> Iterator[None]:
    register_configs(allowed=("lacking.",))
    with initialize_config_dir(str(CONFIG_FOLDER), version_base="1.3"):
        loader: Any = GlobalHydra.instance().config_loader()
        loader.get_search_path().prepend("command-line", f"file://{folder}")
        loader.repository.initialize_sources(loader.get_search_path())
        yield


@pytest.mark.usefixtures("hydra_config")
def test_a_member_that_begins_from_one_of_ours_is_typed_like_it() -> None:
    node = compose("train", ["aggregator=mine", "aggregator.padded=true"]).aggregator
    assert (node.max_k, node.padded, node.table_order) == (3, True, 4.4827)
    with pytest.raises(ConfigCompositionException, match="Error merging override"):
        compose("train", ["aggregator=mine", "aggregator.max_k=many"])


@pytest.mark.usefixtures("hydra_config")
def test_a_member_whose_class_cannot_be_loaded_is_composed_unchecked() -> None:
    assert compose("train", ["aggregator=broken"]).aggregator == {"_target_": "lacking.Thing"}
    assert (
        member_schema("aggregator", "broken", ("pate.",)) == member_schema("aggregator", "broken", ("lacking.",)) == {}
    )


@pytest.mark.usefixtures("hydra_config")
def test_targets_of_members() -> None:
    assert target_of("aggregator", "mine") == "pate.aggregators.StableTopK"
    assert target_of("aggregator", "untargeted") is None
    assert target_of("aggregator", "nowhere") is None is file_of("aggregator", "nowhere")
