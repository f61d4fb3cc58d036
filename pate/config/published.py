"""`release/config.yaml`: an allow-list of settings, so that nothing of the owner's leaves because nobody forbade it.

Published are the terms of the release; of aggregator, accountant, teacher and student the class and what
`published_fields` lets out of their fields; of the data what our own classes declare public. Of a class that is not
ours its last name stands for it, and its module does not. Of the engine, seeds and folders there is nothing.
"""

import inspect
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import is_dataclass
from typing import Any

import yaml
from omegaconf import DictConfig, OmegaConf
from omegaconf.basecontainer import BaseContainer
from omegaconf.errors import OmegaConfBaseException

from pate.aggregators import Aggregator
from pate.config.build import TRUSTED_PREFIXES, is_within, located
from pate.files.plain_yaml import read_yaml
from pate.files.values import is_scalar, is_seed, published_fields
from pate.mechanisms import CertifiedTable
from pate.validation import InvalidValue

_TERMS = ("adjacency", "target_delta", "target_epsilon", "max_epsilon", "num_queries")
_PARTS = ("accountant", "features", "teacher", "student")
_ORDER = (*_TERMS, "aggregator", *_PARTS, "data")
_NAMED = ("name", "labels", "_target_")  # of the data, in the bundle whatever their class declares
_TOLD = (*_TERMS, "aggregator", *_PARTS, "holder", "holders", "name")
_UNPUBLISHED = ("cache",)  # folders
_PURE = ("oc.create", "oc.decode", "oc.deprecated", "oc.dict.keys", "oc.dict.values", "oc.select")


def public_settings(settings: Mapping[str, Any], aggregator: Aggregator, **changed: Any) -> str:
    """The settings of a run that may be published, some of them changed, as YAML with the noise that was used."""
    parts = _parts(settings, _PARTS)
    if "num_teachers" in (teacher := settings.get("teacher", {})):
        parts["teacher"]["num_teachers"] = teacher["num_teachers"]
    return _text(_terms({**settings, **changed}, aggregator) | parts)


def holder_settings(settings: Mapping[str, Any]) -> dict[str, str]:
    """What a holder may publish of how its votes were made: teachers, features and data, as YAML by group."""
    return {part: _text(content) for part, content in _parts(settings, ("features", "teacher")).items()}


