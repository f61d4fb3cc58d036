"""Settings that messages offer to type."""

from collections.abc import Sequence

from pate.validation import as_setting


def ways_out(columns: Sequence[str], group: str | None) -> str:
    """Returns the settings that keep columns from becoming features.

    `group` is the column, or the columns, that settings name as whose a row is. Where there is none, naming the group
    comes before dropping: a person's number that is dropped leaves each row protected by itself.
    """
    drop = as_setting("data.drop", columns)
    objects = "it" if len(columns) == 1 else "all such columns"
    if group is not None:
        return f"{drop} leaves {objects} out, where data.group={group} says whose a row is"
    name_group = as_setting("data.group", columns[0])
    return (
        f"{name_group} if it says whose a row is, else {drop} leaves {objects} out, and each row "
        "by itself is protected"
    )
