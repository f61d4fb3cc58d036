"""Reading YAML of unknown origin takes little memory and time, whatever the YAML contains."""

import time
from pathlib import Path

import pytest

from pate.aggregators import GaussianVotes
from pate.config.published import release_settings, with_student
from pate.data import TableSchema
from pate.files.plain_yaml import read_yaml
from pate.validation import InvalidValue
from tests.memory import measure_memory
from tests.refusals import refused_parameter

TENFOLD = {
    one: f"[{', '.join([f'*{before}'] * 10)}]\n"
    for before, one in zip("abcdefgh", "bcdefghi", strict=True)
}
LAUGHS = "a: &a [x, x, x]\n" + "".join(f"{one}: &{one} {ten}" for one, ten in TENFOLD.items())
MERGES = "a: &a {x: 1}\n" + "".join(f"{one}: &{one}\n  <<: {ten}" for one, ten in TENFOLD.items())
HOSTILE = {
    "laughs": LAUGHS,
    "merges": MERGES,
    "itself": "a: &a [*a]\n",
    "deep": "[" * 100_000,
    "deep mappings": "{a: " * 100_000,
    "deep and whole": "[" * 500 + "]" * 500,
    "deep by dashes": "- " * 20_000 + "x",
    "long number": "a: " + "9" * 100_000,
    "number of 60s": "a: 1" + ":59" * 100_000,
    "number of many digits": "a: " + "9" * 5000,
    "no date": "a: 2024-99-99",
    "no int": "a: !!int ''",
    "no truth": "a: !!bool x",
    "no float": "a: !!float x",
    "no stamp": "a: !!timestamp x",
    "code": "a: !!python/object/apply:os.system [ls]",
    "list as key": "? [a]\n: b\n",
    "no YAML": "a: [",
    "control": "a: \x07",
}


@pytest.mark.slow
@pytest.mark.parametrize("hostile_yaml", HOSTILE.values(), ids=HOSTILE)
def test_yaml_with_a_huge_value_is_refused_in_one_line(hostile_yaml: str, tmp_path: Path) -> None:
    """YAML with huge, deep, repeated, invalid or executable values is refused in a short line by each of four readers.

    All four together take less than 5 s. The readers are `read_yaml`, and those of schemas, of a release's settings and
    of the settings in vote files.
    """
    file = tmp_path / "schema.yaml"
    file.write_text(hostile_yaml)
    settings = {
        "aggregator": {"_target_": "pate.aggregators.GaussianVotes"},
        "accountant": {"_target_": "x.y"},
    }
    started = time.process_time()
    for read, name in (
        (lambda: read_yaml(hostile_yaml, name="file", rule="YAML"), "file"),
        (lambda: TableSchema.load(file), "data.schema="),
        (
            lambda: with_student(
                hostile_yaml, student_settings={"_target_": "pate.student.LinearStudent"}
            ),
            "config.yaml",
        ),
        (
            lambda: release_settings(
                settings,
                aggregator=GaussianVotes(noise_std=1.0),
                settings_of_holders={"teacher": hostile_yaml},
                num_queries=2,
                num_teachers=3,
            ),
            "settings.teac",
        ),
    ):
        with pytest.raises(InvalidValue, match=rf"^{name}.*: expected YAML") as caught:
            read()
        assert len(str(caught.value)) < 300
        assert "\n" not in str(caught.value)
    assert time.process_time() - started < 5


@pytest.mark.parametrize("name", ["laughs", "merges", "deep mappings"])
def test_refusing_yaml_takes_little_memory(name: str) -> None:
    """Refusing YAML with repeated values, or with deep mappings, takes less than 20 MB."""

    def read_hostile_yaml() -> None:
        with refused_parameter("file", rule_words="line"):
            read_yaml(HOSTILE[name], name="file", rule="YAML")

    assert measure_memory(read_hostile_yaml).peak_memory < 20e6


def test_written_yaml_is_read_back() -> None:
    """YAML with lists, mappings and plain values is read; an empty text is None."""
    plain = {"a": [1, "b", None, 2.5], "c": {"d": True}}
    assert (
        read_yaml(yaml_text="a: [1, b, null, 2.5]\nc: {d: yes}\n", name="file", rule="YAML")
        == plain
    )
    assert read_yaml(yaml_text="", name="file", rule="YAML") is None
