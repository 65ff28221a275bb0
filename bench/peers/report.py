"""What was measured, as lines, a table in Markdown and a page that needs nothing but itself."""
import html
import statistics

TITLES = {"tokens_per_s": "tokens/s", "first_ms": "first token p50, ms", "gap_p99_ms": "gap p99, ms"}


def line(record):
    figures = ", ".join(f"{record[key]:.1f} {title}" for key, title in TITLES.items() if key in record)
    share = f" ({record['tokens_per_s'] / record['floor']:.0%} of the limit)" if "floor" in record else ""
    return (f"{record['round']} {record['row']:<13} {record['side']:<11} {record['form']:<9} {figures}{share}; "
            f"others {record['others']:.0%}" + (f", read {record['limits']['read'] / 1e9:.0f} GB/s" if "limits" in record else ""))


def medians(records):
    """{(class, row): {(side, form): {figure: median, "share": ..., "range": (lowest, highest) tokens/s}}}, in order."""
    groups = {}
    for record in records:
        groups.setdefault((record["class"], record["row"]), {}).setdefault((record["side"], record["form"]), []).append(record)
    out = {}
    for row, sides in groups.items():
        out[row] = {}
        for side, runs in sides.items():
            values = {key: statistics.median(run[key] for run in runs) for key in TITLES if key in runs[0]}
            if "floor" in runs[0]:
                values["share"] = statistics.median(run["tokens_per_s"] / run["floor"] for run in runs)
            speeds = [run["tokens_per_s"] for run in runs]
            values["range"] = min(speeds), max(speeds)
            out[row][side] = values
    return out


def best_peer(sides):
    """(name, figures) of the fastest of the others; None without any."""
    others = [(side, values) for side, values in sides.items() if side[0] != "coxswain"]
    return max(others, key=lambda item: item[1]["tokens_per_s"], default=None)


def cells(result):
    """A row of texts for each form of ours: class, row, form, tokens/s, share of the limit, best peer, ratio, all peers, rest."""
    for (name, row), sides in medians(result["records"]).items():
        best = best_peer(sides)
        peers = ", ".join(f"{side} {form} {values['tokens_per_s']:.4g}" for (side, form), values in sides.items() if side != "coxswain")
        for (side, form), values in sides.items():
            if side != "coxswain":
                continue
            rest = ", ".join(f"{TITLES[key]} {values[key]:.0f}" + (f" (best peer {best[1][key]:.0f})" if best and key in best[1] else "")
                             for key in ("first_ms", "gap_p99_ms") if key in values)
            yield [f"{row}, {form}", f"{values['tokens_per_s']:.4g}", f"{values['share']:.0%}" if "share" in values else "",
                   f"{values['tokens_per_s'] / best[1]['tokens_per_s']:.2f}x" if best else "", peers, rest]


HEADINGS = ["row", "tokens/s", "of the limit", "of the best peer", "peers, tokens/s", "times"]


def about(result):
    machine = result["machine"]
    records = result["records"]
    limits = [record["limits"] for record in records if "limits" in record]
    reads = [limit["read"] / 1e9 for limit in limits]
    peaks = [f"{kind} {statistics.median(limit[kind] for limit in limits) / 1e12:.2f}" for kind in ("int8", "bf16")]
    others = sorted(record["others"] for record in records)
    return (f"{machine['cpu']} (family {machine['family']}, model {machine['model']}; {', '.join(machine['features'])}), "
            f"{machine['cpus']} CPUs, {machine['memory_gib']} GiB, Linux {machine['kernel']}; {result['date']}, commit {result['commit']}, "
            f"set {limits[0]['set']}, {result['threads']} threads. Read {min(reads):.0f} to {max(reads):.0f} GB/s, peaks "
            f"{' and '.join(peaks)} T operations/s. Other programs had {others[len(others) // 2]:.1%} of the CPUs during half of the "
            f"figures, {others[-1]:.1%} at most. {result['seconds']} s in all. Peers: {', '.join(result['peers'])}.")


def table(result):
    lines = ["| " + " | ".join(HEADINGS) + " |", "|" + "---|" * len(HEADINGS)]
    lines += ["| " + " | ".join(row) + " |" for row in cells(result)]
    return about(result) + "\n\n" + "\n".join(lines)


def bars(row, sides):
    """One row as an SVG of horizontal bars, each with the range of its rounds and our limit as a line."""
    width, left, height = 640, 190, 22
    top = max(values["range"][1] for values in sides.values())
    limit = max((values["tokens_per_s"] / values["share"] for values in sides.values() if "share" in values), default=0)
    scale = (width - left - 70) / max(top, limit if limit < 3 * top else top)
    parts = [f'<svg width="{width}" height="{height * len(sides) + 8}" role="img" aria-label="{html.escape(row)}">']
    for i, ((side, form), values) in enumerate(sides.items()):
        y = i * height + 4
        low, high = (left + scale * value for value in values["range"])
        end = left + scale * values["tokens_per_s"]
        parts.append(f'<text x="{left - 8}" y="{y + 14}" text-anchor="end">{side} {form}</text>'
                     f'<rect x="{left}" y="{y + 2}" width="{end - left:.1f}" height="{height - 6}" class="{"ours" if side == "coxswain" else "peer"}"/>'
                     f'<path d="M{low:.1f} {y + 10}H{high:.1f}"/><text x="{max(end, high) + 6:.1f}" y="{y + 14}">{values["tokens_per_s"]:.4g}</text>')
        if "share" in values:
            x = left + scale * values["tokens_per_s"] / values["share"]
            if x < width:
                parts.append(f'<path class="limit" d="M{x:.1f} {y}v{height - 2}"/>')
    return "".join(parts) + "</svg>"


def page(result):
    rows = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in cells(result))
    plots = "".join(f"<h2>{html.escape(f'{row}, {name}')}</h2>{bars(row, sides)}"
                    for (name, row), sides in medians(result["records"]).items())
    return f"""<!doctype html><html lang="en"><meta charset="utf-8"><title>Coxswain and its peers</title>
<style>body{{font:14px/1.45 sans-serif;max-width:60em;margin:2em auto;padding:0 1em}}table{{border-collapse:collapse}}
td,th{{border:1px solid #bbb;padding:.2em .5em;text-align:left;vertical-align:top}}h2{{font-size:1em;margin:1.2em 0 .2em}}
svg text{{font-size:12px}}.ours{{fill:#2b6cb0}}.peer{{fill:#b8c4d0}}path{{stroke:#222;stroke-width:1.5}}.limit{{stroke:#c53030;stroke-width:2}}</style>
<h1>Coxswain and its peers</h1><p>{html.escape(about(result))}</p>
<p>Bars are medians of tokens/s, the dark line their range over the rounds, the red one what the machine's limits allow ours.</p>
<table><tr>{"".join(f"<th>{heading}</th>" for heading in HEADINGS)}</tr>{rows}</table>{plots}</html>
"""
