"""Line plots of the lab as SVG: what each client received, over time, through the relay and directly."""

WIDTH, HEIGHT, MARGIN = 860, 190, 46
COLOURS = {"relay": "#2f5fb3", "direct": "#b3702f"}


def rates(series, name):
    return [
        (b["at"], (b[name]["videoBytes"] - a[name]["videoBytes"]) * 8 / 1000 / (b["at"] - a["at"])) for a, b in zip(series, series[1:])]


def frames(series, name):
    return [(b["at"], (b[name]["frames"] - a[name]["frames"]) / (b["at"] - a["at"])) for a, b in zip(series, series[1:])]


PANELS = (
    ("far client receives, video kbit/s", rates, "second"), ("far client decodes, frames/s", frames, "second"),
    ("near client receives, video kbit/s", rates, "first"),
)


def draw(path, results):
    height = HEIGHT * len(PANELS) + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="system-ui, sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
        f'<text x="{MARGIN}" y="18" font-size="14" font-weight="650">{results[0]["profile"]}</text>',
    ]
    for k, way in enumerate(COLOURS):
        parts.append(f'<text x="{WIDTH - 150 + 70 * k}" y="18" fill="{COLOURS[way]}">— {way}</text>')
    for index, (title, figures, name) in enumerate(PANELS):
        top = 30 + HEIGHT * index
        lines = {result["way"]: figures(result["series"], name) for result in results}
        most = max([1.0] + [value for points in lines.values() for _, value in points]) * 1.1
        span = max([1.0] + [at for points in lines.values() for at, _ in points])

        def place(at, value):
            return f"{MARGIN + at / span * (WIDTH - MARGIN - 20):.1f},{top + 22 + (1 - value / most) * (HEIGHT - 60):.1f}"

        parts.append(f'<text x="{MARGIN}" y="{top + 14}" fill="#444">{title}</text>')
        for part in (0, 0.5, 1):
            y = top + 22 + (1 - part) * (HEIGHT - 60)
            parts.append(f'<line x1="{MARGIN}" x2="{WIDTH - 20}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
            parts.append(f'<text x="{MARGIN - 6}" y="{y + 4:.1f}" text-anchor="end" fill="#666">{most * part:.0f}</text>')
        for second in range(0, int(span) + 1, max(1, int(span) // 8)):
            x = MARGIN + second / span * (WIDTH - MARGIN - 20)
            parts.append(f'<text x="{x:.1f}" y="{top + HEIGHT - 20}" text-anchor="middle" fill="#666">{second} s</text>')
        for way, points in lines.items():
            path_points = " ".join(place(at, value) for at, value in points)
            parts.append(f'<polyline points="{path_points}" fill="none" stroke="{COLOURS[way]}" stroke-width="1.8"/>')
    parts.append("</svg>")
    path.write_text("\n".join(parts) + "\n")
