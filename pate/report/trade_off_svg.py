"""The picture of a trade-off curve in a dossier: the share of members that an attack can find, by its false alarms."""

from __future__ import annotations

from collections.abc import Sequence

# The frame of the curve in the picture, in units of its view box.
_LEFT = 46.0
_BOTTOM = 212.0
_WIDTH = 280.0
_HEIGHT = 200.0
# The ticks of both axes.
_TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)


def trade_off_svg(found_share_curve: Sequence[tuple[float, float]]) -> str:
    """Returns a trade-off curve as an `<svg>` element, in the colors of the page.

    Args:
        found_share_curve: the points of the curve: a share of false alarms, and the largest share of members that an
            attack finds.
    """
    points = " ".join(
        f"{_x(false_alarm_rate=false_alarm_rate):.1f},{_y(share_found=share_found):.1f}"
        for false_alarm_rate, share_found in found_share_curve
    )
    ticks = "".join(
        f'<text x="{_x(false_alarm_rate=tick):.0f}" y="{_BOTTOM + 16:.0f}" text-anchor="middle">{tick:.0%}</text>'
        f'<text x="{_LEFT - 6:.0f}" y="{_y(share_found=tick) + 4:.0f}" text-anchor="end">{tick:.0%}</text>'
        for tick in _TICKS
    )
    return (
        '<svg viewBox="0 0 348 250" role="img" aria-label="Most members found, by false alarms" '
        'font-size="11" fill="var(--muted)">'
        f'<rect x="{_LEFT}" y="{_BOTTOM - _HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}" fill="none" '
        'stroke="var(--rule)"/>'
        f'<line x1="{_x(false_alarm_rate=0):.1f}" y1="{_y(share_found=0):.1f}" '
        f'x2="{_x(false_alarm_rate=1):.1f}" y2="{_y(share_found=1):.1f}" '
        'stroke="var(--faint)" stroke-dasharray="4 3"/>'
        f'<polyline points="{points}" fill="none" stroke="var(--accent)" stroke-width="2"/>{ticks}'
        f'<text x="{_LEFT + _WIDTH / 2:.0f}" y="{_BOTTOM + 33:.0f}" text-anchor="middle">'
        "false alarms, of those who take no part</text></svg>"
    )


def _x(false_alarm_rate: float) -> float:
    """Returns the x coordinate, in the picture's units, of a share of false alarms from 0 to 1."""
    return _LEFT + _WIDTH * false_alarm_rate


def _y(share_found: float) -> float:
    """Returns the y coordinate, in the picture's units, of a share of members from 0, the lowest, to 1."""
    return _BOTTOM - _HEIGHT * share_found
