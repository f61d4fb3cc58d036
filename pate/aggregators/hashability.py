"""The check that decides whether a value can be the key of a cache."""


def is_hashable(value: object) -> bool:
    """Returns True if a value has a hash, so that it can be the key of a cache."""
    try:
        hash(value)
    except TypeError:
        return False
    return True
