"""Prices before any data: what a release costs, what a budget buys, what somebody's release really cost."""
