"""The price of privacy: events as values, accountants, conversions, calibration, ledger; numpy and scipy only."""

from typing import TYPE_CHECKING

from pate.accounting.adjacency import Adjacency
from pate.accounting.events import (
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
    ScoresEvent,
    SelectThenTestEvent,
    SelfComposedEvent,
    SessionEvent,
    SmoothSensitivityEvent,
    ThresholdEvent,
    TuningEvent,
    WinnerEvent,
    ZCdpEvent,
)
from pate.accounting.run_counts import Poisson, TruncatedNegativeBinomial
from pate.accounting.unit import PrivacyUnit
from pate.extras import lazily

if TYPE_CHECKING:
    from pate.accounting.accountant import Accountant
    from pate.accounting.auto import AutoAccountant
    from pate.accounting.budget import Budget
    from pate.accounting.calibration import calibrate
    from pate.accounting.cap import BudgetExceeded
    from pate.accounting.conversion import gaussian_delta, gaussian_epsilon, zcdp_to_epsilon
    from pate.accounting.exact import ExactAccountant
    from pate.accounting.joint_law import JointLawAccountant
    from pate.accounting.ledger import Ledger
    from pate.accounting.pld import PldAccountant
    from pate.accounting.pure_dp import PureDpAccountant
    from pate.accounting.rdp import DEFAULT_ORDERS, RdpAccountant
    from pate.accounting.shared_ledger import SharedLedger
    from pate.accounting.store import DamagedLedger
    from pate.accounting.tuning import tuning_event


__all__ = [
    "DEFAULT_ORDERS",
    "Accountant",
    "Adjacency",
    "ApproximateEvent",
    "AutoAccountant",
    "BoundarySessionEvent",
    "BoundedRangeEvent",
    "Budget",
    "BudgetExceeded",
    "ComposedEvent",
    "DamagedLedger",
    "Event",
    "ExactAccountant",
    "GaussianEvent",
    "JointLawAccountant",
    "Ledger",
    "NoOpEvent",
    "NoisyMaxGaussianEvent",
    "NonPrivateEvent",
    "OneBitEvent",
    "OpposedMaximaEvent",
    "PldAccountant",
    "Poisson",
    "PrivacyUnit",
    "PureDpAccountant",
    "PureDpEvent",
    "RdpAccountant",
    "SampledGaussianEvent",
    "ScoresEvent",
    "SelectThenTestEvent",
    "SelfComposedEvent",
    "SessionEvent",
    "SharedLedger",
    "SmoothSensitivityEvent",
    "ThresholdEvent",
    "TruncatedNegativeBinomial",
    "TuningEvent",
    "WinnerEvent",
    "ZCdpEvent",
    "calibrate",
    "gaussian_delta",
    "gaussian_epsilon",
    "tuning_event",
    "zcdp_to_epsilon",
]

_MODULE_OF = {
    "accountant": "Accountant",
    "auto": "AutoAccountant",
    "budget": "Budget",
    "calibration": "calibrate",
    "cap": "BudgetExceeded",
    "conversion": "gaussian_delta gaussian_epsilon zcdp_to_epsilon",
    "exact": "ExactAccountant",
    "joint_law": "JointLawAccountant",
    "ledger": "Ledger",
    "pld": "PldAccountant",
    "pure_dp": "PureDpAccountant",
    "rdp": "DEFAULT_ORDERS RdpAccountant",
    "shared_ledger": "SharedLedger",
    "store": "DamagedLedger",
    "tuning": "tuning_event",
}
__getattr__ = lazily(__name__, names_of_module=_MODULE_OF)
