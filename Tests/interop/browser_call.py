"""Calls between browsers on the demo page, and between a browser and wrtc."""
import asyncio
import contextlib
import os
import pathlib
import time

from browser import Page, Reports, chromium, firefox, open_tab
from loss_proxy import LossGate
from relay import ROOT, Relay, check, check_end, check_order

SECONDS = 10
# The calls with loss: so long with it, from the first check on, then so long without, to compare with.
LOSSY_SECONDS, CLEAN_SECONDS = 10, 4


def check_report(report, seconds, name, frames=100, lost=0):
    """What a page must have seen of a good call."""
    figures = report["figures"]
    check(report["error"] is None, f"{name}: {report['error']}; problems {report['problems']}, {report['shown']}")
    check(figures is not None, f"{name}: there are no figures")
    check(figures["framesDecoded"] > frames, f"{name} decoded {figures['framesDecoded']} frames: {figures}")
    check(figures["audioPacketsReceived"] > seconds * 50 * 0.8, f"{name} received too little audio: {figures}")
    check(figures["totalAudioEnergy"] > 0, f"{name} heard silence: {figures}")
    packets_lost = figures["audioPacketsLost"] + figures["videoPacketsLost"]
    check(lost is None or packets_lost <= lost, f"{name} lost {packets_lost} packets: {figures}")
    if figures["srtpCipher"] is not None:  # Firefox does not say.
        check("AEAD_AES_128_GCM" in figures["srtpCipher"], f"{name}: SRTP profile {figures['srtpCipher']}")
    before = report["beforeJoin"]
    check(
        before["audioPacketsReceived"] == before["videoPacketsReceived"] == 0,
        f"{name} received media before it joined: {before}")
    states = [state["state"] for state in report["states"] if state["uid"] == name]
    check(states == ["connecting", "prepared", "joined", "left"], f"{name} went through {states}")


def check_ends(relay, room, leaver, other):
    """Both pages and the log tell the same end."""
    check(leaver["end"]["reason"] == "hangup" and leaver["end"]["outcome"] == "ended", f"{leaver['end']}")
    check(leaver["shown"]["headline"] == "You hung up.", f"the leaver reads: {leaver['shown']}")
    check(other["end"]["reason"] == "peer-left" and other["end"]["outcome"] == "ended", f"{other['end']}")
    check(other["shown"]["headline"] == f"{leaver['name']} hung up.", f"the other reads: {other['shown']}")
    check_order(relay.events())
    check_end(relay.events(room=room), leaver["name"], other["name"])


def summary(reports):
    return "; ".join(
        f"{report['name']}: {report['figures']['framesDecoded']} frames, "
        f"{report['figures']['audioPacketsReceived']} audio packets, "
        f"connected {report['timings'].get('connected', 0) - report['timings'].get('posted', 0)} ms after the offer"
        for report in reports)


def chromium_chromium():
    """Two tabs: prepare, join, talk 10 s, hang up; a picture of it on the way."""
    with Relay() as relay:
        reports = Reports()
        addresses = [
            reports.page(relay, "try", "Ada", SECONDS, leave=True), reports.page(relay, "try", "Grace", SECONDS)]
        with chromium(addresses[0]):
            open_tab(addresses[1])
            page = Page("name=Ada")
            page.until("document.body.dataset.phase === 'joined' && document.getElementById('rate-in').textContent !== '–'",
                       40, "call with figures")
            time.sleep(3)
            target = os.environ.get("CALL_PICTURE") or ROOT / "bench/out/call.png"
            page.picture(target)
            page.picture(pathlib.Path(target).with_name("call-phone-dark.png"), 390, 844, dark=True)
            wide = page.evaluate("document.documentElement.scrollWidth > innerWidth")
            check(wide is False, "the page is wider than a phone")
            shown = page.evaluate(
                "['rtt','loss-in','rate-in','rate-out','picture-in'].map(id => document.getElementById(id).textContent)")
            check(all(text and text != "–" for text in shown), f"the page shows the figures {shown}")
            check(pathlib.Path(target).stat().st_size > 20_000, "the picture of the page is empty")
            page.close()
            first, second = reports.wait(["Ada", "Grace"], 60)
        reports.stop()
        check_report(first, SECONDS, "Ada")
        check_report(second, SECONDS, "Grace")
        check_ends(relay, first["room"], first, second)
        return summary([first, second]) + f"; shown {' · '.join(shown)}"


def by_keyboard(page, key, expected):
    """Presses a key on the control that has the focus, which is to be the expected one."""
    page.ask("Page.bringToFront")
    page.until(f"document.activeElement?.id === '{expected}'", 5, f"focus on {expected}; it is on {page.focus!r}")
    page.press(key)


