"""The lab in short: one call at 5 % loss and 50 ms round trip through the relay, and the same with no relay between."""
import pathlib
import sys

from relay import check

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lab"))

# So early both senders' rates still rise, with the relay between more slowly: the bounds are wide.
SECONDS = 12


def lab_loss():
    import lab
    from profiles import PROFILES

    relay, direct = (lab.run(PROFILES["loss-5"], SECONDS, is_direct) for is_direct in (False, True))
    notes = []
    for name, sees in (("first", "near"), ("second", "far")):
        own, other = relay[name], direct[name]
        check(own["framesPerSecond"] >= 0.4 * other["framesPerSecond"], f"{sees} sees {own}, directly {other}")
        check(own["concealedPercent"] <= other["concealedPercent"] + 3, f"{sees} hears {own}, directly {other}")
        check(own["freezeSeconds"] <= other["freezeSeconds"] + 4, f"{sees} sees {own}, directly {other}")
        notes.append(
            f"{sees}: {own['framesPerSecond']} frames a second (direct {other['framesPerSecond']}), {own['freezes']} freezes "
            f"({other['freezes']}), {own['concealedPercent']} % concealed ({other['concealedPercent']})")
    check(relay["link"]["ab"]["lost"] > 0 and relay["link"]["ba"]["lost"] > 0, f"the link lost nothing: {relay['link']}")
    return "; ".join(notes)
