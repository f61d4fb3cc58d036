"""Which keys there are, by a command's file and by the class behind a member; what `--help` says of each member."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hydra import compose
from hydra.errors import ConfigCompositionException
from omegaconf import MISSING, OmegaConf

from pate.config import location
from pate.config.build import located
from pate.config.location import choices, file_of, members
from pate.config.schema import command_schema, member_schema, schema_of, target_of
from tests.config.conftest import with_files

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
    names = {"needed": MISSING, "names": ["a"]}
    assert OmegaConf.to_container(node) == {"_target_": f"{__name__}.Mine", "beside": 5, **names}
    node = OmegaConf.structured(schema_of(Hinted))  # hints that cannot be read leave values unchecked
    node.number = "three"
    assert node.number == "three"


def test_a_command_has_the_keys_of_its_file_and_they_have_types() -> None:
    types = {field.name: field.type for field in dataclasses.fields(command_schema("train"))}
    assert list(types)[:3] == ["data", "features", "teacher"] and not {"way", "experiment", "hydra"} & types.keys()
    assert (types["num_queries"], types["target_epsilon"], types["seed"]) == (int, float | None, int | None)
    assert (types["adjacency"], types["ledger"], types["allowed_targets"]) == (str, str | None, list[str])
    assert {field.name: field.type for field in dataclasses.fields(command_schema("predict"))}["data"] is str


@pytest.fixture
def hydra_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "lacking.py").write_text("import certainly_not_installed\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    mine = "# Ours with less.\ndefaults: [stable_top_k_table, _self_]\nmax_k: 3\n"
    texts = {"mine": mine, "broken": "_target_: lacking.Thing\n", "untargeted": "x: 1\n"}
    with with_files(tmp_path, {f"aggregator/{name}": text for name, text in texts.items()}, "lacking."):
        yield


@pytest.mark.usefixtures("hydra_config")
def test_a_member_of_ones_own_is_typed_like_the_one_that_it_begins_from() -> None:
    node = compose("train", ["aggregator=mine", "aggregator.padded=true"]).aggregator
    assert (node.max_k, node.padded, node.table_order) == (3, True, 4.4827)
    with pytest.raises(ConfigCompositionException, match="Error merging override"):
        compose("train", ["aggregator=mine", "aggregator.max_k=many"])
    assert target_of("aggregator", "mine") == "pate.aggregators.StableTopK"
    assert target_of("aggregator", "untargeted") is target_of("aggregator", "nowhere") is None
    assert file_of("aggregator", "nowhere") is None


@pytest.mark.usefixtures("hydra_config")
def test_a_member_whose_class_cannot_be_loaded_is_composed_unchecked() -> None:
    with pytest.raises(ModuleNotFoundError, match="certainly_not_installed"):
        located("lacking.Thing")
    assert compose("train", ["aggregator=broken"]).aggregator == {"_target_": "lacking.Thing"}
    for trusted in ("pate.", "lacking."):
        assert member_schema("aggregator", "broken", (trusted,)) == {}


GROUPS = ("data", "teacher", "engine", "aggregator", "accountant", "student", "experiment", "features", "way")


def test_each_member_is_explained_by_a_first_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for group in GROUPS:
        shown = choices(group)
        assert shown.startswith(f"  {group}\n")
        assert re.findall(r"^    (\w+) +\S", shown, re.MULTILINE) == list(members(group))
        assert max(map(len, shown.splitlines())) <= 120
    (tmp_path / "kind").mkdir()
    long = "# @package _global_\n# Two lines, data.root=FOLDER, 0.5\n# of it. And more.\nx: 1 # not me.\n"
    for name, text in {"one": long, "two": "# No stop\n", "xyz": "x: 1\n"}.items():
        (tmp_path / "kind" / f"{name}.yaml").write_text(text)
    monkeypatch.setattr(location, "folders", lambda: (tmp_path,))
    assert choices("kind") == ("  kind\n    one  Two lines, data.root=FOLDER, 0.5 of it\n    two  No stop\n    xyz")
