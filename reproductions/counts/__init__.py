"""Counts to pick the top k of: check-ins, flights, daily cases, and look-alikes that say that they are synthetic."""

from reproductions.counts.check_ins import CheckIns
from reproductions.counts.count_data import CountData
from reproductions.counts.flights import Flights
from reproductions.counts.look_alikes import check_ins_look_alike, sparse_histogram, state_cases_look_alike
from reproductions.counts.state_cases import StateCases

__all__ = [
    "CheckIns",
    "CountData",
    "Flights",
    "StateCases",
    "check_ins_look_alike",
    "sparse_histogram",
    "state_cases_look_alike",
]
