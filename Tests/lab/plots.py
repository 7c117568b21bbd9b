"""Line plots of the lab as SVG: what each client received, over time, through the relay and directly."""

WIDTH, HEIGHT, MARGIN = 860, 170, 46
COLOURS = {"relay": "#2f5fb3", "direct": "#b3702f", "red": "#b32f4a"}


def grown(field, factor):
    def points(series, name):
        return [(b["at"], (b[name][field] - a[name][field]) * factor / (b["at"] - a["at"])) for a, b in zip(series, series[1:])]

    return points


def encodes(series, name):
    return [(sample["at"], sample[name]["targetRate"] / 1000) for sample in series]


def round_trip(series, name):
    return [(sample["at"], sample[name]["roundTrip"] * 1000) for sample in series]


def concealed(series, name):
    found = []
    for a, b in zip(series, series[1:]):
        count = max(1, b[name]["samples"] - a[name]["samples"])
        gone = b[name]["concealed"] - a[name]["concealed"] - b[name]["silentConcealed"] + a[name]["silentConcealed"]
        found.append((b["at"], 100 * gone / count))
    return found


PANELS = (
    ("near's encoder makes, kbit/s", encodes, "first"), ("far receives, video kbit/s (direct: with ULPFEC)", grown("videoBytes", 8 / 1000), "second"),
    ("far decodes, frames/s", grown("frames", 1), "second"), ("far hears, concealed %", concealed, "second"),
    ("far's round trip, ms", round_trip, "second"),
)


def draw(path, results, what):
    height = HEIGHT * len(PANELS) + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="system-ui, sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
        f'<text x="{MARGIN}" y="18" font-size="14" font-weight="650">{results[0]["profile"]}: {what} ({results[0]["client"]})</text>',
    ]
    for k, way in enumerate(COLOURS):
        parts.append(f'<text x="{WIDTH - 190 + 60 * k}" y="18" fill="{COLOURS[way]}">— {way}</text>')
    for index, (title, figures, name) in enumerate(PANELS):
        lines = {result["way"]: figures(result["series"], name) for result in results}
        parts += panel(title, lines, 30 + HEIGHT * index)
    parts.append("</svg>")
    path.write_text("\n".join(parts) + "\n")


def panel(title, lines, top):
    most = max([1.0] + [value for points in lines.values() for _, value in points]) * 1.1
    span = max([1.0] + [at for points in lines.values() for at, _ in points])

    def place(at, value):
        return f"{MARGIN + at / span * (WIDTH - MARGIN - 20):.1f},{top + 22 + (1 - value / most) * (HEIGHT - 60):.1f}"

    yield f'<text x="{MARGIN}" y="{top + 14}" fill="#444">{title}</text>'
    for part in (0, 0.5, 1):
        y = top + 22 + (1 - part) * (HEIGHT - 60)
        yield f'<line x1="{MARGIN}" x2="{WIDTH - 20}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
        yield f'<text x="{MARGIN - 6}" y="{y + 4:.1f}" text-anchor="end" fill="#666">{most * part:.{0 if most > 10 else 1}f}</text>'
    for second in range(0, int(span) + 1, max(1, int(span) // 8)):
        x = MARGIN + second / span * (WIDTH - MARGIN - 20)
        yield f'<text x="{x:.1f}" y="{top + HEIGHT - 20}" text-anchor="middle" fill="#666">{second} s</text>'
    for way, points in lines.items():
        path = " ".join(place(at, value) for at, value in points)
        yield f'<polyline points="{path}" fill="none" stroke="{COLOURS[way]}" stroke-width="1.8"/>'
