"""Mechanisms for target charging. A session is charged only for the calls whose outcome lies in a target set.

A call whose outcome lies in the target set is a hit. All other calls of the session cost at most a failure probability.
"""
