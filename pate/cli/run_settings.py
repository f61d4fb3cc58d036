"""The settings, heading, folder and data of a run, for the commands that run something."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from omegaconf import DictConfig

from pate.config.command_line import given_settings
from pate.config.plain import plain_values
from pate.config.schema import NUM_PUBLIC_LABELS_KEY, shipped_folders
from pate.data import Dataset
from pate.data.dataset import load_dataset
from pate.features import Features, NoFeatures, Text
from pate.features.featured_data import FeaturedData
from pate.files.digests import digest
from pate.pricing.budgets import MuBudget
from pate.progress import Monitor
from pate.report.report import Heading

Settings = TypeVar("Settings")
# The configuration groups and the settings that the heading of a run shows.
_GROUPS = ("data", "aggregator", "accountant", "teacher", "student")
_TERMS = ("target_epsilon", "max_epsilon", "target_delta", "num_queries", "adjacency", "seed")


def plain_settings(config: DictConfig, *, excluded_settings: Collection[str]) -> dict[str, Any]:
    """Returns a configuration as plain values, such that equal runs have equal values.

    `features=none` is left out, cache folders become null, and so does `target_epsilon` beside `noise=given`. With
    `target_mu` the target is the epsilon of a Gaussian release with that mu. `target_mu`, `score_epsilon`,
    `score_groups`, `public_answers` and `data.public_labels` are left out where they are null.

    Args:
        config: the composed configuration.
        excluded_settings: the names of settings that are left out.
    """
    plain_run_config = plain_values(config, resolve=True)
    if plain_run_config.get("noise") == "given":
        plain_run_config["target_epsilon"] = None
    for name in ("target_mu", "score_epsilon", "score_groups", "public_answers"):
        if plain_run_config.get(name) is None:
            plain_run_config.pop(name, None)
    if "target_mu" in plain_run_config:
        budget = MuBudget.from_mu(
            plain_run_config["target_mu"], delta=plain_run_config["target_delta"]
        )
        plain_run_config["target_epsilon"] = budget.epsilon
    settings = {
        str(key): value for key, value in plain_run_config.items() if key not in excluded_settings
    }
    for part_name in ("data", "features"):
        part_settings = settings.get(part_name)
        if isinstance(part_settings, dict) and "cache" in part_settings:
            part_settings["cache"] = None
        if isinstance(part_settings, dict) and part_settings.get(NUM_PUBLIC_LABELS_KEY) is None:
            part_settings.pop(NUM_PUBLIC_LABELS_KEY, None)
    if str(settings.get("features", {}).get("_target_")).rpartition(".")[2] == NoFeatures.__name__:
        del settings["features"]
    return settings


def settings_from(config: DictConfig, *, settings_class: type[Settings]) -> Settings:
    """Returns an instance of a class of settings with the values of a composed configuration.

    Lists and mappings become plain values.

    Args:
        config: the composed configuration.
        settings_class: the class of settings, such as `TrainSettings`.
    """
    plain_config = plain_values(config, resolve=True)
    # mypy does not know that all classes of settings are dataclasses
    setting_names = [dataclass_field.name for dataclass_field in fields(settings_class)]  # type: ignore[arg-type]
    # The names of settings are listed in `pate/settings.py` alone.
    return settings_class(**{name: plain_config[name] for name in setting_names})


def run_heading(
    settings: Mapping[str, Any],
    *,
    overrides: Iterable[str],
    chosen_member_of_group: Mapping[str, Any],
    changeable_names: Collection[str],
) -> Heading:
    """Returns the heading of a run, with the settings and choices that it shows.

    Args:
        settings: the settings of the run, as plain values.
        overrides: the settings on the command line, each as NAME=VALUE.
        chosen_member_of_group: the chosen member of each configuration group.
        changeable_names: the names of settings and groups that do not affect the release.
    """
    overridden_settings = given_settings(arguments=overrides)
    # For each group the name of its YAML file; the name of its class if the command line names a class, or no file.
    member_of_group: dict[str, str] = {}
    for group in _GROUPS:
        if group not in settings:
            continue
        file_name = (
            None
            if f"{group}._target_" in overridden_settings
            else chosen_member_of_group.get(group)
        )
        member_of_group[group] = str(
            file_name or str(settings[group]["_target_"]).rpartition(".")[2]
        )
    release_overrides = {
        name: value
        for name, value in overridden_settings.items()
        if name.partition(".")[0] not in changeable_names
    }
    shown_settings = {name: settings[name] for name in _TERMS if name in settings}
    shown_settings["num_teachers"] = settings.get("teacher", {}).get("num_teachers")
    compared_settings = member_of_group | shown_settings
    for name, value in release_overrides.items():
        compared_settings.setdefault(name, value)
    aggregator_file = Path("aggregator", f"{member_of_group['aggregator']}.yaml")
    return Heading(
        aggregator_name=member_of_group["aggregator"],
        is_public=any((folder / aggregator_file).is_file() for folder in shipped_folders()),
        given=release_overrides,
        compared=compared_settings,
    )


def default_folder(*name_parts: str, settings: Mapping[str, Any]) -> str:
    """Returns the usual folder of a command, such as "outputs/wordnet-centered_votes-f9d86028".

    The folder's name joins the given names and 8 hexadecimal digits by hyphens. The digits come from a digest of the
    settings. In a name, all characters but letters, digits, "_" and "-" become "_". The same command finds the same
    folder, so that it continues its run.

    Args:
        name_parts: the names, any number of them, such as those of the data and the aggregator.
        settings: the settings, as plain values for JSON.
    """
    clean_name_parts = [re.sub(r"[^\w-]", "_", name) for name in name_parts]
    return "outputs/" + "-".join([*clean_name_parts, digest(settings)[:8]])


def make_dataset_loader(
    data_reader: Any,
    *,
    monitor: Monitor,
    feature_recipe: Features | None = None,
    output_dir: Path | None = None,
    check_dataset: Callable[[Dataset], object] | None = None,
) -> Callable[[], Dataset]:
    """Returns a function that reads the data set, anew at each call; no record is kept in memory.

    The inputs of the data set are replaced by features where there is a recipe of features and a folder.

    Args:
        data_reader: the reader.
        monitor: shows the stages.
        feature_recipe: the recipe; None, `NoFeatures` and `Kernel`, whose kernel the teachers compute, leave inputs
            unchanged. But for data with texts, `Text` takes the place of the latter two.
        output_dir: the folder of the run, beside which features are cached.
        check_dataset: is called before features of images are fitted, with a data set that has two features of 0 in
            place of each image; see `FeaturedData.check`. None checks nothing.

    Raises:
        InvalidValue: a setting of the reader is missing. This is checked first, because other parts take long to load.
    """
    if hasattr(data_reader, "require_settings"):  # most readers have nothing to check
        data_reader.require_settings()
    if isinstance(feature_recipe, NoFeatures) and getattr(data_reader, "text", None):
        feature_recipe = Text()
    if (
        feature_recipe is not None
        and output_dir is not None
        and not isinstance(feature_recipe, NoFeatures)
    ):
        # The cache lies beside the folders of runs, which share it.
        cache_folder = Path(feature_recipe.cache or output_dir.parent / "pate_cache")
        if isinstance(feature_recipe, Text):
            data_reader = feature_recipe.reader(data_reader=data_reader, cache_folder=cache_folder)
        else:
            data_reader = FeaturedData(
                data_reader, features=feature_recipe, cache=cache_folder, check=check_dataset
            )
    # The stage is passed by position: the loader then takes none, where another reader calls it as its own `load`.
    return partial(load_dataset, data_reader, monitor.stage)
