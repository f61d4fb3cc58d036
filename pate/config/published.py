"""The settings in `release/config.yaml`, selected by an allow-list, so that nothing private is published by default.

Published are the settings that are marked as published in `pate.settings`, and the numbers of teachers and of public
labels. Of the data, the fields are published that its class declares public, and the class if it is one of pate. For
aggregator, accountant, features, teacher and student, the class and its `published_fields` are published. The recipe of
an aggregator and the digest of its table are published, too. Of the name of a class that is neither ours nor of
scikit-learn, only the last part is published.
"""

import inspect
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import is_dataclass
from typing import Any

import yaml
from omegaconf import DictConfig

from pate.aggregators import Aggregator
from pate.config.classes import TRUSTED_PREFIXES, find_class, is_within
from pate.config.read_elsewhere import keys_to_outside_values
from pate.config.schema import NUM_PUBLIC_LABELS_KEY
from pate.files.plain_yaml import read_yaml
from pate.files.published_fields import is_scalar, is_seed, published_fields
from pate.mechanisms import CertifiedTable
from pate.settings import settings_of
from pate.validation import InvalidValue
from pate.votes import Recipe

# The settings of a run that are the terms of its release.
_TERMS = tuple(
    dataclass_field.name
    for dataclass_field in settings_of("train")
    if dataclass_field.metadata["published"]
)
# The parts of a run, beside its aggregator and data, whose settings are published.
_PARTS = ("accountant", "features", "teacher", "student")
# The parts of a holder whose settings are published.
_PARTS_OF_HOLDERS = ("features", "teacher", "data")
# The order of settings in the file.
_ORDER = (*_TERMS, "aggregator", *_PARTS, "data")
# Classes in these modules are published by their whole names, all others by the last part of their names. Of data, only
# classes of pate are published.
_PUBLIC_PREFIXES = (*TRUSTED_PREFIXES, "pate_federated.")
# Settings of the data that a release may state in some file, whatever their class declares.
_PUBLISHED_DATA_KEYS = ("name", "labels", "_target_")
# Settings and groups that must not read values from outside the configuration, since they are published.
_CHECKED_KEYS = (*_TERMS, "aggregator", *_PARTS, "holder", "holders", "name")


def public_settings(
    settings: Mapping[str, Any], aggregator: Aggregator, **changed_settings: Any
) -> str:
    """Returns the settings of a run that may be published, as YAML, with the noise that the aggregator used.

    Args:
        settings: the settings of the run.
        aggregator: the aggregator after its noise was solved for.
        **changed_settings: settings of the run itself that it has changed, by their names, such as `num_queries`.
    """
    published_settings = _settings_of_run(
        settings={**settings, **changed_settings}, aggregator=aggregator
    )
    published_settings |= _settings_of_parts(settings, part_names=(*_PARTS, "data"))
    # These two are settings of the run that are written beside those of a part: its class has no such field.
    teacher = settings.get("teacher", {})
    if "num_teachers" in teacher:
        published_settings["teacher"]["num_teachers"] = teacher["num_teachers"]
    num_labeled = settings.get("data", {}).get(NUM_PUBLIC_LABELS_KEY)
    if num_labeled:
        published_settings.setdefault("data", {})[NUM_PUBLIC_LABELS_KEY] = num_labeled
    return _yaml_text(published_settings)


def holder_settings(settings: Mapping[str, Any]) -> dict[str, str]:
    """Returns those settings of a holder's teachers, features and data that may be published, as YAML by group."""
    return {
        part_name: _yaml_text(public_content=part_settings)
        for part_name, part_settings in _settings_of_parts(
            settings, part_names=_PARTS_OF_HOLDERS
        ).items()
    }


