"""The ledger: what has been spent on private data, on disk before anything is released."""

from pate.accounting.ledger.cap import BudgetExceeded
from pate.accounting.ledger.chain import DamagedLedger
from pate.accounting.ledger.entry import LedgerEntry
from pate.accounting.ledger.ledger import Ledger
from pate.accounting.ledger.origin import Origin
from pate.accounting.ledger.shared import SharedLedger

__all__ = ["BudgetExceeded", "DamagedLedger", "Ledger", "LedgerEntry", "Origin", "SharedLedger"]
