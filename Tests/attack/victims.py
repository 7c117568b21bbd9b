"""The call that must not feel anything: two wrtc clients in a process of their own, so that the suite's own work is no gap of theirs.

victims.py HTTP MEDIA ROOM: prepares, joins, writes a line of JSON with both descriptions, then answers each line on its standard input:
`totals` with the counters of both, `stop` with a hang-up.
"""
import asyncio
import json
import os
import pathlib
import shutil
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "interop")]


async def serve(http, media, room):
    from relay import Relay
    from wrtc_call import call_up
    relay = Relay(http=http, media=media)
    try:
        clients = await call_up(relay, room)
        tell([{"uid": client.uid, "bearer": client.bearer, "offer": client.pc.local_description.sdp,
               "answer": client.pc.remote_description.sdp} for client in clients])
        while True:
            line = (await asyncio.to_thread(sys.stdin.readline)).strip()
            if line != "totals":
                break
            tell([await client.totals() for client in clients])
        await clients[0].leave()
        await asyncio.gather(*(client.close() for client in clients))
        tell("stopped")
    finally:
        shutil.rmtree(relay.folder, ignore_errors=True)


def tell(value):
    print(json.dumps(value), flush=True)


class Victims:
    """That process as the suite holds it."""

    @classmethod
    async def start(cls, relay, room):
        self = cls()
        self.process = await asyncio.create_subprocess_exec(
            sys.executable, str(HERE / "victims.py"), relay.http, relay.media, room, stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE, limit=1 << 20)
        self.clients = await self.hear(30)
        return self

    async def hear(self, seconds=10):
        line = await asyncio.wait_for(self.process.stdout.readline(), seconds)
        if not line:
            raise AssertionError("the victims' process has ended")
        return json.loads(line)

    async def ask(self, word):
        self.process.stdin.write(word.encode() + b"\n")
        await self.process.stdin.drain()
        return await self.hear()

    async def totals(self):
        return await self.ask("totals")

    async def stop(self):
        await self.ask("stop")
        self.process.kill()
        await self.process.wait()


if __name__ == "__main__":
    try:
        asyncio.run(serve(*sys.argv[1:4]))
    finally:
        sys.stdout.flush()
        os._exit(0)
