"""The store: what was charged, and what was drawn for it, in one file and one transaction."""

from pate.store.store import DamagedLedger, Line, Store

__all__ = ["DamagedLedger", "Line", "Store"]
