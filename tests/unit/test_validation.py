"""Validation: values that are accepted or refused, and refusals, which are one line with name, value and rule."""

import copy
import math
import pickle
import shlex
from typing import Any

import numpy as np
import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

from pate.errors import (
    AS_THE_CODE,
    Doubt,
    InvalidValue,
    MissingPackage,
    Remedy,
    Spelling,
    printable,
    shown_as,
)
from pate.setting_names import CLASSIFIER, RELEASE, TRAIN, comparison_spelling
from pate.validation import (
    as_setting,
    require,
    require_choice,
    require_count,
    require_each,
    require_generator,
    require_histogram,
    require_non_negative,
    require_probability,
    require_rising,
)
from tests.refusals import ANY, Refusal, refused_parameter


def test_a_numeral_that_is_text_is_shown_as_text() -> None:
    """The text "40" is refused as a number, and shown as text."""
    with refused_parameter("x", value="40"):
        require(False, "x", "40", "a number > 0")


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (
            InvalidValue("target_delta", 1.5, rule="a number in (0, 1)"),
            "target_delta=1.5: expected a number in (0, 1)",
        ),
        (
            InvalidValue("votes[0, 1]", rule="counts in 0..3"),
            "votes[0, 1]: expected counts in 0..3",
        ),
        (InvalidValue("x", value=None, rule="a number"), "x=None: expected a number"),
        (InvalidValue("x", "40", rule="a number > 0"), "x='40': expected a number > 0"),
        (
            InvalidValue(
                "num_teachers",
                200,
                rule="more",
                remedies=(
                    Remedy(name="num_teachers", value=1_200_000),
                    Remedy(
                        name="target_epsilon",
                        value=8.0,
                        also=(Remedy(name="num_queries", value=60),),
                    ),
                    Remedy(name="noise_std", value=3.25, owner="aggregator"),
                ),
                waiver=Remedy(name="allow_useless", value=True),
            ),
            "num_teachers=200: expected more; what works: num_teachers=1200000, or target_epsilon=8 "
            "num_queries=60, or noise_std=3.25; allow_useless=True goes on as it is",
        ),
        (MissingPackage("engine", "ray", rule="ray"), "engine=ray: expected ray"),
    ],
)
def test_an_error_keeps_its_line_and_fields_across_processes(
    error: InvalidValue, line: str
) -> None:
    """An error that is pickled or copied has the same class, fields and line."""
    for copied in (error, pickle.loads(pickle.dumps(error)), copy.deepcopy(error)):
        assert type(copied) is type(error)
        assert (copied.name, copied.value, copied.rule) == (error.name, error.value, error.rule)
        assert (copied.remedies, copied.waiver) == (error.remedies, error.waiver)
        assert str(copied) == line


def test_a_value_that_could_hold_data_is_kept_as_its_text_alone() -> None:
    """An error about an array keeps its text, and not the array; a shape is kept as it is."""
    values = np.arange(3)
    error = InvalidValue("votes", values, rule="others")
    assert error.value == "[0 1 2]"
    shape = InvalidValue("votes.shape", (3, 4), rule="another")
    assert shape.value == (3, 4)
    assert InvalidValue("votes", (values, 1), rule="others").value == "(array([0, 1, 2]), 1)"


REFUSAL = InvalidValue(
    "num_teachers",
    200,
    rule="more",
    remedies=(
        Remedy(name="target_epsilon", value=8.0),
        Remedy(name="noise_std", value=3.0, owner="aggregator"),
    ),
    waiver=Remedy(name="allow_useless", value=True),
)


@pytest.mark.parametrize(
    ("spelling", "line"),
    [
        (
            TRAIN,
            "teacher.num_teachers=200: expected more; what works: target_epsilon=8, or "
            "aggregator.noise_std=3; allow_useless=true goes on as it is",
        ),
        (
            RELEASE,
            "200 teachers in all vote files: expected more; what works: target_epsilon=8, or "
            "aggregator.noise_std=3; allow_useless=true goes on as it is",
        ),
        (
            CLASSIFIER,
            "n_teachers=200: expected more; what works: epsilon=8, or "
            "an aggregator with noise_std=3; allow_useless=True goes on as it is",
        ),
        (
            comparison_spelling("gnmax"),
            "'aggregators=[gnmax@200]': expected more; what works: 'epsilons=[8]'; "
            "allow_useless=true goes on as it is",
        ),
    ],
)
def test_each_front_end_shows_the_fields_as_its_own_settings(spelling: Spelling, line: str) -> None:
    """Three commands and the classifier each show a refusal with remedies in their own settings."""
    assert spelling.error_line(REFUSAL) == line
    error = copy.copy(REFUSAL)
    with pytest.raises(InvalidValue) as caught, shown_as(spelling):
        raise error
    assert str(caught.value) == line
    assert str(pickle.loads(pickle.dumps(caught.value))) == line
    assert caught.value.name == "num_teachers"


