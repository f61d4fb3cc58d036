"""The class behind a YAML says which keys there are; what is said before anything is composed."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hydra import compose, initialize_config_dir
from hydra.errors import ConfigCompositionException
from omegaconf import MISSING, OmegaConf

from pate.aggregators import GNMax, StableTopK
from pate.config import CONFIG_FOLDER, register_configs
from pate.config.class_schema import schema_of, store_schemas, target_of
from pate.config.classes import located
from pate.config.overlay import allowed_prefixes, own_folders

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
        ("pate.aggregators.stable.stable_top_k.StableTopK", StableTopK),
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
    register_configs()
    store_schemas(["aggregator"], [CONFIG_FOLDER, folder], ("pate.", "lacking."))
    with initialize_config_dir(str(CONFIG_FOLDER), version_base="1.3"):
        yield


@pytest.mark.usefixtures("hydra_config")
def test_a_member_that_begins_from_one_of_ours_is_typed_like_it(folder: Path) -> None:
    where = f"hydra.searchpath=[file://{folder}]"
    node = compose("train", [where, "aggregator=mine", "aggregator.padded=true"]).aggregator
    assert (node.max_k, node.padded, node.table_order) == (3, True, 4.4827)
    with pytest.raises(ConfigCompositionException, match="Error merging override"):
        compose("train", [where, "aggregator=mine", "aggregator.max_k=many"])


@pytest.mark.usefixtures("hydra_config")
def test_a_member_whose_class_cannot_be_loaded_is_composed_unchecked(folder: Path) -> None:
    node = compose("train", [f"hydra.searchpath=[file://{folder}]", "aggregator=broken"]).aggregator
    assert node == {"_target_": "lacking.Thing"}


def test_targets_of_members(folder: Path) -> None:
    folders = (CONFIG_FOLDER, folder)
    assert target_of("aggregator", "mine", folders) == "pate.aggregators.StableTopK"
    assert target_of("aggregator", "untargeted", folders) is None
    assert target_of("aggregator", "nowhere", folders) is None


@pytest.mark.parametrize("words", [["--config-dir", "a"], ["--config-dir=a", "seed=1"], ["-m", "-cd", "a"]])
def test_folders_of_a_command_line(words: list[str]) -> None:
    assert own_folders(words) == (Path("a"),)


def test_no_folder_is_named() -> None:
    assert own_folders([]) == own_folders(["seed=1", "--config-dir"]) == ()


@pytest.mark.parametrize(
    ("words", "prefixes"),
    [
        (["allowed_targets=[x., y.]"], ("x.", "y.")),
        (["++allowed_targets=[x.]", "experiment=trusting"], ("x.",)),
        (["--help", "experiment=trusting"], ()),
        (["experiment=nowhere", "data.root=~/a b("], ()),
        (["allowed_targets=x."], ()),
    ],
)
def test_what_a_command_line_allows(words: list[str], prefixes: tuple[str, ...]) -> None:
    assert allowed_prefixes(words) == prefixes


@pytest.mark.process
def test_prices_need_no_torch() -> None:
    statement = "from pate.config import register_configs; register_configs(training=False)"
    command = [sys.executable, "-c", f"import sys; {statement}; print('torch' in sys.modules)"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "False\n"
