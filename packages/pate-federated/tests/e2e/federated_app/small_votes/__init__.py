"""The small run between holders."""
