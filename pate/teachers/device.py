"""Where torch works, and on how many threads; see `pate.networks.device`."""

from pate.networks.device import one_thread, require_device

__all__ = ["one_thread", "require_device"]