def chromium_keyboard():
    """The page by hand: two tabs, keys only, from the form to the end and once more."""
    phase = "document.body.dataset.phase"
    with Relay() as relay:
        pages = []
        with chromium(f"http://{relay.http}/?room=keys&name=Ada"):
            open_tab(f"http://{relay.http}/?room=keys&name=Grace")
            for name in ("Ada", "Grace"):
                page = Page(f"name={name}")
                pages.append(page)
                # The script has run when it has filled in the name; before that the tab may still show nothing.
                page.until(f"document.getElementById('name')?.value === '{name}'", 20, "page")
                page.evaluate("document.getElementById('name').focus()")
                by_keyboard(page, "Enter", "name")
                page.until(f"{phase} === 'prepared'", 20, "prepared session")
                shown = page.evaluate("document.getElementById('own-state').textContent")
                check(shown == "prepared", f"the own state reads {shown}")
            ada, grace = pages
            other = "document.getElementById('other-state').textContent"
            ada.until(f"{other} === 'prepared'", 5, "sign of the other")
            for page in pages:
                by_keyboard(page, "Enter", "join")
            for page in pages:
                page.until(f"{phase} === 'joined' && {other} === 'joined'", 10, "call")
                page.ask("Page.bringToFront")
                page.until("document.body.classList.contains('has-picture')", 10, "picture")
            ada.ask("Page.bringToFront")
            ada.evaluate("document.getElementById('mic').focus()")
            by_keyboard(ada, " ", "mic")
            muted = ada.evaluate("document.getElementById('mic').getAttribute('aria-pressed')")
            check(muted == "true", f"the microphone's button is pressed: {muted}")
            ada.press("Tab")
            ada.press("Tab")
            by_keyboard(ada, "Enter", "hangup")
            for page, words in ((ada, "You hung up."), (grace, "Ada hung up.")):
                page.until(f"{phase} === 'ended'", 10, "end")
                shown = page.evaluate("document.getElementById('headline').textContent")
                check(shown == words, f"the end reads {shown!r}, not {words!r}")
                facts = page.evaluate("document.getElementById('subline').textContent")
                check("outcome: ended · reason: hangup" in facts, f"below it stands {facts!r}")
            for page in pages:
                by_keyboard(page, "Enter", "again")
                page.until(f"{phase} === 'prepared'", 20, "second session")
            ada.until(f"{other} === 'prepared'", 5, "sign of the other in the second call")
            for page in pages:
                page.close()
        check_order(relay.events())
        return "form, join, mute, hang up, call again"


def chromium_firefox():
    """Firefox pairs no loopback candidates: media is on the namespace's address, the page on loopback (a secure context)."""
    with Relay(media="10.99.0.1:40000") as relay:
        reports = Reports()
        with firefox(reports.page(relay, "try", "Ada", SECONDS, leave=True)):
            with chromium(reports.page(relay, "try", "Grace", SECONDS)):
                first, second = reports.wait(["Ada", "Grace"], 100)
        reports.stop()
        check_report(first, SECONDS, "Ada")
        check_report(second, SECONDS, "Grace")
        check_ends(relay, first["room"], first, second)
        return summary([first, second])


def grown(samples, name):
    return samples[-1][name] - samples[0][name]


def check_quality(report, name):
    """The picture at loss beside that of the same call without, pause by pause; the sound. Returns a line of figures."""
    samples = report["samples"]
    start = samples[0]["atMs"]
    lossy = [one for one in samples if one["atMs"] <= start + LOSSY_SECONDS * 1000]
    clean = [one for one in samples if one["atMs"] >= start + (LOSSY_SECONDS + 1) * 1000]
    check(len(lossy) > 20 and len(clean) > 5, f"{name} took {len(lossy)} and {len(clean)} samples")
    rates = [grown(part, "framesDecoded") / grown(part, "atMs") * 1000 for part in (lossy, clean)]
    # Pauses as the samples show them, 200 ms apart, from the first picture on. The wait for that is apart: when the first
    # packets of a stream are lost the receiver cannot ask for them again, and the next key frame is up to 500 ms away.
    first = next((one["atMs"] - start for one in samples if one["framesDecoded"]), None)
    check(first is not None and first <= 2000, f"{name} had its first picture after {first} ms")
    shown = [one for one in samples if one["framesDecoded"]]
    longest, last = 0, shown[0]
    for one in shown:
        longest = max(longest, one["atMs"] - last["atMs"])
        if one["framesDecoded"] > last["framesDecoded"]:
            last = one
    # A freeze is added to the total when it is over: two in one interval count as one, which errs to the strict side.
    durations = [one["totalFreezesDuration"] for one in samples]
    freeze = max((after - before for before, after in zip(durations, durations[1:]) if None not in (before, after)),
                 default=None)
    audio = grown(lossy, "audioPacketsReceived") / grown(lossy, "atMs") * 1000
    concealed = grown(lossy, "concealedSamples") / max(1, grown(lossy, "samplesReceived"))
    figures = report["figures"]
    line = (
        f"{name}: {grown(lossy, 'framesDecoded')} frames, {rates[0]:.1f} a second at loss, {rates[1]:.1f} without, "
        f"first picture within {first} ms, longest pause {longest} ms, {figures['freezeCount']} freezes, the longest "
        f"{'not told' if freeze is None else f'{freeze * 1000:.0f} ms'}, {audio:.0f} audio packets a second, "
        f"{concealed:.1%} concealed, {figures['nackSent']} NACKs, {figures['pliSent']} PLIs, "
        f"{figures['videoPacketsLost']} video packets lost on the way")
    print(line, flush=True)
    check(rates[1] > 10, f"too few frames even without loss: {line}")
    check(rates[0] > 0.8 * rates[1], f"fewer frames at loss: {line}")
    check(longest <= 1000, f"the picture stood for more than a second: {line}")
    check(freeze is None or freeze <= 1, f"the picture froze for more than a second: {line}")
    check(audio > 50 * 0.8, f"too little sound: {line}")
    return line


