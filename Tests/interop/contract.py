"""Holds the running relay to docs/openapi.yaml: paths, methods, and the form of what it answers. No client needed."""
import json
import re

from relay import ROOT, Relay, check, participant

SCHEMAS = {}


def conform(value, schema, where):
    """The part of JSON Schema that the contract uses."""
    if "$ref" in schema:
        return conform(value, SCHEMAS[schema["$ref"].rsplit("/", 1)[1]], where)
    kinds = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool}
    kind = schema.get("type")
    if isinstance(kind, list):
        if value is None:
            return check("null" in kind, f"{where} is null, not one of {kind}")
        (kind,) = [name for name in kind if name != "null"]
    if kind:
        check(isinstance(value, kinds[kind]), f"{where} is {value!r}, not {kind}")
        check(kind == "boolean" or not isinstance(value, bool), f"{where} is a boolean, not {kind}")
    if "enum" in schema:
        check(value in schema["enum"], f"{where} is {value!r}, not one of {schema['enum']}")
    if "pattern" in schema:
        check(re.search(schema["pattern"], value), f"{where} is {value!r}, not {schema['pattern']}")
    if schema.get("format") == "date-time":
        check(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", value), f"{where} is {value!r}, not a time")
    if "minimum" in schema:
        check(value >= schema["minimum"], f"{where} is {value}, below {schema['minimum']}")
    if kind == "object" and "properties" in schema:
        for name in schema.get("required", []):
            check(name in value, f"{where} has no {name}")
        for name, inner in value.items():
            if name in schema["properties"]:
                conform(inner, schema["properties"][name], f"{where}.{name}")
            else:
                # A field that the contract does not name is a fault of the contract; problems may carry more members.
                check("code" in schema["properties"], f"{where} has {name}, which the contract does not name")
    if kind == "array":
        for index, inner in enumerate(value):
            conform(inner, schema["items"], f"{where}[{index}]")
    return None


def check_slots(relay, held):
    """Wishes for the slots of a session in a group, made with a recorded offer of three m-lines that receive."""
    relay.admin("POST", "/v1/rooms", {"id": "group", "kind": "group", "media": "video"}).expect(201)
    bearer, sdp = participant("group", "alice"), {"Content-Type": "application/sdp"}
    offer = (ROOT / "Tests/Fixtures/sdp/chromium-plain.sdp").read_text()
    made = relay.ask("POST", "/v1/rooms/group/sessions?state=prepared", offer, bearer, sdp).expect(201)
    path = made.headers["Location"] + "/slots"
    (member,) = held(relay.admin("GET", "/v1/rooms/group"), "Room", 200)["participants"]
    mid = {slot["kind"]: slot["mid"] for slot in member["slots"]}

    def put(body):
        return relay.ask("PUT", path, body, bearer)

    wish = {"mid": mid["video"], "uid": "ben", "height": 360}
    view = held(put({"slots": [wish]}), "Participant", 200)
    (slot,) = [slot for slot in view["slots"] if slot["kind"] == "video"]
    check(slot["pinned"] == "ben" and slot["height"] == 360 and slot["uid"] is None, f"the slot is {slot}")
    view = held(put({"slots": []}), "Participant", 200)
    check(not any("pinned" in slot or "height" in slot for slot in view["slots"]), f"the wish stays: {view['slots']}")
    for wrong, status, field in [
        ({"slots": [{"mid": "none"}]}, 422, "slots[0].mid"), ({"slots": [{"mid": mid["audio"]}]}, 422, "slots[0].mid"),
        ({"slots": [{**wish, "uid": "alice"}]}, 422, "slots[0].uid"),
        ({"slots": [{**wish, "height": 5000}]}, 400, "slots[0].height"), ({"slot": []}, 400, "slot"),
    ]:
        problem = held(put(wrong), "Problem", status)
        check(problem["field"] == field, f"{wrong}: {problem}")
    held(relay.ask("PUT", path, {"slots": []}, participant("group", "ben")), "Problem", 404)
    relay.admin("DELETE", "/v1/rooms/group").expect(200)


def check_prompts(relay, held):
    """Prompts of a room in which nobody is: what loops waits, the rest is refused by name."""
    specification = {"id": "heard", "kind": "peer", "media": "audio", "warningTone": "warning"}
    room = held(relay.admin("POST", "/v1/rooms", specification), "Room", 201)
    check(room["warningTone"] == "warning" and "prompts" not in room, f"the room is {room}")
    path = "/v1/rooms/heard/prompts"
    made = relay.admin("POST", path, {"tone": "ringback", "to": ["alice"], "loop": True, "pauseMs": 2000})
    prompt = held(made, "Prompt", 201)
    check(made.headers["Location"] == f"{path}/{prompt['promptId']}" and prompt["listeners"] == [], f"made is {prompt}")
    check(held(relay.admin("GET", "/v1/rooms/heard"), "Room", 200)["prompts"] == [prompt], "the room does not show it")
    for wrong, status, code in [
        ({"tone": "none"}, 422, "unknown-sound"), ({"file": "none"}, 422, "unknown-sound"),
        ({"tone": "busy"}, 409, "nobody-listens"), ({"tone": "busy", "times": 0}, 400, "invalid-field"),
    ]:
        problem = held(relay.admin("POST", path, wrong), "Problem", status)
        check(problem["code"] == code, f"{wrong}: {problem}")
    held(relay.ask("POST", path, {"tone": "busy"}, participant("heard", "alice")), "Problem", 403)
    for _ in range(2):
        relay.admin("DELETE", made.headers["Location"]).expect(200)
    held(relay.admin("DELETE", path + "/s_none"), "Problem", 404)
    held(relay.admin("POST", "/v1/rooms", {**specification, "id": "other", "warningTone": "none"}), "Problem", 422)
    events = [event for event in relay.events(room="heard") if event["type"].startswith("prompt.")]
    check([event.get("reason") for event in events] == [None, "stopped"], f"told was {events}")
    check(all(event["data"]["promptId"] == prompt["promptId"] for event in events), f"told was {events}")
    relay.admin("DELETE", "/v1/rooms/heard").expect(200)


def check_recordings(relay, held):
    """Of a node that keeps none, and of a room in which nobody is."""
    relay.admin("POST", "/v1/rooms", {"id": "kept", "kind": "peer", "media": "audio"}).expect(201)
    path = "/v1/rooms/kept/recordings"
    problem = held(relay.admin("POST", path, {"mix": True}), "Problem", 501)
    check(problem["code"] == "recording-off" and "--recordings" in problem["detail"], f"it is refused as {problem}")
    for wrong in ({"audio": False, "video": False}, {"mix": 1}, {"minutes": 0}, {"colour": "red"}):
        held(relay.admin("POST", path, wrong), "Problem", 400)
    held(relay.ask("POST", path, {}, participant("kept", "alice")), "Problem", 403)
    held(relay.ask("POST", path, {}, participant("other", "alice")), "Problem", 404)
    held(relay.admin("DELETE", path + "/rec_none"), "Problem", 404)
    relay.admin("DELETE", "/v1/rooms/kept").expect(200)


def check_drain(relay, held):
    """The node's state and its drain, with good and bad bodies."""
    node = held(relay.admin("GET", "/v1/node"), "Node", 200)
    check(node["ready"] and not node["draining"] and "drain" not in node, f"the node is {node}")
    state = held(relay.admin("POST", "/v1/node/drain", {"deadlineSeconds": 60}), "Drain", 200)
    check(state["draining"] and state["rooms"] == 0 and state["drainedAt"], f"the drain is {state}")
    check(held(relay.admin("GET", "/v1/node"), "Node", 200)["drain"]["deadline"] == state["deadline"], "the node's differs")
    held(relay.admin("POST", "/v1/rooms", {"id": "late", "kind": "peer", "media": "audio"}), "Problem", 503)
    for wrong in ({"deadlineSeconds": -1}, {"deadlineSeconds": "1"}, {"deadlineSeconds": 604801}, {"deadline": 1}):
        held(relay.admin("POST", "/v1/node/drain", wrong), "Problem", 400)
    held(relay.ask("POST", "/v1/node/drain", {}, participant("late", "alice")), "Problem", 403)
    for _ in range(2):
        check(not held(relay.admin("DELETE", "/v1/node/drain"), "Drain", 200)["draining"], "it drains on")
    check(held(relay.admin("POST", "/v1/node/drain"), "Drain", 200)["draining"], "a drain without a body is refused")
    relay.admin("DELETE", "/v1/node/drain").expect(200)


def api_contract():
    with Relay() as relay:
        served = relay.ask("GET", "/v1/openapi.json").expect(200).json
        written = json.loads((ROOT / "Sources/MediaRelay/Page/openapi.json").read_text())
        check(served == written, "the served contract is not the one of the sources: build again")
        SCHEMAS.update(served["components"]["schemas"])
        checked = 0
        for path, item in served["paths"].items():
            real = path
            for name, value in (("{room}", "r"), ("{participant}", "p_1"), ("{prompt}", "s_1"), ("{recording}", "rec_1"), ("{uid}", "alice")):
                real = real.replace(name, value)
            allowed = set(relay.ask("OPTIONS", real).expect(200, 204).headers["Allow"].split(", "))
            named = {name.upper() for name in item if name != "parameters"}
            check(named == allowed - {"HEAD", "OPTIONS"}, f"{path}: the contract names {named}, the relay {allowed}")
            method = "POST" if "PUT" in allowed else "PUT"
            wrong = relay.ask(method, real).expect(405)
            check(wrong.headers["Content-Type"] == "application/problem+json", f"{method} {path}: no problem document")
            conform(wrong.json, {"$ref": "#/components/schemas/Problem"}, f"{method} {path}")
            for name, operation in item.items():
                if name == "parameters":
                    continue
                answer = relay.ask(name.upper(), real)
                if operation["security"]:
                    answer.expect(401)
                    conform(answer.json, {"$ref": "#/components/schemas/Problem"}, f"{name} {path}")
                else:
                    answer.expect(200)
                checked += 1

        def held(answer, name, *statuses):
            conform(answer.expect(*statuses).json, {"$ref": f"#/components/schemas/{name}"}, name)
            return answer.json

        specification = {"id": "held", "kind": "peer", "media": "video", "timeouts": {"emptyMs": 60000}, "metadata": {"a": [1]}}
        held(relay.admin("POST", "/v1/rooms", specification), "Room", 201)
        held(relay.admin("POST", "/v1/rooms", specification), "Room", 200)
        held(relay.admin("POST", "/v1/rooms", {**specification, "media": "audio"}), "Problem", 409)
        held(relay.admin("POST", "/v1/rooms", {"colour": "red"}), "Problem", 400)
        view = held(relay.admin("GET", "/v1/rooms/held"), "Room", 200)
        check(view["metadata"] == {"a": [1]}, f"the metadata came back as {view.get('metadata')}")
        rooms = held(relay.admin("GET", "/v1/rooms?status=initiated"), "RoomList", 200)
        check([room["id"] for room in rooms["rooms"]] == ["held"], f"the list is {rooms}")
        bearer = participant("held", "alice")
        held(relay.ask("GET", "/v1/rooms/held", bearer=bearer), "Room", 200)
        held(relay.ask("GET", "/v1/rooms/other", bearer=bearer), "Problem", 404)
        held(relay.ask("GET", "/v1/rooms", bearer=bearer), "Problem", 403)
        sdp = {"Content-Type": "application/sdp"}
        held(relay.ask("POST", "/v1/rooms/held/sessions", "not an offer", bearer, sdp), "Problem", 400, 406, 422)
        held(relay.ask("POST", "/v1/rooms/held/sessions", "v=0", bearer, {"Content-Type": "text/plain"}), "Problem", 415)
        relay.admin("DELETE", "/v1/rooms/held").expect(200)
        ended = held(relay.admin("GET", "/v1/rooms/held"), "Room", 200)
        check(ended["status"] == "ended" and ended["outcome"] == "ended", f"the deleted room is {ended}")
        held(relay.admin("POST", "/v1/rooms", specification), "Problem", 410)
        ring = {"caller": "alice", "callees": ["ben"]}
        held(relay.admin("POST", "/v1/rooms", {"id": "rung", "kind": "peer", "media": "audio", "ring": ring}), "Room", 201)
        ben = participant("rung", "ben")
        held(relay.ask("GET", "/v1/calls/rung", bearer=ben), "Problem", 404)
        relay.admin("POST", "/v1/rooms/rung/pushed", {"uid": "ben", "device": "phone"}).expect(200)
        relay.admin("POST", "/v1/rooms/rung/end", {"status": "cancelled", "uid": "alice"}).expect(200)
        calls = held(relay.admin("GET", "/v1/calls"), "CallList", 200)["calls"]
        check([call["roomId"] for call in calls] == ["rung", "held"], f"the call log is {calls}")
        missed = held(relay.admin("GET", "/v1/calls?uid=ben&outcome=missed"), "CallList", 200)["calls"]
        check([call["view"]["status"] for call in missed] == ["missed"], f"ben missed {missed}")
        call = held(relay.ask("GET", "/v1/calls/rung", bearer=ben), "Call", 200)
        check(call["outcome"] == "cancelled" and call["view"]["role"] == "callee", f"ben's record is {call}")
        check(call["endedBy"] == {"kind": "server", "uid": "alice"}, f"it was ended by {call['endedBy']}")
        held(relay.ask("GET", "/v1/calls/held", bearer=ben), "Problem", 404)
        held(relay.ask("GET", "/v1/calls", bearer=ben), "Problem", 403)
        held(relay.admin("GET", "/v1/calls?outcome=missed"), "Problem", 400)
        page = held(
            relay.admin("GET", "/v1/events?after=0", headers={"Accept": "application/json"}), "EventPage", 200)
        types = [event["type"] for event in page["events"]]
        expected = ["node.started", "room.created", "room.closed", "room.created", "call.initiated", "call.ended", "room.closed"]
        check(types == expected, f"the log is {types}")
        metrics = relay.admin("GET", "/metrics").expect(200).body.decode()
        check(re.search(r"^\w+(\{[^}]*\})? [0-9.e+]+$", metrics, re.MULTILINE), "there are no metrics")
        check_slots(relay, held)
        check_prompts(relay, held)
        check_recordings(relay, held)
        check_drain(relay, held)
        return f"{checked} operations, {len(SCHEMAS)} schemas"
