"""`release/config.yaml` has only what may be published; everything else is left out, whatever it looks like.

Of a part's fields, texts and lists may be published if they are marked public, and numbers unless they are marked
private or are seeds. Of the data, only fields that are marked public may be.
"""

import json
import operator
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
from pate.cli.run_settings import plain_settings
from pate.config import build, build_aggregator
from pate.config.build import part_maker
from pate.config.published import public_settings, release_settings, without_outside_values
from pate.config.schema import names_in_config_group
from pate.data import WordNet40
from pate.mechanisms import CertifiedTable
from pate.models import SklearnTeacher
from pate.run.train import train
from pate.validation import InvalidValue
from tests.contract.aggregator_cases import CASES
from tests.e2e.small_run import small_plan, without_pictures
from tests.refusals import refused_parameter

# A number that must not be published.
NUMBER = 771_942
# The terms of the release, which are published.
TERMS = {
    "adjacency": "replace_one",
    "target_delta": 1e-6,
    "target_epsilon": 8.0,
    "max_epsilon": None,
    "num_queries": 9,
}
# Texts that must not be published: files, folders and names.
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
    """A user's aggregator with public, private and undeclared fields."""

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
    """A user's reader, of which only `image_size` is declared public."""

    folder: str = "f"
    file: str = "f"
    ward: int = 0
    share: float = 0.5
    image_size: int = field(default=8, metadata={"public": True})
    parts: Any = None


@dataclass(frozen=True)
class Inner:
    """A user's class within another one, whose fields are marked neither public nor private."""

    size: int = 1
    path: str = ""


class Plain:
    """A user's class that declares no field public."""

    def __init__(self, ward: int = 0, path: str = "") -> None:
        self.ward = ward
        self.path = path


def target_of_class(cls: type) -> str:
    """Returns the `_target_` of a class, as a configuration names it."""
    return f"{cls.__module__}.{cls.__qualname__}"


def config_of_inner(secret_text: str) -> dict[str, Any]:
    """Returns the configuration of an `Inner` with a secret path and with keys that are no fields."""
    return {
        "_target_": target_of_class(Inner),
        "size": 3,
        "path": secret_text,
        "extra": secret_text,
        "number": NUMBER,
    }


def settings_with(secret_text: str) -> dict[str, Any]:
    """Returns settings with the secret text and the private number in places that may not be published."""
    forest = {
        "_target_": "sklearn.ensemble.RandomForestClassifier",
        "n_estimators": 20,
        "random_state": NUMBER,
        "criterion": secret_text,
        "class_weight": {secret_text: NUMBER},
        "max_features": [secret_text, NUMBER],
        secret_text: 1,
    }
    chain = {
        "_target_": "sklearn.multioutput.ClassifierChain",
        "estimator": forest,
        "order": [secret_text],
        "verbose": True,
    }
    votes = {
        "_target_": target_of_class(MyVotes),
        "noise_std": -1.0,
        "weights": [1.0, 2.0],
        "inner": config_of_inner(secret_text=secret_text),
        "patients": NUMBER,
        "noise_seed": NUMBER,
        "undeclared": NUMBER,
        "note": secret_text,
        "names": [secret_text],
        "deeper": {"deeper": [secret_text, {secret_text: NUMBER}]},
    }
    return TERMS | {
        "seed": NUMBER,
        "allowed_targets": [secret_text],
        "aggregator": votes,
        "accountant": {"_target_": target_of_class(Plain), "ward": NUMBER, "path": secret_text},
        "teacher": {
            "_target_": target_of_class(SklearnTeacher),
            "estimator": chain,
            "threshold": 0.5,
            "num_teachers": 40,
        },
        "student": {
            "_target_": "pate.student.LinearStudent",
            "rank": 4,
            "penalties": [0.1, 1.0],
            "weights": secret_text,
        },
        "engine": {
            "_target_": "pate.teachers.RayEngine",
            "address": secret_text,
            "chunk_size": NUMBER,
        },
        "data": {
            "_target_": target_of_class(MyData),
            "folder": secret_text,
            "file": secret_text,
            "ward": NUMBER,
            "share": 0.771942,
            "image_size": 12,
            "parts": [
                {"path": secret_text, "count": NUMBER},
                config_of_inner(secret_text=secret_text),
            ],
        },
    }


