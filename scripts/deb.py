#!/usr/bin/env python3
"""Builds the Debian package: the release binary with the Swift runtime linked statically, the unit, configuration, manual page and completions
of deploy/debian, as dist/media-relay_VERSION_ARCHITECTURE.deb.

Usage: scripts/deb.py [--check]    --check builds twice, the second time under another path, and says whether both are the same bytes.
The same commit, toolchain and system libraries give the same bytes: paths are mapped, times are the commit's (SOURCE_DATE_EPOCH).
"""
import argparse
import gzip
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
DEBIAN = ROOT / "deploy/debian"
# Loaded when it is there (x86-64): four times as fast as OpenSSL.
CIPHER = {"amd64": ", libipsec-mb1"}


def run(*words, **options):
    return subprocess.run([str(word) for word in words], check=True, text=True, **options)


def output(*words, **options):
    return run(*words, stdout=subprocess.PIPE, **options).stdout.strip()


def version():
    """The one place: Sources/MediaRelay/Version.swift. The changelog begins with the same."""
    text = (ROOT / "Sources/MediaRelay/Version.swift").read_text()
    found = re.search(r'text = "([^"]+)"', text).group(1)
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE).group(1)
    if newest != found:
        sys.exit(f"CHANGELOG.md begins with {newest}, Version.swift says {found}")
    return found


def epoch():
    given = os.environ.get("SOURCE_DATE_EPOCH")
    return given or output("git", "-C", ROOT, "log", "-1", "--format=%ct")


def build(source, scratch):
    """The stripped binary. `source`: the tree as the compiler is to see it."""
    swift = os.environ.get("SWIFT", "swift")
    shown = "/usr/src/media-relay"
    prefix = f"{source}={shown}"
    words = [
        swift, "build", "-c", "release", "--product", "media-relay", "--scratch-path", scratch, "--static-swift-stdlib",
        "-Xswiftc", "-file-prefix-map", "-Xswiftc", prefix, "-Xcc", f"-ffile-prefix-map={prefix}",
        "-Xswiftc", "-file-prefix-map", "-Xswiftc", f"{scratch}=/usr/src/build", "-Xcc", f"-ffile-prefix-map={scratch}=/usr/src/build",
        # The build id is a hash of the contents.
        "-Xlinker", "--build-id=sha1",
    ]
    run(*words, cwd=source, env={**os.environ, "SOURCE_DATE_EPOCH": epoch()})
    binary = pathlib.Path(output(*words, "--show-bin-path", cwd=source)) / "media-relay"
    stripped = pathlib.Path(scratch) / "media-relay.stripped"
    run("strip", "--strip-all", "-o", stripped, binary)
    return stripped


def depends(binary):
    """Packages of the shared libraries, by dpkg-shlibdeps."""
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "debian").mkdir()
        (pathlib.Path(folder) / "debian/control").write_text("Source: media-relay\n\nPackage: media-relay\nArchitecture: any\n")
        line = output("dpkg-shlibdeps", "-O", binary, cwd=folder)
    return line.removeprefix("shlibs:Depends=")


def compressed(text):
    return gzip.compress(text.encode(), compresslevel=9, mtime=0)


def changelog(found, seconds):
    """CHANGELOG.md in Debian's form: one entry for the newest version; the whole file stands beside it."""
    date = output("date", "-R", "-u", "-d", f"@{seconds}")
    return f"media-relay ({found}) stable; urgency=medium\n\n  * See CHANGELOG.md.\n\n -- The MediaRelay authors <maintainers@media-relay.invalid>  {date}\n"


def configuration(binary):
    """Every option as a comment, and what this package sets."""
    text = output(binary, "config", "default")
    own = """{
  // What the package sets: where the state is, and the key that its installation has drawn.

  data: "/var/lib/media-relay",
  key: ["main:@/etc/media-relay/key"],

"""
    return text.replace("{\n", own, 1) + "\n"


