"""SVG figures without a library: lines over a number, or bars in groups."""

import math
import textwrap

COLOURS = ("#1b6ac9", "#d1495b", "#2a9d5c", "#8a8a8a", "#b8860b", "#6a4c93")
WIDTH, HEIGHT, TOP, GAP = 300, 190, 56, 110


def _text(x, y, what, extra=""):
    escaped = str(what).replace("&", "&amp;").replace("<", "&lt;")
    return f'<text x="{x:.1f}" y="{y:.1f}" {extra}>{escaped}</text>\n'


def _number(value):
    return f"{value:.0f}" if abs(value) >= 20 else f"{value:.3g}"


def _ticks(low, high):
    """Round numbers from the first at `low` or above on, four to eight of them."""
    rough = (high - low) / 5 or 1
    unit = 10 ** math.floor(math.log10(rough))
    step = next(unit * n for n in (1, 2, 5, 10) if unit * n >= rough)
    at = math.ceil(low / step - 1e-9) * step
    out = []
    while at <= high + step * 1e-6:
        out.append(at)
        at += step
    return out


class Figure:
    """Panels side by side that share their series; `note` says what was measured and how."""

    def __init__(self, title, series, note=""):
        self.title, self.series, self.note = title, list(series), note
        self.panels = []

    def lines(self, label, axis, values):
        """values: for each series a list of (x, y)."""
        self.panels.append(("lines", label, axis, values))
        return self

    def bars(self, label, groups, values):
        """values: for each series a list with (y, low, high) of each group; a missing one is None."""
        self.panels.append(("bars", label, groups, values))
        return self

    def _axes(self, left, label, most):
        out = _text(left, TOP - 10, label)
        out += f'<path d="M{left} {TOP}V{TOP + HEIGHT}H{left + WIDTH}" fill="none" stroke="#000"/>\n'
        for tick in _ticks(0, most * 1.05):
            y = TOP + HEIGHT * (1 - tick / most / 1.1)
            out += _text(left - 6, y + 4, _number(tick), 'text-anchor="end"')
        return out

    def _lines(self, left, label, axis, values):
        xs = [x for line in values for x, _ in line]
        most = max((y for line in values for _, y in line), default=0) or 1
        low, high = min(xs), max(xs)
        x_of = lambda x: left + WIDTH * (x - low) / ((high - low) or 1)
        y_of = lambda y: TOP + HEIGHT * (1 - y / most / 1.1)
        out = self._axes(left, label, most)
        for tick in _ticks(low, high):
            out += _text(x_of(tick), TOP + HEIGHT + 16, _number(tick), 'text-anchor="middle"')
        out += _text(left + WIDTH / 2, TOP + HEIGHT + 32, axis, 'text-anchor="middle"')
        for i, line in enumerate(values):
            points = " ".join(f"{x_of(x):.1f},{y_of(y):.1f}" for x, y in line)
            out += f'<polyline fill="none" stroke-width="1.6" stroke="{COLOURS[i]}" points="{points}"/>\n'
            if len(line) <= 12:
                out += "".join(
                    f'<circle cx="{x_of(x):.1f}" cy="{y_of(y):.1f}" r="3" fill="{COLOURS[i]}"/>\n' for x, y in line
                )
        return out

    def _bars(self, left, label, groups, values):
        most = max((bar[2] for line in values for bar in line if bar), default=0) or 1
        out = self._axes(left, label, most)
        y_of = lambda y: TOP + HEIGHT * (1 - y / most / 1.1)
        slot = WIDTH / len(groups)
        width = 0.8 * slot / len(values)
        for g, group in enumerate(groups):
            out += _text(left + slot * (g + 0.5), TOP + HEIGHT + 16, group, 'text-anchor="middle"')
            for i, line in enumerate(values):
                if not line[g]:
                    continue
                y, low, high = line[g]
                x = left + slot * (g + 0.1) + width * i
                out += (
                    f'<rect x="{x:.1f}" y="{y_of(y):.1f}" width="{width:.1f}" height="{TOP + HEIGHT - y_of(y):.1f}" '
                    f'fill="{COLOURS[i]}"/>\n'
                )
                if high > low:
                    out += f'<path d="M{x + width / 2:.1f} {y_of(low):.1f}V{y_of(high):.1f}" stroke="#000"/>\n'
        return out

    def write(self, path):
        wide = 70 + len(self.panels) * (WIDTH + GAP) - GAP + 30
        wide = max(wide, 70 + 170 * len(self.series))
        wide = max(wide, 480)
        note = textwrap.wrap(self.note, int((wide - 40) / 5.9))
        tall = TOP + HEIGHT + 68 + 15 * len(note)
        out = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {tall}" '
            f'font-family="sans-serif" font-size="12">\n'
            f'<rect width="{wide}" height="{tall}" fill="#fff"/>\n' + _text(20, 20, self.title, 'font-size="14"')
        )
        for i, (kind, label, axis, values) in enumerate(self.panels):
            left = 70 + i * (WIDTH + GAP)
            out += self._lines(left, label, axis, values) if kind == "lines" else self._bars(left, label, axis, values)
        for i, name in enumerate(self.series):
            x = 70 + 170 * i
            out += f'<rect x="{x}" y="{TOP + HEIGHT + 46}" width="14" height="4" fill="{COLOURS[i]}"/>\n' + _text(
                x + 20, TOP + HEIGHT + 52, name
            )
        for i, line in enumerate(note):
            out += _text(20, TOP + HEIGHT + 72 + 15 * i, line, 'fill="#555" font-size="11"')
        path.write_text(out + "</svg>\n")
