"""The random streams of a fit."""

import warnings
from typing import Any

from pate.classifier.fit_warnings import SeededNoise
from pate.errors import users_stack_level
from pate.run.random_streams import RandomStreams
from pate.validation import InvalidValue, require_count


def streams_of(random_state: Any) -> RandomStreams:
    """Returns the random streams of a seed, equal to those of `pate-train` with this seed.

    A seed gives the warning `SeededNoise`. If `random_state` is None, the streams come from a secret of the operating
    system, which is stored nowhere.

    Args:
        random_state: the seed, or None.

    Raises:
        InvalidValue: `random_state` is neither a seed nor None. A shared generator, for example, is refused, as it
            would hide where the noise comes from.
    """
    if random_state is None:
        return RandomStreams.from_secret()
    try:
        seed = require_count("random_state", random_state, minimum=0)
    except InvalidValue as error:
        rule = f"{error.rule}, or None for noise from the operating system"
        raise InvalidValue("random_state", error.value, rule=rule) from None
    line = f"random_state={seed}: the noise comes from this seed and protects nobody who knows it"
    warnings.warn(line, SeededNoise, stacklevel=users_stack_level())
    return RandomStreams(seed)
