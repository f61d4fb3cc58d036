"""Cases of PowersetGNMax."""

from pate.aggregators import PowersetGNMax
from tests.contract.case import Case

CONTRACT = (
    Case(name="powerset", aggregator=PowersetGNMax(noise_std=6.0), refuses=False),
    Case(
        name="powerset_of_few", aggregator=PowersetGNMax(noise_std=6.0, max_size=2), refuses=False
    ),
)
WITHOUT_DISTRIBUTION = "reads each teacher's votes; all ensembles in test_winner.py"