@pytest.mark.parametrize(
    ("spelling", "advice"),
    [
        (TRAIN, "take the same data.group= (and data.budget=, holders=), or another ledger="),
        (RELEASE, "another ledger= counts these votes"),
        (CLASSIFIER, "fit with the same groups=, or with another ledger="),
        (AS_THE_CODE, "name the same unit=, or another ledger"),
    ],
)
def test_advice_names_settings_of_the_front_end(spelling: Spelling, advice: str) -> None:
    error = InvalidValue("unit", "one row", rule="one patient", owner="ledger")
    assert spelling.error_line(error) == f"unit=one row: expected one patient; {advice}"
    other = InvalidValue("unit", "one row", rule="one patient")
    assert spelling.error_line(other) == "unit=one row: expected one patient"


def test_caps_of_a_ledger_and_of_a_release_are_two_settings() -> None:
    """A refusal of the ledger's `max_epsilon` is shown as max_total_epsilon, and another as max_epsilon."""
    cap = InvalidValue("max_epsilon", 3.0, rule="more", owner="ledger")
    assert TRAIN.error_line(cap) == "max_total_epsilon=3.0: expected more"
    assert TRAIN.error_line(InvalidValue("max_epsilon", 3.0, rule="more")).startswith(
        "max_epsilon="
    )


def test_a_doubt_is_a_line_of_its_fields() -> None:
    """A doubt is one line with its name, value, text and waiver, spelled for Python or for a command."""
    doubt = Doubt(
        name="num_teachers", value=20, text="few", waiver=Remedy(name="allow_useless", value=True)
    )
    assert str(doubt) == "num_teachers=20: few; allowed by allow_useless=True"
    assert TRAIN.doubt_line(doubt) == "teacher.num_teachers=20: few; allowed by allow_useless=true"


STRANGE = "flu\x1b[2J\u202e\u200b\x00\x9b\u2028gone\ud800"
SHOWN = r"flu\x1b[2J\u202e\u200b\x00\x9b gone\ud800"


def test_control_codes_in_a_message_have_no_effect_on_a_terminal() -> None:
    """A value and rule with control codes are shown with escapes or spaces, however the error is made.

    Letters of all languages stay.
    """
    assert (
        str(InvalidValue("label", STRANGE, rule="\r\nanother\t"))
        == f"label={SHOWN}: expected   another "
    )
    with pytest.raises(InvalidValue) as caught:
        require(False, "label", value=STRANGE, rule="another")
    assert str(caught.value) == f"label={SHOWN}: expected another"
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    assert printable("naïve 東京 ≤ … 😀") == "naïve 東京 ≤ … 😀"


NUMBERS: dict[Any, tuple[str, list[Any], list[Any]]] = {
    require_non_negative: (
        r"a number >= 0",
        [0, 2.5],
        [-1e-300, math.inf, math.nan, "0", None, False],
    ),
    require_probability: (
        r"a number in \(0, 1\)",
        [1e-300],
        [0.0, 1.0, -0.1, 1.1, math.nan, "0.5", None, True],
    ),
    require_count: (
        r"a whole number >= 1",
        [np.uint16(7)],
        [0, -1, 1.0, 2.5, "3", None, True, math.nan, math.inf],
    ),
}


@pytest.mark.parametrize("check", NUMBERS)
def test_numbers_are_accepted_and_other_values_refused(check: Any) -> None:
    """Each check returns the values that it accepts, and refuses others with its rule."""
    rule, right, wrong = NUMBERS[check]
    assert [check("x", value) for value in right] == right
    for value in wrong:
        with pytest.raises(InvalidValue, match=rf"^x=.*: expected {rule}$"):
            check("x", value)


