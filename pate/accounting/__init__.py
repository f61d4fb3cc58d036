"""The price of privacy: events as values, accountants, conversions, calibration, ledger; numpy and scipy only."""

from pate.files.lazy_names import lazy_names

with lazy_names(globals()):
    from pate.accounting.accountant import Accountant
    from pate.accounting.auto import AutoAccountant
    from pate.accounting.calibration import calibrate
    from pate.accounting.conversion import (
        gaussian_delta,
        gaussian_epsilon,
        zcdp_to_delta,
        zcdp_to_epsilon,
        zcdp_to_epsilon_classic,
    )
    from pate.accounting.events import (
        Adjacency,
        ApproximateEvent,
        BoundarySessionEvent,
        BoundedRangeEvent,
        ComposedEvent,
        Event,
        GaussianEvent,
        NoisyMaxGaussianEvent,
        NonPrivateEvent,
        NoOpEvent,
        OneBitEvent,
        OpposedMaximaEvent,
        PureDpEvent,
        SampledGaussianEvent,
        SelectThenTestEvent,
        SelfComposedEvent,
        SessionEvent,
        SmoothSensitivityEvent,
        WinnerEvent,
        ZCdpEvent,
    )
    from pate.accounting.exact import ExactAccountant
    from pate.accounting.filters import GaussianFilter, PrivacyFilter, RenyiFilter, ZCdpFilter
    from pate.accounting.joint_law import JointLawAccountant
    from pate.accounting.ledger import BudgetExceeded, DamagedLedger, Ledger, LedgerEntry, SharedLedger
    from pate.accounting.pld import PldAccountant
    from pate.accounting.pure_dp import PureDpAccountant
    from pate.accounting.rdp import DEFAULT_ORDERS, RdpAccountant
    from pate.accounting.serialization import event_from_json, event_to_json
    from pate.accounting.zcdp import ZCdpAccountant

__all__ = [
    "DEFAULT_ORDERS",
    "Accountant",
    "Adjacency",
    "ApproximateEvent",
    "AutoAccountant",
    "BoundarySessionEvent",
    "BoundedRangeEvent",
    "BudgetExceeded",
    "ComposedEvent",
    "DamagedLedger",
    "Event",
    "ExactAccountant",
    "GaussianEvent",
    "GaussianFilter",
    "JointLawAccountant",
    "Ledger",
    "LedgerEntry",
    "NoOpEvent",
    "NoisyMaxGaussianEvent",
    "NonPrivateEvent",
    "OneBitEvent",
    "OpposedMaximaEvent",
    "PldAccountant",
    "PrivacyFilter",
    "PureDpAccountant",
    "PureDpEvent",
    "RdpAccountant",
    "RenyiFilter",
    "SampledGaussianEvent",
    "SelectThenTestEvent",
    "SelfComposedEvent",
    "SessionEvent",
    "SharedLedger",
    "SmoothSensitivityEvent",
    "WinnerEvent",
    "ZCdpAccountant",
    "ZCdpEvent",
    "ZCdpFilter",
    "calibrate",
    "event_from_json",
    "event_to_json",
    "gaussian_delta",
    "gaussian_epsilon",
    "zcdp_to_delta",
    "zcdp_to_epsilon",
    "zcdp_to_epsilon_classic",
]
