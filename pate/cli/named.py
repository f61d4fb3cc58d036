"""Settings that a command cannot do without."""

from collections.abc import Mapping

from omegaconf import DictConfig, OmegaConf

from pate.validation import InvalidValue


def require_named(config: DictConfig, *, rules: Mapping[str, str]) -> None:
    """Raises `InvalidValue` if a setting has no value.

    Args:
        config: the composed configuration.
        rules: the description of a valid value, for each setting that is required.
    """
    for name, rule in rules.items():
        if OmegaConf.is_missing(config, name) or config[name] is None:
            raise InvalidValue(name, "???", rule=rule)
