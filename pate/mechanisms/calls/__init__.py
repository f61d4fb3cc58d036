"""Mechanisms for target charging. A session of calls pays only for the calls whose outcome lies in a target set.

A call whose outcome lies in the target set is a hit. All other calls of the session are free.
"""
