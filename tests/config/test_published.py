"""`release/config.yaml` is an allow-list: what nobody declared public does not leave, whatever it looks like."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from omegaconf import OmegaConf

from pate.accounting import RdpAccountant
from pate.aggregators import Aggregator, CenteredVotes, GaussianVotes, StableTopK
from pate.cli.run import plain_settings
from pate.config import build, build_aggregator
from pate.config.build import part_maker
from pate.config.published import own_settings, public_settings, release_settings
from pate.config.schema import members
from pate.data import WordNet40
from pate.mechanisms import CertifiedTable
from pate.models import SklearnTeacher
from pate.run.train import train
from pate.validation import InvalidValue
from tests.contract.aggregator_cases import CASES
from tests.e2e.small_run import small_plan
from tests.refusals import refused

NUMBER = 771_942  # a secret number
TERMS = {
    "adjacency": "replace_one",
    "target_delta": 1e-6,
    "target_epsilon": 8.0,
    "max_epsilon": None,
    "num_queries": 9,
}
SECRETS = (
    "patients.csv",
    "private_clinic_files",
    "/mnt/ward",
    "C:\\ward",
    "~ward",
    "mercy hospital",
    "Jane Doe",
)


@dataclass(frozen=True, kw_only=True)
class MyVotes(GaussianVotes):
    """An aggregator of a user with public, private and undeclared fields."""

    note: str = ""
    quorum: float = 0.5
    patients: int = field(default=0, metadata={"private": True})
    noise_seed: int = 0
    kind: str = field(default="plain", metadata={"public": True})
    names: tuple[str, ...] = ()
    weights: tuple[float, ...] = field(default=(), metadata={"public": True})
    inner: Any = None


@dataclass(frozen=True)
class MyData:
    """A reader of a user, of which only `image_size` is declared public."""

    folder: str = "f"
    file: str = "f"
    ward: int = 0
    share: float = 0.5
    image_size: int = field(default=8, metadata={"public": True})
    parts: Any = None


@dataclass(frozen=True)
class Inner:
    """A class of a user within another one, with no declared field."""

    size: int = 1
    path: str = ""


class Plain:
    """A class of a user that declares no field public."""

    def __init__(self, ward: int = 0, path: str = "") -> None:
        self.ward = ward
        self.path = path


def target(cls: type) -> str:
    """Returns the `_target_` of a class, as a configuration names it."""
    return f"{cls.__module__}.{cls.__qualname__}"


def inner(secret: str) -> dict[str, Any]:
    """Returns the configuration of an `Inner` with a secret path and undeclared keys."""
    return {"_target_": target(Inner), "size": 3, "path": secret, "extra": secret, "number": NUMBER}


def settings(secret: str) -> dict[str, Any]:
    """Returns settings with the secret in every place that is not declared public."""
    forest = {
        "_target_": "sklearn.ensemble.RandomForestClassifier",
        "n_estimators": 20,
        "random_state": NUMBER,
    }
    forest |= {
        "criterion": secret,
        "class_weight": {secret: NUMBER},
        "max_features": [secret, NUMBER],
        secret: 1,
    }
    chain = {
        "_target_": "sklearn.multioutput.ClassifierChain",
        "estimator": forest,
        "order": [secret],
        "verbose": True,
    }
    votes = {
        "_target_": target(MyVotes),
        "noise_std": -1.0,
        "weights": [1.0, 2.0],
        "inner": inner(secret),
    }
    votes |= dict.fromkeys(("patients", "noise_seed", "undeclared"), NUMBER) | {
        "note": secret,
        "names": [secret],
    }
    return TERMS | {
        "seed": NUMBER,
        "allowed_targets": [secret],
        "aggregator": votes | {"deeper": {"deeper": [secret, {secret: NUMBER}]}},
        "accountant": {"_target_": target(Plain), "ward": NUMBER, "path": secret},
        "teacher": {
            "_target_": target(SklearnTeacher),
            "estimator": chain,
            "threshold": 0.5,
            "num_teachers": 40,
        },
        "student": {
            "_target_": "pate.student.LinearStudent",
            "rank": 4,
            "penalties": [0.1, 1.0],
            "weights": secret,
        },
        "engine": {"_target_": "pate.teachers.RayEngine", "address": secret, "chunk_size": NUMBER},
        "data": {
            "_target_": target(MyData),
            "folder": secret,
            "file": secret,
            "ward": NUMBER,
            "share": 0.771942,
            "image_size": 12,
            "parts": [{"path": secret, "count": NUMBER}, inner(secret)],
        },
    }


def used(secret: str) -> MyVotes:
    """Returns the aggregator of these settings after its noise was solved for."""
    names = (secret,)
    inside = Inner(path=secret)
    return MyVotes(
        noise_std=40.0, note=secret, patients=NUMBER, noise_seed=NUMBER, names=names, inner=inside
    )


@pytest.mark.parametrize("secret", SECRETS)
def test_secret_is_not_published_from_any_depth(secret: str) -> None:
    """Settings contain a secret in every place that is not declared public.

    The published text contains neither the secret nor the private number.
    """
    text = public_settings(settings=settings(secret), aggregator=used(secret))
    # nor the module of a user's class
    for word in (secret, "771942", "771_942", __name__, "MyData"):
        assert word not in text


def test_published_settings_are_exactly_the_expected_ones() -> None:
    """The published settings have the expected entries and no others, so that every new entry is noticed."""
    votes = {
        "_target_": "MyVotes",
        "noise_std": 40.0,
        "teachers_reached": 1,
        "quorum": 0.5,
        "kind": "plain",
    }
    assert OmegaConf.to_container(
        OmegaConf.create(
            public_settings(settings=settings(secret="secret"), aggregator=used(secret="secret"))
        )
    ) == TERMS | {
        "aggregator": votes | {"weights": [1.0, 2.0]},
        "accountant": {"_target_": "Plain"},
        "teacher": {
            "_target_": "pate.models.sklearn.SklearnTeacher",
            "estimator": {
                "_target_": "sklearn.multioutput.ClassifierChain",
                "estimator": {
                    "_target_": "sklearn.ensemble.RandomForestClassifier",
                    "n_estimators": 20,
                },
                "verbose": True,
            },
            "threshold": 0.5,
            "num_teachers": 40,
        },
        "student": {"_target_": "pate.student.LinearStudent", "penalties": [0.1, 1.0], "rank": 4},
        "data": {"image_size": 12},
    }


def published(aggregator: Aggregator, fields: dict[str, Any]) -> Any:
    """Returns the published settings of an aggregator whose configuration has these fields."""
    node = {"_target_": target(type(aggregator)), **fields}
    return OmegaConf.create(
        public_settings(
            settings=settings(secret="secret") | {"aggregator": node}, aggregator=aggregator
        )
    ).aggregator


def test_nested_objects_are_filtered_and_tables_published_by_digest() -> None:
    """Published settings keep the declared fields of an object in a field, and lists of numbers.

    A center is left out. A table of certified thresholds is published as its digest.
    """
    penalized = StableTopK(selection_scale=2.0, test_std=3.0, regularizer=lambda k: -k)
    assert published(penalized, fields={"regularizer": inner(secret="secret")}).regularizer == {
        "_target_": "Inner",
        "size": 3,
    }
    numbers = replace(penalized, regularizer=[0.0, -1.5])
    assert published(numbers, fields={"regularizer": [0.0, -1.5]}).regularizer == [0.0, -1.5]
    center = CenteredVotes(noise_multiplier=2.0, prevalence_share=0.0, center=np.array([0.1, 0.2]))
    assert "center" not in published(center, fields={"center": [0.1, 0.2]})
    aggregator = StableTopK(selection_scale=2.0, test="table", table_order=6.0, table_budget=0.2)
    table = CertifiedTable.from_test(aggregator.stability_test(num_teachers=30), order=6.0)
    component = published(
        StableTopK(selection_scale=2.0, test="table", table=table),
        fields={"table": "private_clinic_files"},
    )
    assert component.table_sha256 == table.digest and "table" not in component


FOLDERS = {
    "celeba": ["root", "cache"],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", members(group="data"))
def test_data_set_is_published_by_class_without_folder(composed: Any, name: str) -> None:
    """For each shipped reader, the published settings have its class, but no folder and no seed."""
    config = composed(
        arguments=[
            f"data={name}",
            *(f"data.{key}=private_clinic_files" for key in FOLDERS.get(name, [])),
        ]
    )
    text = public_settings(
        settings=OmegaConf.to_container(config, resolve=True),
        aggregator=GaussianVotes(noise_std=1.0),
    )
    assert "private_clinic_files" not in text
    assert OmegaConf.create(text).data["_target_"].startswith("pate.data.")
    assert "seed" not in text


@pytest.mark.slow
@pytest.mark.parametrize("name", members(group="aggregator"))
def test_published_aggregator_has_the_price_of_the_release(composed: Any, name: str) -> None:
    """Each calibrated aggregator is built again from its published settings, and has the same epsilon."""
    config = composed(
        arguments=[
            f"aggregator={name}",
            "teacher.num_teachers=300",
            "num_queries=50",
            "accountant=rdp",
        ]
    )
    aggregator = build_aggregator(config.aggregator, adjacency="add_remove")
    aggregator = aggregator.calibrated(
        target_epsilon=60.0 if name == "stable_top_k_boundary" else 8.0,
        target_delta=1e-6,
        num_queries=50,
        num_labels=8,
        num_teachers=300,
        accountant=RdpAccountant,
    )
    settings = OmegaConf.to_container(config, resolve=True) | {"adjacency": "add_remove"}
    read = OmegaConf.create(public_settings(settings, aggregator))
    again = build_aggregator(read.aggregator, adjacency=read.adjacency)
    accountant: Any = build(read.accountant, slot="accountant")
    assert read.teacher.num_teachers == 300
    event = again.event_for(num_queries=read.num_queries, num_labels=8, num_teachers=300)
    epsilon = accountant.compose(event).get_epsilon(read.target_delta)
    expected = (
        RdpAccountant()
        .compose(aggregator.event_for(num_queries=50, num_labels=8, num_teachers=300))
        .get_epsilon(target_delta=1e-6)
    )
    assert 0 < epsilon == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_solved_noise_is_published(case: Any) -> None:
    """The settings have -1 for each number of an aggregator.

    The published numbers are those of the aggregator that was used.
    """
    scaled = case.aggregator.scaled(noise_factor=2.0)
    component = published(scaled, fields=dict.fromkeys(vars(scaled), -1.0))
    numbers = {
        name: value for name, value in vars(scaled).items() if isinstance(value, (int, float))
    }
    assert numbers and {name: component[name] for name in numbers} == numbers


@pytest.mark.slow
def test_privacy_card_shows_only_published_fields(tmp_path: Path) -> None:
    """A run uses an aggregator with secret fields. Its privacy card and report show the public fields alone."""
    folder = tmp_path / "run"
    train(
        replace(small_plan(), aggregator=used(secret="mercy hospital"), target_epsilon=None),
        output_dir=folder,
    )
    card = (folder / "release" / "privacy_card.md").read_text()
    assert (
        "40.0" in card
        and "plain" in card
        and "mercy hospital" not in card
        and str(NUMBER) not in card
    )
    assert "note" not in json.loads((folder / "report.json").read_text())["privacy"].get(
        "parameters", {}
    )


def test_features_are_published_without_files() -> None:
    """Published features have their class and model, but no file of weights, cache or seed."""
    recipe = {"_target_": "pate.features.Backbone", "model": "resnet18"}
    features = recipe | {"weights": "/mnt/ward/w.pth", "cache": "ward", "seed": NUMBER}
    settings = {"aggregator": {"_target_": "pate.aggregators.GaussianVotes"}, "features": features}
    text = public_settings(settings, aggregator=GaussianVotes(noise_std=3.0))
    assert OmegaConf.create(text).features == recipe
    assert "ward" not in text and str(NUMBER) not in text


ROUTES = (
    "${oc.env:PATE_SECRET}",
    "x${oc.env:PATE_SECRET,none}",
    "${oc.decode:'${oc.env:PATE_SECRET}'}",
    "${${word}.env:PATE_SECRET}",
    "${output_dir}",  # which reads it
    "${oc.select:output_dir}",
)


def of_a_file(setting: str, value: Any) -> Any:
    """Returns a configuration in which one setting has this value, as a configuration file could set it."""
    config = OmegaConf.create(
        settings(secret="secret")
        | {"word": "oc", "output_dir": "${oc.env:PATE_SECRET}", "holder": "a"}
    )
    OmegaConf.update(config, setting, value, force_add=True)
    return config


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(
    "setting",
    [
        *(
            "data.name",
            "data.labels",
            "num_queries",
            "holder",
            "teacher.num_teachers",
            "student.rank",
        ),
        *(
            "aggregator.kind",
            "aggregator.weights",
            "aggregator.inner.size",
            "teacher.estimator.estimator.n_estimators",
        ),
    ],
)
def test_nothing_of_the_environment_is_published(
    setting: str, route: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A public setting is refused under its name if its value comes from an environment variable.

    The value may come directly, or through other settings.
    """
    monkeypatch.setenv("PATE_SECRET", "771942")
    for value, place in ((route, ""), ([route], r"\.0")):
        config = of_a_file(setting, value)
        plain: Any = OmegaConf.to_container(config, resolve=True)
        with pytest.raises(
            InvalidValue, match=rf"^{setting}{place}: expected the value itself, as it may be publ"
        ):
            own_settings(config, settings=plain)


