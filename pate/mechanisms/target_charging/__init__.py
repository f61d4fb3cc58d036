"""Calls that are paid for only where their outcome hits a target."""