def aggregator_with(secret_text: str) -> MyVotes:
    """Returns the aggregator of `settings_with`, with solved noise."""
    return MyVotes(
        noise_std=40.0,
        note=secret_text,
        patients=NUMBER,
        noise_seed=NUMBER,
        names=(secret_text,),
        inner=Inner(path=secret_text),
    )


@pytest.mark.parametrize("secret_text", SECRETS)
def test_secret_is_not_published_from_any_depth(secret_text: str) -> None:
    """Neither a secret nor a private number is published from a place in `settings_with`, at any depth."""
    text = public_settings(
        settings=settings_with(secret_text=secret_text),
        aggregator=aggregator_with(secret_text=secret_text),
    )
    module_of_users_classes = __name__
    for word in (secret_text, "771942", "771_942", module_of_users_classes, "MyData"):
        assert word not in text


def test_published_settings_are_exactly_the_expected_ones() -> None:
    """The published settings have exactly the expected entries, so that a new one is noticed."""
    votes = {
        "_target_": "MyVotes",
        "noise_std": 40.0,
        "teachers_reached": 1,
        "quorum": 0.5,
        "kind": "plain",
    }
    assert OmegaConf.to_container(
        OmegaConf.create(
            public_settings(
                settings=settings_with(secret_text="secret"),
                aggregator=aggregator_with(secret_text="secret"),
            )
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
    """Returns what is published of an aggregator whose configuration has these fields."""
    node = {"_target_": target_of_class(type(aggregator)), **fields}
    return OmegaConf.create(
        public_settings(
            settings=settings_with(secret_text="secret") | {"aggregator": node},
            aggregator=aggregator,
        )
    ).aggregator


def test_nested_objects_are_filtered_and_tables_published_by_digest() -> None:
    """Of an object in a field, the class and the numbers in declared fields are published; so are lists of numbers.

    A center is left out, and a certified table is published as its digest.
    """
    aggregator_with_function = StableTopK(
        selection_scale=2.0, test_std=3.0, regularizer=operator.neg
    )
    component = published(
        aggregator_with_function, fields={"regularizer": config_of_inner(secret_text="secret")}
    )
    assert component.regularizer == {"_target_": "Inner", "size": 3}
    aggregator_with_numbers = replace(aggregator_with_function, regularizer=[0.0, -1.5])
    component = published(aggregator_with_numbers, fields={"regularizer": [0.0, -1.5]})
    assert component.regularizer == [0.0, -1.5]
    aggregator_with_center = CenteredVotes(
        noise_multiplier=2.0, prevalence_share=0.0, center=np.array([0.1, 0.2])
    )
    assert "center" not in published(aggregator_with_center, fields={"center": [0.1, 0.2]})
    aggregator = StableTopK(selection_scale=2.0, test="table", table_order=6.0, table_budget=0.2)
    table = CertifiedTable.from_test(aggregator.stability_test(num_teachers=30), order=6.0)
    aggregator_with_table = StableTopK(selection_scale=2.0, test="table", table=table)
    component = published(aggregator_with_table, fields={"table": "private_clinic_files"})
    assert component.table_sha256 == table.digest
    assert "table" not in component


# The settings of a reader that name its folders, by reader; `root` has no default.
FOLDERS = {
    "celeba": ["root", "cache"],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", names_in_config_group(group="data"))
def test_data_set_is_published_by_class_without_folder(composed: Any, name: str) -> None:
    """Of each shipped reader the class is published, but neither folder nor seed."""
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
@pytest.mark.parametrize("name", names_in_config_group(group="aggregator"))
def test_published_aggregator_has_the_price_of_the_release(composed: Any, name: str) -> None:
    """Each shipped aggregator, built again from its published settings, has the same epsilon."""
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
    public = OmegaConf.create(public_settings(settings=settings, aggregator=aggregator))
    rebuilt_aggregator = build_aggregator(public.aggregator, adjacency=public.adjacency)
    accountant: Any = build(public.accountant, slot="accountant")
    assert public.teacher.num_teachers == 300
    event = rebuilt_aggregator.event_for(
        num_queries=public.num_queries, num_labels=8, num_teachers=300
    )
    epsilon = accountant.compose(event).get_epsilon(public.target_delta)
    expected = (
        RdpAccountant()
        .compose(aggregator.event_for(num_queries=50, num_labels=8, num_teachers=300))
        .get_epsilon(target_delta=1e-6)
    )
    assert 0 < epsilon == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_solved_noise_is_published(case: Any) -> None:
    """The published numbers are those of the aggregator that was used, and not those of the configuration."""
    scaled_aggregator = case.aggregator.scaled(noise_factor=2.0)
    component = published(scaled_aggregator, fields=dict.fromkeys(vars(scaled_aggregator), -1.0))
    used_numbers = {
        name: value
        for name, value in vars(scaled_aggregator).items()
        if isinstance(value, (int, float))
    }
    assert used_numbers
    assert {name: component[name] for name in used_numbers} == used_numbers


@pytest.mark.slow
def test_privacy_card_shows_only_published_fields(tmp_path: Path) -> None:
    """The privacy card of a run shows public fields of its aggregator, and no secret ones."""
    folder = tmp_path / "run"
    aggregator = aggregator_with(secret_text="mercy hospital")
    with without_pictures():
        train(replace(small_plan(), aggregator=aggregator, target_epsilon=None), output_dir=folder)
    card = (folder / "release" / "privacy_card.md").read_text()
    assert "40.0" in card
    assert "plain" in card
    assert "mercy hospital" not in card
    assert str(NUMBER) not in card
    report = json.loads((folder / "report.json").read_text())
    assert "note" not in report["privacy"].get("parameters", {})


def test_features_are_published_without_files() -> None:
    """Of features, class and model are published, but no file of weights, cache or seed."""
    recipe = {"_target_": "pate.features.Backbone", "model": "resnet18"}
    features = recipe | {"weights": "/mnt/ward/w.pth", "cache": "ward", "seed": NUMBER}
    settings = {"aggregator": {"_target_": "pate.aggregators.GaussianVotes"}, "features": features}
    text = public_settings(settings=settings, aggregator=GaussianVotes(noise_std=3.0))
    assert OmegaConf.create(text).features == recipe
    assert "ward" not in text and str(NUMBER) not in text


# Texts that Hydra resolves to the value of an environment variable, directly or by the setting `output_dir`.
OUTSIDE_TEXTS = (
    "${oc.env:PATE_SECRET}",
    "x${oc.env:PATE_SECRET,none}",
    "${oc.decode:'${oc.env:PATE_SECRET}'}",
    "${${word}.env:PATE_SECRET}",
    "${output_dir}",
    "${oc.select:output_dir}",
)


def config_with(setting: str, value: Any) -> Any:
    """Returns a configuration in which one setting has this value, as a file could set it."""
    config = OmegaConf.create(
        settings_with(secret_text="secret")
        | {"word": "oc", "output_dir": "${oc.env:PATE_SECRET}", "holder": "a"}
    )
    OmegaConf.update(config, setting, value, force_add=True)
    return config


@pytest.mark.parametrize("outside_text", OUTSIDE_TEXTS)
@pytest.mark.parametrize(
    "setting",
    [
        "data.name",
        "data.labels",
        "num_queries",
        "holder",
        "teacher.num_teachers",
        "student.rank",
        "aggregator.kind",
        "aggregator.weights",
        "aggregator.inner.size",
        "teacher.estimator.estimator.n_estimators",
    ],
)
def test_nothing_of_the_environment_is_published(
    setting: str, outside_text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A public setting whose value comes from an environment variable is refused and named.

    The value may come directly or through other settings.
    """
    monkeypatch.setenv("PATE_SECRET", "771942")
    for value, index in ((outside_text, ""), ([outside_text], r"\.0")):
        config = config_with(setting, value=value)
        resolved_settings: Any = OmegaConf.to_container(config, resolve=True)
        with pytest.raises(
            InvalidValue, match=rf"^{setting}{index}: expected the value itself, as it may be publ"
        ):
            without_outside_values(config, settings=resolved_settings)


@pytest.mark.parametrize("outside_text", OUTSIDE_TEXTS)
def test_folder_from_the_environment_is_not_published(
    outside_text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Settings of a reader that come from the environment are left out of the published text, and not refused.

    That holds even for a field that a user's class declares public.
    """
    monkeypatch.setenv("PATE_SECRET", "771942")
    config = config_with(setting="data.image_size", value=outside_text)
    OmegaConf.update(config, "data.folder", outside_text)
    resolved_settings: Any = OmegaConf.to_container(config, resolve=True)
    text = public_settings(
        settings=without_outside_values(config, settings=resolved_settings),
        aggregator=aggregator_with(secret_text="secret"),
    )
    assert "771942" not in text
    assert "data" not in OmegaConf.create(text)
    assert str(resolved_settings["data"]["image_size"]).endswith("771942")


def test_values_from_the_configuration_itself_are_published() -> None:
    """A setting that refers to another setting is published with its value.

    Text that only looks like an interpolation is published as it is.
    """
    config = config_with(setting="student.rank", value="${data.image_size}")
    OmegaConf.update(config, "output_dir", None)
    resolved_settings: Any = OmegaConf.to_container(config, resolve=True)
    assert without_outside_values(config, settings=resolved_settings) == resolved_settings
    public_text = public_settings(
        settings=resolved_settings, aggregator=aggregator_with(secret_text="secret")
    )
    assert OmegaConf.create(public_text).student.rank == 12
    # The statement in a holder's vote file is no configuration.
    node = {"_target_": target_of_class(Plain), "path": "${oc.env:HOME}"}
    holder_statement = "_target_: pate.data.Table\nname: ${oc.env:HOME}\nfit: ${oc.env\n"
    public_text = release_settings(
        settings_with(secret_text="s") | {"data": node},
        aggregator=aggregator_with(secret_text="s"),
        settings_of_holders={"data": holder_statement},
        num_queries=3,
        num_teachers=4,
    )
    assert yaml.safe_load(public_text)["data"]["name"] == "${oc.env:HOME}"


@pytest.mark.slow
def test_the_number_of_labeled_public_rows_is_published_with_the_data(
    composed: Callable[..., Any],
) -> None:
    """`data.public_labels` is published if it is set, and left out if it is null."""
    for value in (None, 7, True):
        arguments = ["data=arrays"] + ([] if value is None else [f"data.public_labels={value}"])
        resolved_settings = plain_settings(composed(arguments=arguments), excluded_settings=())
        assert ("public_labels" in resolved_settings["data"]) == (value is not None)
        public = OmegaConf.create(
            public_settings(settings=resolved_settings, aggregator=GaussianVotes(noise_std=3.0))
        )
        assert public.data.get("public_labels") == value


@pytest.mark.slow
def test_only_training_takes_labels_of_public_rows(composed: Callable[..., Any]) -> None:
    """Only pate-train accepts `data.public_labels`, and builds its reader without it; other commands refuse it."""
    config = composed(arguments=["data=wordnet", "data.public_labels=5"])
    make_part = part_maker(config)
    with refused_parameter("data.public_labels", value=5, rule_words="pate-train"):
        make_part("data")
    make_part_of_run = part_maker(config, takes_public_labels=True)
    assert isinstance(make_part_of_run("data"), WordNet40)