@pytest.mark.parametrize("route", ROUTES)
def test_folder_from_the_environment_is_not_published(
    route: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader's settings that come from the environment are left out of the published text, without a refusal.

    This holds even for a field that a user's class declares public.
    """
    monkeypatch.setenv("PATE_SECRET", "771942")
    config = of_a_file(setting="data.image_size", value=route)
    OmegaConf.update(config, "data.folder", route)
    plain: Any = OmegaConf.to_container(config, resolve=True)
    text = public_settings(
        settings=own_settings(config, settings=plain), aggregator=used(secret="secret")
    )
    assert "771942" not in text
    assert "data" not in OmegaConf.create(text)
    assert str(plain["data"]["image_size"]).endswith("771942")


def test_values_from_the_configuration_itself_are_published() -> None:
    """A setting that refers to another setting is published with its value.

    Text that only looks like an interpolation is published as text.
    """
    config = of_a_file(setting="student.rank", value="${data.image_size}")
    OmegaConf.update(config, "output_dir", None)
    plain: Any = OmegaConf.to_container(config, resolve=True)
    assert own_settings(config, settings=plain) == plain
    assert (
        OmegaConf.create(
            public_settings(settings=plain, aggregator=used(secret="secret"))
        ).student.rank
        == 12
    )
    # a vote file of somebody else's is no configuration
    node = {"_target_": target(Plain), "path": "${oc.env:HOME}"}
    text = "_target_: pate.data.Table\nname: ${oc.env:HOME}\nfit: ${oc.env\n"
    made = release_settings(
        settings(secret="s") | {"data": node},
        aggregator=used(secret="s"),
        holders={"data": text},
        num_queries=3,
        num_teachers=4,
    )
    assert yaml.safe_load(made)["data"]["name"] == "${oc.env:HOME}"


def test_the_number_of_labeled_public_rows_is_published_with_the_data(
    composed: Callable[..., Any],
) -> None:
    """`data.public_labels` stands in `release/config.yaml` where it is set, and nothing where it is null."""
    for value in (None, 7, True):
        arguments = ["data=arrays"] + ([] if value is None else [f"data.public_labels={value}"])
        plain = plain_settings(composed(arguments=arguments), excluded_settings=())
        assert ("public_labels" in plain["data"]) == (value is not None)
        read = OmegaConf.create(
            public_settings(settings=plain, aggregator=GaussianVotes(noise_std=3.0))
        )
        assert read.data.get("public_labels") == value


def test_only_training_takes_labels_of_public_rows(composed: Callable[..., Any]) -> None:
    """The data of other commands are refused with the setting; in a run the reader is built without it."""
    config = composed(arguments=["data=wordnet", "data.public_labels=5"])
    with refused("data.public_labels", value=5, rule="pate-train"):
        part_maker(config)("data")
    assert isinstance(part_maker(config, takes_public_labels=True)("data"), WordNet40)
