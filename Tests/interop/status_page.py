"""The status page in Chromium: a live call's legs and an ended one's are drawn of what the API tells, and without a token nothing is."""
import asyncio
import os
import re

from browser import Page, chromium
from network_change import pair
from relay import ADMIN, Relay, check, token

DRAWN = "document.querySelectorAll('#detail article svg').length == 8"


def check_drawn(page, room, words):
    """Two legs, four figures each, with lines that go somewhere."""
    page.until(f"{DRAWN} && document.querySelector('#detail header .pill').textContent == '{words}'", 10, f"{words} call")
    detail = page.evaluate("document.getElementById('detail').innerHTML")
    for name in ("alice (test)", "bob (test)", "participant.joined", f"<h2>{room}</h2>"):
        check(name in detail, f"{words}: {name} is not shown: {detail[:3000]}")
    lines = re.findall(r'class="(?:up|down|both)" d="(M[^"]+H[^"]+)"', detail)
    check(len(lines) == 14, f"{words}: {len(lines)} lines are drawn")
    check("NaN" not in detail and "undefined" not in detail, f"{words}: something is not a number")


async def status_page_async(relay, page):
    page.until("document.readyState == 'complete' && !document.getElementById('login').hidden", 20, "form without a token")
    page.evaluate("document.getElementById('token').value = 'none'; document.querySelector('#login button').click()")
    page.until("document.getElementById('problem').textContent.includes('The token is refused')", 10, "refusal")
    check(page.evaluate("document.getElementById('board').hidden"), "a wrong token shows something")
    room, clients = await pair(relay)
    page.evaluate(f"document.getElementById('token').value = '{token(ADMIN)}'; document.querySelector('#login button').click()")
    page.until("document.querySelector('#live button') != null", 10, "live room")
    page.evaluate("document.querySelector('#live button').click()")
    await asyncio.sleep(float(os.environ.get("STATUS_SECONDS", 6)))
    check_drawn(page, room, "ongoing")
    if folder := os.environ.get("STATUS_PICTURES"):
        for dark in (False, True):
            page.picture(os.path.join(folder, "status-dark.png" if dark else "status.png"), 1280, 1040, dark)
    for client in clients:
        await client.leave()
    for client in clients:
        await client.close()
    page.until("document.querySelectorAll('#ended button').length == 1", 10, "ended room")
    check_drawn(page, room, "ended")
    check("eyJ" not in page.evaluate("location.href"), "the token stands in the address")


def status_page():
    with Relay() as relay, chromium(f"http://{relay.http}/status"):
        asyncio.run(status_page_async(relay, Page("/status")))
    return "a live and an ended call: two legs, 14 lines each"
