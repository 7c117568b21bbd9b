"""The network profiles of the lab. The impaired link is that of the second client (`a`: the client, `b`: the relay or, in a direct
call, the other client); the first client's link is perfect, so that a direct call over the same link is a fair comparison."""
from link import Profile


def both(**way):
    return {"ab": dict(way), "ba": dict(way)}


DELAY = 25  # one way, milliseconds: 50 ms round trip

PROFILES = {
    "clean": Profile("clean", **both(delay=DELAY)),
    "loss-2": Profile("loss-2", **both(delay=DELAY, loss=0.02)),
    "loss-5": Profile("loss-5", **both(delay=DELAY, loss=0.05)),
    "loss-10": Profile("loss-10", **both(delay=DELAY, loss=0.10)),
    "bursts": Profile("bursts", **both(delay=DELAY, burst_enter=0.005, burst_leave=0.2, burst_loss=0.8)),
    "jitter": Profile("jitter", **both(delay=50, jitter=40)),
    "far": Profile("far", **both(delay=200, jitter=20)),
    "reorder": Profile("reorder", **both(delay=DELAY, reorder=0.02)),
    "down-300k": Profile("down-300k", ab={"delay": DELAY}, ba={"delay": DELAY, "rate": 300}),
    "down-1M": Profile("down-1M", ab={"delay": DELAY}, ba={"delay": DELAY, "rate": 1000}),
    # 3 Mbit/s, 400 kbit/s from 10 s to 25 s, 3 Mbit/s.
    "step": Profile(
        "step", ab={"delay": DELAY}, ba={"delay": DELAY, "rate": 3000},
        steps=[{"at": 10, "way": "ba", "rate": 400}, {"at": 25, "way": "ba", "rate": 3000}]),
}