def release_settings(
    settings: Mapping[str, Any],
    aggregator: Aggregator,
    settings_of_holders: Mapping[str, str],
    *,
    num_queries: int,
    num_teachers: int,
    public_answers_digest: str = "",
) -> str:
    """Returns those settings of a release of holders' votes that may be published, as YAML. There is no student.

    Args:
        settings: the settings of the release.
        aggregator: the aggregator after its noise was solved for.
        settings_of_holders: the results of `holder_settings` by group, where they are the same for all holders.
        num_queries: the number of queries of the release.
        num_teachers: the number of teachers of all holders together.
        public_answers_digest: the SHA-256 of the public answers that votes are compared with; empty where there are
            none.
    """
    published_settings = _settings_of_run(
        settings={"max_epsilon": None, **settings, "num_queries": num_queries},
        aggregator=aggregator,
    )
    if public_answers_digest:
        published_settings["public_answers_sha256"] = public_answers_digest
    published_settings["accountant"] = _publishable_settings(settings["accountant"])
    # The holders' statements pass through the allow-list once more, since other people wrote them.
    for part_name, part_yaml in settings_of_holders.items():
        part_node = read_yaml(
            part_yaml, name=f"settings.{part_name}", rule="YAML as pate-vote writes it"
        )
        if (
            part_name not in _PARTS_OF_HOLDERS
            or not isinstance(part_node, dict)
            or "_target_" not in part_node
        ):
            continue
        is_data = part_name == "data"
        class_path = str(part_node["_target_"])
        if is_within(class_path, module_prefixes=_PUBLIC_PREFIXES):
            part_settings = _publishable_settings(part_node, is_data=is_data)
        else:
            part_settings = {} if is_data else {"_target_": _class_name(class_path)}
        if part_settings:
            published_settings[part_name] = part_settings
    if "teacher" in published_settings:
        published_settings["teacher"]["num_teachers"] = num_teachers
    return _yaml_text(published_settings)


def with_student(release_yaml_text: str, student_settings: Mapping[str, Any]) -> str:
    """Returns the YAML of `release_settings` with the settings of the student that was trained on the release.

    Args:
        release_yaml_text: the YAML.
        student_settings: the settings of the student.
    """
    published_settings = read_yaml(
        release_yaml_text, name="config.yaml", rule="YAML as pate-release writes it"
    )
    if not isinstance(published_settings, dict):
        raise InvalidValue("config.yaml", rule="settings as pate-release writes them")
    return _yaml_text(published_settings | {"student": _publishable_settings(student_settings)})


