"""The network profiles of the lab. The impaired link is that of the second client (`a`: the client, `b`: the relay or, in a direct
call, the other client); the first client's link is perfect, so that a direct call over the same link is a fair comparison.
"Down" is towards the second client. Before a profile begins its link has the delay and nothing else."""
from link import Profile
from networks import MOBILE

DELAY = 25  # one way, milliseconds: 50 ms round trip


def both(**way):
    return {"ab": dict(way), "ba": dict(way)}


def down(**way):
    return {"ab": {"delay": DELAY}, "ba": {"delay": DELAY, **way}}


PROFILES = {profile.name: profile for profile in (
    Profile("clean", **both(delay=DELAY), what="50 ms round trip, as in all that say nothing else"),
    Profile("loss-2", **both(delay=DELAY, loss=0.02), what="2 % random loss each way"),
    Profile("loss-5", **both(delay=DELAY, loss=0.05), what="5 % random loss each way"),
    Profile("loss-10", **both(delay=DELAY, loss=0.10), what="10 % random loss each way"),
    Profile(
        "bursts", **both(delay=DELAY, burst_enter=0.005, burst_leave=0.2, burst_loss=0.8),
        what="bursts: 5 datagrams on average, 80 % of them lost, one in 200 begins one"),
    Profile("jitter", **both(delay=50, jitter=40), what="50 ms one way and up to 40 ms more"),
    Profile("far", **both(delay=200, jitter=20), what="200 ms one way and up to 20 ms more"),
    Profile("reorder", **both(delay=DELAY, reorder=0.02), what="2 % overtaken by 20 ms"),
    Profile("down-300k", **down(rate=300), what="300 kbit/s down"),
    Profile("down-1M", **down(rate=1000), what="1 Mbit/s down"),
    Profile(
        "step", **down(rate=3000), steps=[{"at": 10, "way": "ba", "rate": 400}, {"at": 25, "way": "ba", "rate": 3000}],
        what="3 Mbit/s down, 400 kbit/s from 10 s to 25 s"),
    Profile(
        "delay-step", **both(delay=DELAY), steps=[{"at": 10, "way": "ba", "delay": 75}, {"at": 20, "way": "ba", "delay": DELAY}],
        what="50 ms more delay down from 10 s to 20 s"),
    Profile("loss-down", **down(loss=0.10), what="10 % random loss down, none up"),
    Profile("rebind", **both(delay=DELAY), steps=[{"at": 10, "rebind": True}], what="the client's NAT gives it another address at 10 s"),
    Profile(
        "wifi-mobile", **both(delay=15, rate=8000),
        others=[{"prefix": MOBILE, "ab": {"delay": 45, "jitter": 10, "rate": 2500}, "ba": {"delay": 45, "jitter": 10, "rate": 4000}}],
        what="Wi-Fi (30 ms round trip, 8 Mbit/s) gone at 10 s, then mobile (90 ms, 2.5 Mbit/s up, 4 down)"),
)}
# Where a call in a room with redundant sound (RED) is measured as well.
RED_PROFILES = ("loss-2", "loss-5", "loss-10", "bursts")
# What Chromium is measured with beside libwebrtc's own client: it is the same engine, and slower to measure.
CHROMIUM_PROFILES = ("loss-5", "step", "rebind", "wifi-mobile")
