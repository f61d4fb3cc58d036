"""Hydra's sources other than files: the schemas of commands and parts, and the parts of installed packages.

They are provided by two plugins as Hydra documents them: a source of configurations, and an entry in the search path.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, cast

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.object_type import ObjectType
from hydra.core.plugins import Plugins
from hydra.plugins.config_source import ConfigLoadError, ConfigResult, ConfigSource
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import DictConfig, OmegaConf

from pate.config.classes import TRUSTED_PREFIXES, installed_parts
from pate.config.schema import (
    FILE_COMMANDS,
    command_schema,
    describe_members,
    file_of,
    member_schema,
    settings_page,
    shipped_folders,
)
from pate.settings import settings_classes

# The scheme of paths of computed configurations, as in pate://parts.
_SCHEME = "pate"
# The name under which Hydra lists our folders and this source in its search path.
_PROVIDER = "pate"
# The group of the schemas.
_SCHEMA = "schema"


class PartSource(ConfigSource):
    """A source of configurations that are computed and not read from YAML files.

    It has the schemas of commands, `schema/COMMAND`, and of members of groups, `schema/GROUP/NAME`; and the classes
    that installed packages offer as members, `GROUP/NAME`. Such a class is imported only when its schema is read.
    """

    trusted: ClassVar[tuple[str, ...]] = TRUSTED_PREFIXES

    def __init__(self, provider: str, path: str) -> None:
        # Hydra lists a source by the name of its provider and its path, here as in pate://parts.
        super().__init__(provider, path)
        # A launcher's processes receive the attributes of this object, but not those of its class.
        self._trusted = PartSource.trusted

    @staticmethod
    def scheme() -> str:
        """Returns the scheme of the source's paths, `pate` as in pate://parts."""
        return _SCHEME

    def available(self) -> bool:
        """Returns True, because this source computes its configurations and so is never missing."""
        return True

    def is_config(self, config_path: str) -> bool:
        """Returns True if the source has a configuration at this path, such as `schema/train` or `teacher/mine`.

        A YAML file takes precedence over an entry point.
        """
        group, _, config_name = config_path.rpartition("/")
        if group == _SCHEMA:
            return config_name in settings_classes()
        if group.startswith(f"{_SCHEMA}/"):
            member_group = group.removeprefix(f"{_SCHEMA}/")
            return file_of(member_group, config_name) is not None or config_name in installed_parts(
                member_group
            )
        return config_name in installed_parts(group) and file_of(group, config_name) is None

    def is_group(self, config_path: str) -> bool:
        """Returns True if installed packages have parts for the group that the path names."""
        return bool(installed_parts(group=config_path))

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        """Returns the names of installed packages' parts for a group; none if Hydra asks for groups alone."""
        return (
            [] if results_filter == ObjectType.GROUP else sorted(installed_parts(group=config_path))
        )

    def load_config(self, config_path: str) -> ConfigResult:
        """Returns the schema of a command or member, or the `_target_` of a part of an installed package.

        Raises `ConfigLoadError` if `is_config` is False for the path.
        """
        if not self.is_config(config_path):
            raise ConfigLoadError(f"Config not found: {config_path}")
        group, _, config_name = config_path.rpartition("/")
        config_content: Any
        if group == _SCHEMA:
            config_content = _structured(command_schema(config_name))
        elif group.startswith(f"{_SCHEMA}/"):
            schema_class = member_schema(
                group.removeprefix(f"{_SCHEMA}/"), config_name, trusted_prefixes=self._trusted
            )
            # The schema {} is that of a class which cannot be loaded or is no dataclass. It accepts all keys.
            config_content = (
                _structured(schema_class)
                if isinstance(schema_class, type)
                else OmegaConf.create({})
            )
        else:
            config_content = OmegaConf.create({"_target_": installed_parts(group)[config_name]})
        return ConfigResult(
            provider=self.provider,
            path=f"{_SCHEME}://{self.path}",
            config=config_content,
            header={"package": None},
        )


def _structured(schema: type) -> DictConfig:
    """Returns the typed configuration of a schema: a copy, because Hydra changes what a source returns."""
    return copy.deepcopy(_new_structured(schema))


@lru_cache
def _new_structured(schema: type) -> DictConfig:
    """Returns the typed configuration of a schema, from a cache, because OmegaConf makes it slowly."""
    return cast(DictConfig, OmegaConf.structured(schema))


class PartSearchPath(SearchPathPlugin):
    """A plugin of Hydra that extends the search path of every command.

    The order is: the command's own folder, those of the user, ours, those of installed packages, then `PartSource`.
    A command whose `data=` is a file gets neither our folder nor those of packages.
    """

    folders: ClassVar[tuple[Path, ...]] = ()

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Appends folders and the `PartSource` to the search path, which already has the command's own folder."""
        present_folders = {
            search_path_entry.path.removeprefix("file://")
            for search_path_entry in search_path.get_path()
        }
        for config_folder in self.folders:
            search_path.append("command-line", f"file://{config_folder}")
        # The commands in FILE_COMMANDS have a setting `data`. In the other folders `data` is a group.
        if str(FILE_COMMANDS) not in present_folders:
            for config_folder in shipped_folders():
                if str(config_folder) not in present_folders:
                    search_path.append(_PROVIDER, f"file://{config_folder}")
        search_path.append(_PROVIDER, f"{_SCHEME}://parts")


def register_configs(
    *, allowed_targets: Iterable[str] = (), config_folders: Iterable[Path] = ()
) -> None:
    """Registers schemas and parts with Hydra, for all configurations that this process composes afterwards.

    Args:
        allowed_targets: the user's own modules whose classes may be loaded, in addition to the trusted modules.
        config_folders: the user's own folders of configurations, in addition to those of the packages.
    """
    PartSource.trusted = (*TRUSTED_PREFIXES, *allowed_targets)
    PartSearchPath.folders = tuple(config_folders)
    Plugins.instance().register(PartSource)
    Plugins.instance().register(PartSearchPath)
    # These two resolvers fill the pages of --help.
    OmegaConf.register_new_resolver("choices", describe_members, replace=True)
    OmegaConf.register_new_resolver("settings", settings_page, replace=True)
    # This resolver stands in lists of defaults, which take no null and no mapping.
    OmegaConf.register_new_resolver("chosen", _chosen, replace=True)


def _chosen(choice: Any) -> str:
    """Returns the name of a group's chosen member; `none` if the configuration has null or a mapping in its place."""
    return choice if isinstance(choice, str) else "none"
