"""Advice in error messages: settings to type."""

from collections.abc import Sequence

from pate.validation import as_setting


def ways_out(columns: Sequence[str], group: str | None) -> str:
    """Returns advice for a message: the settings that keep columns from becoming features.

    If settings name no owner, the advice to name one as the group comes before the advice to drop the column. A dropped
    column of people's names would leave each row protected by itself.

    Args:
        columns: the names of the columns.
        group: the columns that name the owner of a row; None if settings name none.
    """
    drop = as_setting(name="data.drop", value=columns)
    objects = "it" if len(columns) == 1 else "all such columns"
    if group is not None:
        return f"{drop} leaves {objects} out, where data.group={group} says whose a row is"
    name_group = as_setting(name="data.group", value=columns[0])
    return (
        f"{name_group} if it says whose a row is, else {drop} leaves {objects} out, and each row "
        "by itself is protected"
    )
