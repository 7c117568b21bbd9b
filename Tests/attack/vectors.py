"""The hostile bytes of the test vectors, by file and list."""
import json

from relay import ROOT

CASES = ROOT / "Tests/Fixtures/vectors"


def rows(file, name="cases"):
    return json.loads((CASES / f"{file}.json").read_text())[name]


def datagrams(file, name="cases", wanted=lambda row: True):
    """The bytes of the rows that are wanted, no longer than a datagram."""
    found = []
    for row in rows(file, name):
        text = row.get("hex", row.get("protected"))
        if isinstance(text, str) and wanted(row):
            found.append(bytes.fromhex(text)[:1472])
    return found


def seeds(kind):
    return datagrams("fuzz_seeds", wanted=lambda row: row["kind"] == kind)


def named(file, name):
    return next(bytes.fromhex(row.get("hex", row.get("protected"))) for listed in ("cases", "drop") for row in
                json.loads((CASES / f"{file}.json").read_text()).get(listed, []) if row.get("name") == name)
