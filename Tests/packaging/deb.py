#!/usr/bin/env python3
"""Tries the Debian package where there is nothing but Debian: a chroot made by debootstrap. It installs there, its unit's ExecStart runs as
the unit's user, the doctor is content, two real clients call each other, a newer program takes over without a stop, and after
`apt remove` nothing runs.

Usage: Tests/packaging/deb.py [PACKAGE.deb]     (default: the newest in dist/) ends with "deb: N passed, 0 failed". Needs root. The base system is kept in
.build/debootstrap for the next time; packages come from the mirrors of this machine's own apt.
"""
import asyncio
import ctypes
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "Tests/interop"))
import relay as relay_module  # noqa: E402
from relay import Relay, check  # noqa: E402

BASE = ROOT / ".build/debootstrap"
UNIT = "usr/lib/systemd/system/media-relay.service"


def output(*words, **options):
    return subprocess.run([str(word) for word in words], check=True, text=True, stdout=subprocess.PIPE, **options).stdout.strip()


def mirror():
    """Where this machine's apt gets Debian from, and which Debian."""
    codename = re.search(r"VERSION_CODENAME=(\w+)", pathlib.Path("/etc/os-release").read_text()).group(1)
    lines = output("apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages").splitlines()
    for line in lines:
        uri, release, component = (line.split() + ["", "", ""])[:3]
        if release == codename and component == "main":
            return uri, codename
    sys.exit("apt has no source of Debian")


class Chroot:
    """A Debian of its own, in a temporary folder."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="media-relay-deb-"))
        self.root = self.folder / "root"

    def make(self):
        uri, codename = mirror()
        archive = BASE / f"{codename}.tar"
        if not archive.exists():
            BASE.mkdir(parents=True, exist_ok=True)
            subprocess.run(["debootstrap", "--variant=minbase", codename, str(self.root), uri], check=True, stdout=subprocess.DEVNULL)
            subprocess.run(["tar", "-C", str(self.root), "-cf", f"{archive}.new", "."], check=True)
            os.rename(f"{archive}.new", archive)
        else:
            self.root.mkdir()
            subprocess.run(["tar", "-C", str(self.root), "-xf", str(archive)], check=True)
        for place in ("proc", "dev"):
            subprocess.run(["mount", "--rbind" if place == "dev" else "--bind", f"/{place}", str(self.root / place)], check=True)
        shutil.copy("/etc/resolv.conf", self.root / "etc/resolv.conf")
        # No services are started in a chroot.
        policy = self.root / "usr/sbin/policy-rc.d"
        policy.write_text("#!/bin/sh\nexit 101\n")
        policy.chmod(0o755)

    def run(self, *words, user=None, code=0, env=None):
        command = ["chroot"] + ([f"--userspec={user}:{user}"] if user else []) + [str(self.root), *map(str, words)]
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "LANG": "C.UTF-8", **(env or {})}
        done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600)
        check(code is None or done.returncode == code, f"{words} ended with {done.returncode}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done.stdout

    def processes(self):
        """Those of the package's program."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                if os.readlink(entry / "exe").removesuffix(" (deleted)") == str(self.root / "usr/bin/media-relay"):
                    found.append(int(entry.name))
            except OSError:
                pass
        return found

    def remove(self):
        for pid in self.processes():
            os.kill(pid, signal.SIGKILL)
        for place in ("dev", "proc"):
            subprocess.run(["umount", "-l", str(self.root / place)], stderr=subprocess.DEVNULL)
        shutil.rmtree(self.folder, ignore_errors=True)


