"""`HeldBudget` is the base class of objects that spend a privacy budget in memory, so that no copy spends it again.

Such an object is `TargetCharging`, a session that charges calls to one budget (docs/proofs/target_charging.md). It
refuses to be copied or pickled, and to be charged in a forked process.
"""

from __future__ import annotations

import os
import threading
from contextlib import AbstractContextManager
from typing import NoReturn, SupportsIndex

from pate.validation import InvalidValue


class HeldBudget:
    """The base class of objects that hold a privacy budget in memory.

    Such an object cannot be copied, pickled or used in a forked process, because the copy would spend the same budget
    again.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._process = os.getpid()

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        rule = (
            "one that is neither copied nor sent elsewhere, as a copy would spend the same budget again; "
            "use the existing object"
        )
        raise InvalidValue("session", type(self).__name__, rule=rule)

    def _locked(self) -> AbstractContextManager[bool]:
        """Returns the lock that a thread holds while it checks and reduces the budget.

        The lock is reentrant. Raises `InvalidValue` in a forked process.
        """
        # before the lock, which another thread of the parent may have held at the fork
        self._require_own_process()
        return self._lock

    def _require_own_process(self) -> None:
        if os.getpid() != self._process:
            name = type(self).__name__
            rule = f"{self._process}, which holds this {name}; a fork would spend the same budget again"
            raise InvalidValue("process", os.getpid(), rule=rule)
