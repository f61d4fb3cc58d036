"""Warnings about fits that are allowed but rarely intended."""

from typing import ClassVar


class DoubtfulPlan(UserWarning):
    """A warning of a fit that is allowed but is probably not what you want.

    Reasons in the plan are a large epsilon or delta, noise that often hides what most teachers agree on, and few
    records for each teacher. Reasons in the data are a public column with a far larger standard deviation than others,
    and columns whose private cells are all missing or unlike the public ones. The last reason is a student that
    predicts the same labels for all queries.
    """


class SeededNoise(UserWarning):
    """A warning that the noise came from a seed: it gives no privacy against people who know the seed."""


class UngroupedFit(UserWarning):
    """A warning that a clone was fitted without groups, as searches do, so that its epsilon is for one row."""

    TEXT: ClassVar[str] = (
        "this is a fit of a clone, as searches and cross-validation make them, without groups: its epsilon is for one "
        "row. A search gives groups= to its splitter alone; to protect groups, call "
        "sklearn.set_config(enable_metadata_routing=True) and set_fit_request(X_public=True, groups=True)"
    )


class ClassesFromLabels(UserWarning):
    """A warning that the set of classes was read from private labels, and counts as public."""

    # `what` is the kind of names: "words" of sets, or "classes".
    TEXT: ClassVar[str] = (
        "classes=None: the set of {what} was read from the private y and counts as public, though a single record may "
        "show that one of them exists; classes=[...] names all of them, and a fit then reads none. "
        "publish asks for public_classes=True, unless they are 0 and 1"
    )


class GapsFromLabels(UserWarning):
    """A warning that private labels decided whether labels may be missing, which counts as public."""

    TEXT: ClassVar[str] = (
        "y: that labels are missing was read from the private y and counts as public, though a single record may show "
        "it; numpy.ma.masked_invalid(y) says so whether any is missing or not, and a fit then reads it from no record"
    )


class RepeatedRelease(UserWarning):
    """A warning that an earlier fit of this process made a release of some of the same private records."""


class PublicGroups(UserWarning):
    """A warning that `public_fraction` makes a group public none of whose rows is in the last rows of that share.

    The fraction counts groups, in the order of their first rows, and not rows.
    """


class SharedRows(UserWarning):
    """A warning that most public samples, or most test records, are also among the private records."""
