"""The settings of the aggregators that ship, composed once for all tests of a session."""

from contextlib import nullcontext
from functools import cache

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig, OmegaConf

from pate.config import CONFIG_FOLDER, register_configs


@cache
def settings_of_aggregator(name: str) -> DictConfig:
    """Returns the aggregator's settings of `pate-train aggregator=NAME`, read-only, composed once for all tests.

    Hydra takes a tenth of a second to compose them.
    """
    register_configs()
    # A fixture of another module may have opened the same folder of configurations in this process.
    is_open = GlobalHydra.instance().is_initialized()
    with (
        nullcontext()
        if is_open
        else initialize_config_dir(config_dir=str(CONFIG_FOLDER), version_base="1.3")
    ):
        settings: DictConfig = compose(
            config_name="train", overrides=[f"aggregator={name}"]
        ).aggregator
    OmegaConf.set_readonly(settings, True)
    return settings
