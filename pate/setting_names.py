"""The settings of each command and class, by the parameters of the code that errors and doubts name.

The code knows its own parameters alone: an error says `num_teachers`, of whichever object. Here alone stands that
`pate-train` calls it `teacher.num_teachers`. A command prints the line of an error by its spelling, in
`pate/cli/app.py` (`spelling.line(error)`); a class or function that is called from Python does so by `shown_as`.
"""

from pate.errors import Spelling

_SHARED_NAMES = {
    "aggregator.*": "aggregator.{name}={value}",
    "allow_useless": "allow_useless=true",
    "ledger.max_epsilon": "max_total_epsilon",
}


COMMAND = Spelling(_SHARED_NAMES)
"""Of a command that has no other names for anything, such as `pate-account`."""

TRAIN = Spelling(_SHARED_NAMES | {"num_teachers": "teacher.num_teachers"})
"""Of `pate-train` and `pate-vote`."""

RELEASE = Spelling(_SHARED_NAMES | {"num_teachers": "{value} teachers in all vote files"})
"""Of `pate-release`, which is given the teachers with their votes."""

CLASSIFIER = Spelling(
    {
        "num_teachers": "n_teachers",
        "num_queries": "n_queries",
        "target_epsilon": "epsilon",
        "aggregator.*": "an aggregator with {name}={value}",
        "ledger.max_epsilon": "max_total_epsilon",
    }
)
"""Of `pate.PATEClassifier`."""


SPELLING_OF_COMMAND = {"train": TRAIN, "vote": TRAIN, "release": RELEASE}
"""By command, of those that are no `COMMAND`."""


def comparison_of(name: str) -> Spelling:
    """Returns the settings of `pate-compare` for one of its aggregators, whose own fields are in its file."""
    return Spelling(
        {
            "num_teachers": f"'aggregators=[{name}@{{value}}]'",
            "target_epsilon": "'epsilons=[{value}]'",
            "aggregator.*": "",
            "allow_useless": "allow_useless=true",
        }
    )
