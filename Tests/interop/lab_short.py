"""The lab in short: one call at 5 % loss and 50 ms round trip through the relay, and the same with no relay between, side by side."""
import pathlib
import sys

from relay import check

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lab"))

SECONDS = 15


def lab_loss():
    import lab

    relay, direct = lab.calls("loss-5", "wrtc", SECONDS)
    notes = []
    for name, sees in (("first", "near"), ("second", "far")):
        own, other = relay[name], direct[name]
        check(own["framesPerSecond"] >= 0.8 * other["framesPerSecond"], f"{sees} sees {own}, directly {other}")
        check(own["concealedPercent"] <= other["concealedPercent"] + 3, f"{sees} hears {own}, directly {other}")
        check(own["freezeSeconds"] <= other["freezeSeconds"] + 2, f"{sees} sees {own}, directly {other}")
        check(own["encodedKbit"] >= 0.25 * other["encodedKbit"], f"{sees} sends {own}, directly {other}")
        notes.append(
            f"{sees}: {own['framesPerSecond']} frames a second (direct {other['framesPerSecond']}), sends {own['encodedKbit']} "
            f"kbit/s ({other['encodedKbit']}), {own['freezes']} freezes ({other['freezes']}), {own['concealedPercent']} % concealed "
            f"({other['concealedPercent']})")
    check(relay["link"]["ab"]["lost"] > 0 and relay["link"]["ba"]["lost"] > 0, f"the link lost nothing: {relay['link']}")
    return "; ".join(notes)