class UnitRelay(Relay):
    """The installed node, started as its unit says."""

    def __init__(self, chroot):
        super().__init__()
        self.chroot = chroot
        self.data = "/var/lib/media-relay"
        unit = (chroot.root / UNIT).read_text()
        self.command = re.search(r"^ExecStart=(.*)$", unit, re.MULTILINE).group(1).split()
        self.check_command = re.search(r"^ExecStartPre=(.*)$", unit, re.MULTILINE).group(1).split()

    def start(self, ready=200):
        self.chroot.run(*self.check_command, user="media-relay")
        command = ["chroot", "--userspec=media-relay:media-relay", str(self.chroot.root), *self.command]
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env={
                "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "STATE_DIRECTORY": self.data})
        self.wait_ready(ready=ready)

    def log(self):
        return pathlib.Path(self.log_path).read_text(errors="replace")


def installs(chroot, package):
    shutil.copy(package, chroot.root / "media-relay.deb")
    chroot.run("apt-get", "update", "-qq")
    chroot.run("apt-get", "install", "-y", "-qq", "--no-install-recommends", "/media-relay.deb")
    check("media-relay " in chroot.run("media-relay", "version"), "no version")
    modes = {path: oct((chroot.root / path).stat().st_mode & 0o7777) for path in ("etc/media-relay/key", "var/lib/media-relay")}
    check(modes == {"etc/media-relay/key": "0o400", "var/lib/media-relay": "0o700"}, f"the modes are {modes}")
    missing = [line for line in chroot.run("ldd", "/usr/bin/media-relay").splitlines() if "not found" in line]
    check(not missing, f"missing: {missing}")
    swift = [line for line in chroot.run("ldd", "/usr/bin/media-relay").splitlines() if "wift" in line or "Foundation" in line]
    check(not swift, f"linked dynamically: {swift}")
    chroot.run("dpkg", "--verify", "media-relay")
    return chroot.run("dpkg-query", "-W", "-f", "${Version}, ${Installed-Size} KB", "media-relay")


def doctor(chroot, _package):
    text = chroot.run("media-relay", "doctor", "--config", "/etc/media-relay/media-relay.json5", user="media-relay", code=None)
    check("FAIL" not in text and " 0 failed" in text, f"the doctor says {text}")
    return text.strip().splitlines()[-1]


def calls(chroot, _package):
    from wrtc_call import plain
    relay_module.KEY_ID, relay_module.SECRET = "main", (chroot.root / "etc/media-relay/key").read_text()
    with UnitRelay(chroot) as relay:
        note = asyncio.run(plain(relay, warm=True))
        listed = chroot.run("media-relay", "calls", "--config", "/etc/media-relay/media-relay.json5", user="media-relay")
        check("ended" in listed, f"the call is not in the log: {listed}")
        check(len(chroot.processes()) >= 2, "control and its workers are not there")
        # A new file under the old name, as dpkg does it, and SIGHUP, as the unit's reload does it.
        program = chroot.root / "usr/bin/media-relay"
        shutil.copy(program, program.with_name("media-relay.new"))
        os.rename(program.with_name("media-relay.new"), program)
        pid = relay.process.pid
        os.kill(pid, signal.SIGHUP)
        deadline = time.monotonic() + 20
        while "has taken over" not in relay.log():
            check(time.monotonic() < deadline and relay.process.poll() is None, f"no program took over: {relay.log()[-2000:]}")
            time.sleep(0.05)
        relay.ask("GET", "/readyz").expect(200)
        # It is removed while it runs.
        chroot.run("apt-get", "remove", "-y", "-qq", "media-relay")
        check(not chroot.processes(), f"after apt remove these run: {chroot.processes()}")
        relay.process.wait(5)
    return note


def removes(chroot, _package):
    check((chroot.root / "etc/media-relay/key").exists(), "a removal took the key along")
    check(not (chroot.root / "usr/bin/media-relay").exists(), "the program is still there")
    chroot.run("apt-get", "purge", "-y", "-qq", "media-relay")
    left = [path for path in ("etc/media-relay", "var/lib/media-relay", UNIT) if (chroot.root / path).exists()]
    check(not left, f"a purge left {left}")
    check("media-relay" not in (chroot.root / "etc/passwd").read_text(), "a purge left the user")
    return "nothing is left"


def leave_the_network():
    """From here on in a network of its own: an address, a route, and nothing that answers."""
    from run import set_up_network
    if ctypes.CDLL(None, use_errno=True).unshare(0x40000000) != 0:  # CLONE_NEWNET
        raise OSError(ctypes.get_errno(), "unshare")
    set_up_network("veth")


def main():
    if os.geteuid() != 0:
        sys.exit("deb.py: a chroot needs root")
    if "--inside" not in sys.argv:
        # Mounts of its own: what it mounts nobody else sees, and ends with it.
        os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", sys.executable, *sys.argv, "--inside"])
    sys.argv.remove("--inside")
    packages = sorted((ROOT / "dist").glob("*.deb"), key=lambda path: path.stat().st_mtime)
    package = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else packages[-1] if packages else sys.exit("make deb first")
    chroot = Chroot()
    passed = failed = 0
    try:
        chroot.make()
        for test in (installs, doctor, calls, removes):
            started = time.monotonic()
            try:
                if test is doctor:
                    leave_the_network()
                note = test(chroot, package)
                passed += 1
                print(f"pass {test.__name__} ({time.monotonic() - started:.1f} s): {note}", flush=True)
            except Exception as error:  # noqa: BLE001 — any failure is the test's result
                failed += 1
                print(f"FAIL {test.__name__}: {error}", flush=True)
    finally:
        chroot.remove()
    print(f"deb: {passed} passed, {failed} failed")
    return 0 if failed == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