def _parts(settings: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """What may be published of some parts, and of the data."""
    parts = {part: _component(settings[part]) for part in names if part in settings}
    data = _data(settings["data"]) if "data" in settings else {}
    return parts | ({"data": data} if data else {})


def release_settings(
    settings: Mapping[str, Any],
    aggregator: Aggregator,
    holders: Mapping[str, str],
    *,
    num_queries: int,
    num_teachers: int,
) -> str:
    """`public_settings` of a release of holders' votes, with `holder_settings` of them all; without a student."""
    public = _terms({"max_epsilon": None, **settings, "num_queries": num_queries}, aggregator)
    public["accountant"] = _component(settings["accountant"])
    public |= {part: node for part, text in holders.items() if (node := _of_holder(part, text))}
    if "teacher" in public:
        public["teacher"]["num_teachers"] = num_teachers
    return _text(public)


def with_student(text: str, student: Mapping[str, Any]) -> str:
    """The settings of a release, as `release_settings` gives them, with those of the student that was trained on it."""
    public = read_yaml(text, "config.yaml", "YAML as pate-release writes it")
    if not isinstance(public, dict):
        raise InvalidValue("config.yaml: expected settings as pate-release writes them")
    return _text(public | {"student": _component(student)})


def told_settings(config: DictConfig, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a run that its configuration itself says.

    A value that a resolver reads elsewhere, `${oc.env:NAME}` above all, is nobody's to publish: a file of settings that
    somebody else wrote would carry it out of the house. Fields of the data that come so, such as its folder, are left
    out; a class of somebody else's may declare them public. Raises `InvalidValue` for such a value in the release's
    terms, in a part of the run, or in a name.
    """
    told = dict(settings)
    for path in _read_elsewhere(config):
        group, key = str(path[0]), str(path[1]) if len(path) > 1 else ""
        if (group in _TOLD and key not in _UNPUBLISHED) or (group == "data" and key in ("", *_NAMED)):
            rule = "the value itself, as it may be published, and not ${oc.env:…} or another that is read elsewhere"
            raise InvalidValue(f"{'.'.join(map(str, path))}: expected {rule}")
        if group == "data" and group in told:
            told["data"] = {name: value for name, value in told["data"].items() if name != key}
    return told


def _read_elsewhere(config: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of values that are not in the configuration: without the environment and the like there are none."""
    keys: Any = config if isinstance(config, DictConfig) else range(len(config))
    for key in keys:
        if OmegaConf.is_missing(config, key):
            continue
        if OmegaConf.is_interpolation(config, key) and not _is_pure(config, key):
            yield (*path, key)
        elif OmegaConf.is_config(config[key]):
            yield from _read_elsewhere(config[key], (*path, key))


def _is_pure(config: Any, key: Any) -> bool:
    """Whether an interpolation reads nothing but the configuration, however it names its resolvers."""
    known = BaseContainer._resolvers
    BaseContainer._resolvers = {name: each for name, each in known.items() if name in _PURE}
    try:
        value = config[key]
        if OmegaConf.is_config(value):
            OmegaConf.to_container(value, resolve=True)
    except OmegaConfBaseException:
        return False
    finally:
        BaseContainer._resolvers = known
    return True


def _terms(settings: Mapping[str, Any], aggregator: Aggregator) -> dict[str, Any]:
    """The terms of the release, and the aggregator with the noise that was used."""
    used = {name: value for name, value in vars(aggregator).items() if is_scalar(value) or isinstance(value, str)}
    public = _component({**settings["aggregator"], **used})
    if isinstance(table := getattr(aggregator, "table", None), CertifiedTable):
        public["table_sha256"] = table.digest
    return {name: settings[name] for name in _TERMS if name in settings} | {"aggregator": public}


def _of_holder(part: str, text: str) -> dict[str, Any]:
    """A part as holders sent it: once more through the allow-list, as it goes into a file that is published."""
    node = read_yaml(text, f"settings.{part}", "YAML as pate-vote writes it")
    if part not in ("features", "teacher", "data") or not isinstance(node, dict) or "_target_" not in node:
        return {}
    if not is_within(str(node["_target_"]), TRUSTED_PREFIXES):
        return {} if part == "data" else {"_target_": str(node["_target_"]).rpartition(".")[2]}
    return _data(node) if part == "data" else _component(node)


def _text(public: Mapping[str, Any]) -> str:
    """As YAML, in one order; what has no place in it comes last."""
    known = sorted(public, key=lambda name: _ORDER.index(name) if name in _ORDER else len(_ORDER))
    content: str = yaml.safe_dump({name: public[name] for name in known}, sort_keys=False, allow_unicode=True)
    return content


def _data(node: Mapping[str, Any]) -> dict[str, Any]:
    """The class of a data set of ours, and what is declared public in any."""
    target = str(node["_target_"])
    cls = located(target)
    named = {"_target_": target} if is_within(target, ("pate.",)) else {}
    return named | _plain({} if cls is None else published_fields(cls, node, declared_only=True))


def _component(node: Mapping[str, Any]) -> dict[str, Any]:
    """A part of a run, or an object within one: its class, and of its fields what may be published."""
    target = str(node["_target_"])
    ours, cls = is_within(target, TRUSTED_PREFIXES), located(target)
    fields: dict[str, Any] = {}
    if cls is not None and is_dataclass(cls):
        fields = published_fields(cls, node)
    elif cls is not None and ours:  # such as an estimator: numbers, and estimators within
        known = {name for name in inspect.signature(cls).parameters if not is_seed(name)}
        fields = {name: value for name, value in node.items() if name in known and not isinstance(value, (str, list))}
    return {"_target_": target if ours else target.rpartition(".")[2]} | _plain(fields)


def _plain(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Those that YAML can say: a scalar, a list of them, or an object by its class."""
    found: dict[str, Any] = {}

    def said(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [said(item) for item in value]
        if isinstance(value, Mapping) and "_target_" in value:
            return _component(value)
        if not (is_scalar(value) or isinstance(value, str)):
            raise TypeError("nothing that is published")
        return float(value) if isinstance(value, float) else value

    for name, value in fields.items():
        with suppress(TypeError):
            found[name] = said(value)
    return found
