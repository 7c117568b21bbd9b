"""Hostile clients with keys, two by two in rooms of their own, for the attacks that need them."""
import asyncio
import itertools
import time

from peer import Peer, credentials

NUMBERS = itertools.count(1)


async def pair(scene, join=True, kind="peer", uids=("mallory", "trent")):
    """Two hostile clients in a room of their own, joined."""
    room = scene.relay.create_room(kind=kind, media="video")
    # Users of their own each time: what an attack that failed left behind is no matter for the next one.
    number = next(NUMBERS)
    peers = [Peer(scene.relay, room, f"{uid}{number}", f"127.0.0.{70 + index}") for index, uid in enumerate(uids)]
    for peer in peers:
        await peer.prepare()
        scene.secrets += [credentials(peer.answer)[1], credentials(peer.offer)[1], peer.bearer]
        if join:
            await peer.join()
    return peers


async def close(scene, *peers):
    for peer in peers:
        await peer.leave()
        await peer.close()


async def until(condition, seconds):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        await asyncio.sleep(0.01)
    return condition()
