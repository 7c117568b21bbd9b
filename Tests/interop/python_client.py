"""The tests of clients/python, against a relay of their own."""
import sys

from relay import ROOT


def python_client():
    sys.path.insert(0, str(ROOT / "clients/python"))
    import test_mediarelay

    return test_mediarelay.run()
