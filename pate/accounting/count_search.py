"""The search for the largest count, of queries or releases, that a budget affords."""

from bisect import bisect_left
from collections.abc import Callable


def largest_count(holds: Callable[[int], bool], *, maximum: int, guess: int = 1) -> int:
    """Returns the largest number from 0 to `maximum` for which a condition holds; 0 if it holds for none.

    The search starts at a guess, moves in growing steps until the condition changes, and ends with a bisection.

    Args:
        holds: the condition; if it holds for a number, it must hold for all smaller numbers too.
        maximum: the largest number that is tried.
        guess: the number where the search starts, >= 0.
    """
    guess = min(guess, maximum)
    step = max(guess // 32, 1)
    if guess == 0 or holds(guess):
        smaller_count = guess
        larger_count = guess + step
        while larger_count <= maximum and holds(larger_count):
            step *= 2
            smaller_count = larger_count
            larger_count += step
    else:
        larger_count = guess
        smaller_count = max(guess - step, 0)
        while smaller_count > 0 and not holds(smaller_count):
            step *= 2
            larger_count = smaller_count
            smaller_count = max(smaller_count - step, 0)

    def is_too_many(count: int) -> bool:
        return not holds(count)

    # the counts for which it is not known yet whether the condition holds
    undecided_counts = range(smaller_count + 1, min(larger_count, maximum + 1))
    return smaller_count + bisect_left(undecided_counts, x=True, key=is_too_many)
