"""The names that each command, and the classifier, use for the parameters of the code.

An error names a parameter as the code does, such as `num_teachers`. `pate-train` calls this parameter
`teacher.num_teachers`, which is written in this file only. A key is a parameter, and `OWNER.*` stands for any parameter
of an object. A value is the name of a setting, or a whole setting if it has `=` or braces, or empty for a parameter
that users cannot set (`Spelling`). A command prints an error with its own spelling (`explain` in
`pate/config/mistakes.py`). Classes and functions that are called from Python use `shown_as`.
"""

from pate.errors import Spelling

_SHARED_NAMES = {
    "aggregator.*": "aggregator.{name}={value}",
    "allow_useless": "allow_useless=true",
    "ledger.max_epsilon": "max_total_epsilon",
}

COMMAND = Spelling(template_of_parameter=_SHARED_NAMES)
"""The spelling of a command whose settings are named as the parameters are, such as `pate-account`."""

_UNIT_OF_A_RUN = "take the same data.group= (and data.budget=, holders=), or another ledger="

TRAIN = Spelling(
    template_of_parameter=_SHARED_NAMES | {"num_teachers": "teacher.num_teachers"},
    advice={"ledger.unit": _UNIT_OF_A_RUN},
)
"""The spelling of `pate-train`, and of commands whose teachers have settings of their own."""

RELEASE = Spelling(
    template_of_parameter=_SHARED_NAMES | {"num_teachers": "{value} teachers in all vote files"},
    advice={"ledger.unit": "another ledger= counts these votes"},
)
"""The spelling of `pate-release`, where the number of teachers follows from the vote files."""

CLASSIFIER = Spelling(
    template_of_parameter={
        "num_teachers": "n_teachers",
        "num_queries": "n_queries",
        "data.public_labels": "y_public",
        "test.known": "y_test",
        "target_epsilon": "epsilon",
        "aggregator.*": "an aggregator with {name}={value}",
        "ledger.max_epsilon": "max_total_epsilon",
    },
    advice={"ledger.unit": "fit with the same groups=, or with another ledger="},
)
"""The spelling of `pate.PATEClassifier`."""


SPELLING_OF_COMMAND = {"train": TRAIN, "release": RELEASE}
"""The spelling of a command, by its name; other commands of this package have `COMMAND`.

`pate-compare` also has `comparison_spelling`, for errors about one of the compared aggregators.
"""


def comparison_spelling(aggregator_name: str) -> Spelling:
    """Returns the names that errors of `pate-compare` use for parameters of one of the compared aggregators.

    The fields of the aggregator are set in its configuration file, so remedies that change them are not shown.
    """
    return Spelling(
        template_of_parameter={
            "num_teachers": f"'aggregators=[{aggregator_name}@{{value}}]'",
            "target_epsilon": "'epsilons=[{value}]'",
            "aggregator.*": "",
            "allow_useless": "allow_useless=true",
        }
    )