@pytest.mark.parametrize(
    ("votes", "refusal"),
    [
        ([[0, 6]], refused_parameter("votes[0, 1]", rule_words="counts in")),
        ([[-1, 6]], refused_parameter("votes[0, 0]", rule_words="counts in 0..5")),
        (
            np.array([[2**63]], dtype=np.uint64),
            refused_parameter("votes[0, 0]", rule_words="counts in 0..5"),
        ),
        ([[0.0, 1.0]], refused_parameter("votes.dtype", value="float64")),
        ([[math.nan, 1.0]], refused_parameter("votes.dtype", value="float64")),
        ([["a", "b"]], refused_parameter("votes.dtype", value="<U1")),
        ([[2**70, 1]], refused_parameter("votes.dtype", value=ANY, rule_words="integer vote")),
        ([], refused_parameter("votes.shape", value=(0,), rule_words="query and one")),
        (
            7,
            refused_parameter(
                "votes.shape", value=(), rule_words="[num_labels] or [num_queries, num_labels]"
            ),
        ),
        (
            [[[1]]],
            refused_parameter("votes.shape", value=(1, 1, 1)),
        ),
        ([[1, 2], [3]], refused_parameter("votes", rule_words="rows of equal")),
    ],
)
def test_arrays_that_are_no_histograms_are_refused(votes: Any, refusal: Refusal) -> None:
    """Votes that are no counts between 0 and the number of teachers are refused with their place, type or shape."""
    with refusal as caught:
        require_histogram("votes", votes, largest_count=5)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("rng", [0, None, "seed", np.random.RandomState(0), np.random.PCG64(0)])
def test_a_seed_in_place_of_a_generator_is_refused(rng: Any) -> None:
    """A number, None, a text, and NumPy's `RandomState` and `PCG64` are refused in place of its `Generator`."""
    with refused_parameter("rng", value=ANY, rule_words="numpy.random.Generator, not"):
        require_generator(rng)


def test_a_misspelled_choice_gets_a_suggestion() -> None:
    """A misspelled choice is refused with all choices and the nearest one; a right choice is returned."""
    choices = ("stable_top_k", "gaussian_votes")
    assert require_choice("aggregator", "stable_top_k", choices=choices) == "stable_top_k"
    match = r"^aggregator=stable_topk: expected one of stable_top_k, gaussian_votes \(did you mean stable_top_k\?\)$"
    with pytest.raises(InvalidValue, match=match):
        require_choice("aggregator", "stable_topk", choices=choices)
    with refused_parameter("aggregator", value="xyz"):
        require_choice("aggregator", "xyz", choices=choices)


def test_the_first_value_that_breaks_a_rule_is_named() -> None:
    values = np.array([[1.0, -2.0], [math.nan, -3.0]])
    with refused_parameter("rates", value=-2.0):
        require_each("rates", values, values >= 0, rule="numbers >= 0")
    require_each("rates", values, np.ones((2, 2), dtype=bool), rule="numbers >= 0")


@pytest.mark.parametrize(
    ("values", "refusal"),
    [
        ([0.0, 2.0, 1.0, 0.5], refused_parameter("logits", value="2.0, 1.0")),
        ((math.inf, 3.0), refused_parameter("logits", value="inf, 3.0")),
        ([0.0, math.nan], refused_parameter("logits", value="0.0, nan")),
        ([math.nan, 0.0], refused_parameter("logits", value="nan, 0.0")),
        ([math.nan], refused_parameter("logits", value="nan, nan")),
    ],
)
def test_decreasing_numbers_are_refused_with_the_pair(values: Any, refusal: Refusal) -> None:
    for rising in ([], [3.0], (-math.inf, -math.inf, 0.0, 0.0, math.inf)):
        require_rising("logits", rising)
    with refusal:
        require_rising("logits", values)


@pytest.mark.parametrize(
    "word",
    [
        "flu",
        "chest pain",
        "a,b]",
        'say "no"\\',
        "it's",
        "null",
        "007",
        "1e-6",
        "$(ls) ${x}",
        "Größe=1",
    ],
)
def test_settings_are_read_as_they_were_written_when_pasted(word: str) -> None:
    for value, name in ((word, "data.group"), ([word, "age"], "data.drop")):
        (pasted,) = shlex.split(as_setting(name, value))
        read = OverridesParser.create().parse_override(pasted).value()
        texts = [str(each) for each in (read if isinstance(value, list) else [read])]
        assert [OmegaConf.create({"x": each}).x for each in texts] == (
            value if isinstance(value, list) else [value]
        )


def test_a_parameter_name_with_signs_is_shown_as_it_is() -> None:
    error = InvalidValue("votes=/tmp/{a}=b.npz, vote_clip", 11, rule="another")
    for spelling in (Spelling(), TRAIN, CLASSIFIER):
        assert spelling.error_line(error) == "votes=/tmp/{a}=b.npz, vote_clip=11: expected another"