def lossy_call(other):
    """A call on the page at 5 % loss on all four ways: the relay announces the address of a gate that loses datagrams."""
    with Relay(media="10.99.0.1:40000", announce=["10.99.0.9"]) as relay:
        reports = Reports()
        gate = LossGate(("10.99.0.9", 40000), ("10.99.0.1", 40000), 0.05, seed=5)
        seconds = LOSSY_SECONDS + CLEAN_SECONDS + 1
        addresses = [
            reports.page(relay, "try", "Ada", seconds, leave=True), reports.page(relay, "try", "Grace", seconds)]
        with contextlib.ExitStack() as browsers:
            browsers.enter_context(other(addresses[0]))
            if other is chromium:
                open_tab(addresses[1])
            else:
                browsers.enter_context(chromium(addresses[1]))
            for name in ("Ada", "Grace"):
                relay.await_event("participant.joined", None, 60, uid=name)
            time.sleep(LOSSY_SECONDS + 0.5)
            gate.is_lossy = False
            first, second = reports.wait(["Ada", "Grace"], 60)
        reports.stop()
        gate.stop()
        flows = gate.busiest(2)
        lost = [flow.lost[way] for flow in flows for way in ("up", "down")]
        print(f"lost {lost}, passed {[flow.passed for flow in gate.flows.values()]}", flush=True)
        lines = [check_quality(first, "Ada"), check_quality(second, "Grace")]
        check(len(flows) == 2 and min(lost) > 30, f"so few datagrams were lost that the test is too easy: {lost}")
        for report in (first, second):
            check_report(report, seconds, report["name"], lost=None)
        check_ends(relay, first["room"], first, second)
        return f"{sum(lost)} datagrams lost; " + "; ".join(lines)


def chromium_chromium_loss():
    return lossy_call(chromium)


def chromium_firefox_loss():
    return lossy_call(firefox)


async def browser_and_wrtc(relay, reports):
    from wrtc_client import WrtcClient

    session = await asyncio.to_thread(relay.demo_session, "try", "wren")
    room = session["room"]
    client = WrtcClient(relay, room, "wren", session["token"], warm=False)
    await client.prepare()
    with chromium(reports.page(relay, "try", "Ada", SECONDS, leave=True)):
        await asyncio.to_thread(relay.await_event, "participant.joined", room, 60, uid="Ada")
        check((await client.totals())["audioPackets"] == 0, "wrtc received media before it joined")
        await client.join()
        await client.until(lambda totals: totals["framesDecoded"] > 100, 30, "100 frames")
        totals = await client.totals()
        (report,) = await asyncio.to_thread(reports.wait, ["Ada"], 60)
    check(totals["lost"] == 0, f"wrtc lost packets: {totals}")
    check(totals["audioPackets"] > 100 and totals["audioEnergy"] > 0, f"wrtc heard nothing: {totals}")
    await client.close()
    return report, totals


def chromium_wrtc():
    with Relay() as relay:
        reports = Reports()
        report, totals = asyncio.run(browser_and_wrtc(relay, reports))
        reports.stop()
        check_report(report, SECONDS, "Ada")
        check(report["shown"]["headline"] == "You hung up.", f"the page reads {report['shown']}")
        check_order(relay.events())
        check_end(relay.events(room=report["room"]), "Ada", "wren")
        return summary([report]) + f"; wrtc: {totals['framesDecoded']} frames"