def without_outside_values(config: DictConfig, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings of a run without those fields of the data that are read from outside the configuration.

    Raises `InvalidValue` if another value that may be published is read from outside. A resolver such as
    `${oc.env:NAME}` reads a value from the environment. Such a value must not be published, because a file of settings
    from somebody else could use it to leak secrets.

    Args:
        config: the composed configuration, with its interpolations.
        settings: the same settings as plain values.

    Raises:
        InvalidValue: a term of the release, a part of the run other than the data (but for its `cache`), a setting of
            holders, or the name, labels or class of the data is read from outside.
    """
    publishable = dict(settings)
    for keys_to_value in keys_to_outside_values(config):
        group = str(keys_to_value[0])
        setting_name = str(keys_to_value[1]) if len(keys_to_value) > 1 else ""
        is_checked = group in _CHECKED_KEYS and setting_name != "cache"
        is_published_of_data = group == "data" and setting_name in ("", *_PUBLISHED_DATA_KEYS)
        if is_checked or is_published_of_data:
            rule = "the value itself, as it may be published, and not ${oc.env:…} or another that is read elsewhere"
            raise InvalidValue(".".join(map(str, keys_to_value)), rule=rule)
        if group == "data" and group in publishable:
            publishable["data"] = {
                field_name: value
                for field_name, value in publishable["data"].items()
                if field_name != setting_name
            }
    return publishable


def _settings_of_run(settings: Mapping[str, Any], aggregator: Aggregator) -> dict[str, Any]:
    """Returns the published settings of the run, such as epsilon and delta, and those of its aggregator.

    The aggregator's settings have the noise that it used.
    """
    used_values = {
        field_name: field_value
        for field_name, field_value in vars(aggregator).items()
        if is_scalar(field_value) or isinstance(field_value, str)
    }
    aggregator_settings = _publishable_settings({**settings["aggregator"], **used_values})
    certified_table = getattr(aggregator, "table", None)
    if isinstance(certified_table, CertifiedTable):
        aggregator_settings["table_sha256"] = certified_table.digest
    vote_recipe = getattr(aggregator, "recipe", None)
    if isinstance(vote_recipe, Recipe) and vote_recipe.changes():
        aggregator_settings["recipe"] = vote_recipe.changes()
    return {field_name: settings[field_name] for field_name in _TERMS if field_name in settings} | {
        "aggregator": aggregator_settings
    }


def _settings_of_parts(settings: Mapping[str, Any], part_names: tuple[str, ...]) -> dict[str, Any]:
    """Returns the publishable settings of the named parts of a run, by part; parts that have none are left out."""
    settings_by_part = {
        part_name: _publishable_settings(part_node=settings[part_name], is_data=part_name == "data")
        for part_name in part_names
        if part_name in settings
    }
    return {
        part_name: part_settings
        for part_name, part_settings in settings_by_part.items()
        if part_settings
    }


def _yaml_text(public_content: Mapping[str, Any]) -> str:
    """Returns settings as YAML: terms of the release, aggregator, other parts, data, and then all other settings."""
    ordered_names = [setting_name for setting_name in _ORDER if setting_name in public_content]
    ordered_names += [setting_name for setting_name in public_content if setting_name not in _ORDER]
    yaml_text: str = yaml.safe_dump(
        {setting_name: public_content[setting_name] for setting_name in ordered_names},
        sort_keys=False,
        allow_unicode=True,
    )
    return yaml_text


def _publishable_settings(part_node: Mapping[str, Any], *, is_data: bool = False) -> dict[str, Any]:
    """Returns the publishable settings of a part of a run, or of an object within a part.

    These are the class, and the fields of `published_fields` that YAML can represent. For data, the class is published
    only if it is one of pate, and only fields that are declared public are published. Of a class of ours or of
    scikit-learn that is no dataclass, such as an estimator, the numbers, truth values, nulls and objects among its
    arguments are published, but no seed.

    Args:
        part_node: the configuration of the part, with `_target_`.
        is_data: whether the part is the data.
    """
    class_path = str(part_node["_target_"])
    is_ours = is_within(class_path, module_prefixes=("pate.",) if is_data else _PUBLIC_PREFIXES)
    cls = find_class(class_path)
    value_by_field = (
        {} if cls is None else published_fields(cls, values=part_node, declared_only=is_data)
    )
    # A class that declares no fields, such as an estimator, has no `published_fields`.
    if cls is not None and is_ours and not is_data and not is_dataclass(cls):
        parameter_names = {
            field_name
            for field_name in inspect.signature(cls).parameters
            if not is_seed(field_name)
        }
        value_by_field = {
            field_name: field_value
            for field_name, field_value in part_node.items()
            if field_name in parameter_names and not isinstance(field_value, (str, list))
        }
    published_part: dict[str, object] = {}
    if is_ours or not is_data:
        published_part["_target_"] = _class_name(class_path)
    for field_name, field_value in value_by_field.items():
        # A value that YAML cannot represent is left out.
        with suppress(TypeError):
            published_part[field_name] = _public_value(field_value)
    return published_part


def _class_name(class_path: str) -> str:
    """Returns the name under which a class is published, given its dotted path.

    A class of pate, pate_federated or sklearn keeps the whole path. Of any other class, only the part behind the last
    dot is published, without its modules.
    """
    return (
        class_path
        if is_within(class_path, module_prefixes=_PUBLIC_PREFIXES)
        else class_path.rpartition(".")[2]
    )


def _public_value(field_value: Any) -> Any:
    """Returns the value of a public field in a form that YAML can represent; raises `TypeError` if there is none."""
    if isinstance(field_value, (list, tuple)):
        return [_public_value(inner_value) for inner_value in field_value]
    if isinstance(field_value, Mapping) and "_target_" in field_value:
        return _publishable_settings(field_value)
    if not (is_scalar(field_value) or isinstance(field_value, str)):
        raise TypeError("nothing that is published")
    return float(field_value) if isinstance(field_value, float) else field_value
