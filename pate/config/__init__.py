"""Configuration: dataclass schemas, the location of the YAML files, and building objects from configuration."""

from pate.extras import require_extra

require_extra(__name__, "cli")

from pate.config.build import build, build_aggregator
from pate.config.schema import CONFIG_FOLDER
from pate.config.sources import register_configs

__all__ = ["CONFIG_FOLDER", "build", "build_aggregator", "register_configs"]
