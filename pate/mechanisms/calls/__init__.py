"""Calls of target charging: mechanisms whose accesses are paid for where they hit."""
