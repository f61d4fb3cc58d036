"""A field of a settings class is all that a new setting needs to be typed, explained, compared and published."""

import dataclasses
from pathlib import Path

import pytest
from omegaconf import MISSING, OmegaConf

from pate.config.schema import command_schema, settings_page
from pate.settings import SETTINGS_OF_COMMAND, names_with, setting, settings_of


@pytest.mark.parametrize("command", SETTINGS_OF_COMMAND)
def test_every_setting_is_explained_and_typed(command: str) -> None:
    """Each setting of each command has a text on the help page, and is required if and only if it has no default."""
    page = settings_page(command)
    config = OmegaConf.structured(command_schema(command))
    for item in settings_of(command):
        text = item.metadata["help"]
        assert text and not text.endswith("."), item.name
        assert item.name in page and text in page and "$" not in text
        has_default = (
            item.default is not dataclasses.MISSING
            or item.default_factory is not dataclasses.MISSING
        )
        assert OmegaConf.is_missing(config, item.name) != has_default


def test_no_file_of_a_command_repeats_a_setting() -> None:
    """The YAML file of a command sets no key of its settings class, except a target epsilon that equals the default."""
    conf = Path(__file__).parents[2] / "conf"
    for command in SETTINGS_OF_COMMAND:
        (path,) = [
            folder / f"{command}.yaml"
            for folder in (conf, conf / "file_commands")
            if (folder / f"{command}.yaml").is_file()
        ]
        repeated_settings = OmegaConf.load(path)
        for config_group in ("defaults", "hydra", "teacher"):
            repeated_settings.pop(config_group, None)
        # An aggregator's file may set it, for pate-train; the others set it back to their default.
        if "target_epsilon" in repeated_settings:
            default = OmegaConf.structured(command_schema(command)).target_epsilon
            assert repeated_settings.pop("target_epsilon") == default, path
        assert not repeated_settings, path


def test_adding_a_field_adds_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A field that is added to the settings of pate-train appears in its schema and on its help page.

    If it is marked so, the field is in the list of paths, of published settings, or of those that may change when a run
    is continued.
    """

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class More(SETTINGS_OF_COMMAND["train"]):  # type: ignore[name-defined,misc]
        loudness: float | None = setting(
            "how loud it is", default=None, may_change_when_continued=True, is_path=True
        )
        needed: str = setting("what is needed", default=dataclasses.MISSING, published=True)

    monkeypatch.setitem(SETTINGS_OF_COMMAND, "train", More)
    command_schema.cache_clear()
    try:
        types = {field.name: field.type for field in dataclasses.fields(command_schema("train"))}
        assert (types["loudness"], types["needed"]) == (float | None, str)
        assert OmegaConf.structured(command_schema("train")).loudness is None
        assert command_schema("train")(data=None).needed == MISSING
    finally:
        command_schema.cache_clear()
    assert "\n  loudness        how loud it is\n" in settings_page("train")
    assert "loudness" in names_with("may_change_when_continued", "train") & names_with("is_path")
    assert "needed" in names_with("published", "train") - names_with(
        "may_change_when_continued", "train"
    )