def pack(binary, target):
    """Lays out the tree and makes the package of it."""
    found, seconds = version(), epoch()
    architecture = output("dpkg", "--print-architecture")
    with tempfile.TemporaryDirectory() as folder:
        tree = pathlib.Path(folder, "tree")

        def put(path, data, mode=0o644):
            place = tree / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data if isinstance(data, bytes) else data.encode())
            place.chmod(mode)

        put("usr/bin/media-relay", pathlib.Path(binary).read_bytes(), 0o755)
        put("usr/lib/systemd/system/media-relay.service", (DEBIAN / "media-relay.service").read_text())
        put("usr/share/doc/media-relay/examples/60-media-relay.conf", (DEBIAN / "60-media-relay.conf").read_text())
        put("usr/share/doc/media-relay/copyright", (DEBIAN / "copyright").read_text())
        put("usr/share/doc/media-relay/changelog.gz", compressed((ROOT / "CHANGELOG.md").read_text()))
        put("usr/share/doc/media-relay/changelog.Debian.gz", compressed(changelog(found, seconds)))
        put("usr/share/man/man1/media-relay.1.gz", compressed(output(binary, "man") + "\n"))
        for shell, path in [
            ("bash", "usr/share/bash-completion/completions/media-relay"), ("zsh", "usr/share/zsh/vendor-completions/_media-relay"),
            ("fish", "usr/share/fish/vendor_completions.d/media-relay.fish"),
        ]:
            put(path, output(binary, "completion", shell) + "\n")
        put("etc/media-relay/media-relay.json5", configuration(binary))
        size = sum(path.stat().st_size for path in tree.rglob("*") if path.is_file()) // 1024
        control = (DEBIAN / "control.in").read_text()
        for name, value in [
            ("VERSION", found), ("ARCHITECTURE", architecture), ("SIZE", str(size)), ("DEPENDS", depends(binary)),
            ("RECOMMENDS", CIPHER.get(architecture, "")),
        ]:
            control = control.replace(f"@{name}@", value)
        put("DEBIAN/control", control)
        put("DEBIAN/conffiles", "/etc/media-relay/media-relay.json5\n")
        for script in ("postinst", "prerm", "postrm"):
            put(f"DEBIAN/{script}", (DEBIAN / script).read_text(), 0o755)
        sums = [
            f"{hashlib.md5(path.read_bytes()).hexdigest()}  {path.relative_to(tree)}\n"
            for path in sorted(tree.rglob("*")) if path.is_file() and "DEBIAN" not in path.parts
        ]
        put("DEBIAN/md5sums", "".join(sums))
        for path in tree.rglob("*"):
            if path.is_dir():
                path.chmod(0o755)
        package = pathlib.Path(target) / f"media-relay_{found}_{architecture}.deb"
        package.parent.mkdir(parents=True, exist_ok=True)
        run("dpkg-deb", "--root-owner-group", "--threads-max=1", "-Zxz", "--build", tree, package,
            env={**os.environ, "SOURCE_DATE_EPOCH": seconds}, stdout=subprocess.DEVNULL)
    return package


def digest(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


def twice(first):
    """Another build, of a copy under another path."""
    with tempfile.TemporaryDirectory(prefix="media-relay-again-") as folder:
        source = pathlib.Path(folder, "elsewhere")
        run("git", "clone", "-q", ROOT, source)
        # What is not committed belongs to it as well.
        changed = output("git", "-C", ROOT, "ls-files", "-m", "-o", "--exclude-standard").splitlines()
        for name in changed:
            if (ROOT / name).is_file():
                (source / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, source / name)
        binary = build(source, str(source / ".build/deb"))
        second = pack(binary, folder)
        print(f"{digest(first)}  {first.name}\n{digest(second)}  the same, built under {source}")
        return digest(first) == digest(second)


def main():
    parser = argparse.ArgumentParser(description="Builds the Debian package.")
    parser.add_argument("--check", action="store_true", help="builds twice and compares")
    arguments = parser.parse_args()
    package = pack(build(ROOT, str(ROOT / ".build/deb")), ROOT / "dist")
    print(f"{package.relative_to(ROOT)}  {package.stat().st_size / 1e6:.1f} MB  sha256 {digest(package)}")
    if arguments.check and not twice(package):
        sys.exit("two builds differ")


if __name__ == "__main__":
    main()
