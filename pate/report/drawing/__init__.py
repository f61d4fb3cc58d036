"""The pictures of a report: inline SVG in the colors of its page."""
