"""Counts to pick the top k of: check-ins, flights, daily cases, and look-alikes that say that they are synthetic."""

from pate.data.counts.check_ins import CheckIns
from pate.data.counts.count_data import CountData
from pate.data.counts.flights import Flights
from pate.data.counts.look_alikes import check_ins_look_alike, sparse_histogram, state_cases_look_alike
from pate.data.counts.state_cases import StateCases

__all__ = [
    "CheckIns",
    "CountData",
    "Flights",
    "StateCases",
    "check_ins_look_alike",
    "sparse_histogram",
    "state_cases_look_alike",
]
