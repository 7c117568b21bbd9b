"""What deploy/ holds, as far as it can be told without systemd, a container engine or a cluster."""
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import yaml

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DEPLOY = ROOT / "deploy"
UNIT = DEPLOY / "debian/media-relay.service"
VERSION = re.search(r'text = "([^"]+)"', (ROOT / "Sources/MediaRelay/Version.swift").read_text()).group(1)


class Unit(unittest.TestCase):
    def setUp(self):
        self.text = UNIT.read_text()
        self.fields = {}
        for line in self.text.splitlines():
            if "=" in line and not line.startswith("#"):
                name, value = line.split("=", 1)
                self.fields.setdefault(name, []).append(value)

    def test_systemd_takes_it(self):
        if not shutil.which("systemd-analyze"):
            self.skipTest("no systemd-analyze")
        with tempfile.TemporaryDirectory() as folder:
            # The program is not installed here: another one stands for it.
            unit = pathlib.Path(folder, "media-relay.service")
            unit.write_text(self.text.replace("/usr/bin/media-relay", "/bin/true").replace("/bin/kill", "/bin/true"))
            done = subprocess.run(["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True)
        self.assertNotIn("media-relay.service", done.stdout + done.stderr)

    def test_the_sandbox_is_tight(self):
        if not shutil.which("systemd-analyze"):
            self.skipTest("no systemd-analyze")
        done = subprocess.run(
            ["systemd-analyze", "security", "--offline=true", "--threshold=20", str(UNIT)], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout[-600:] + done.stderr)

    def test_calls_survive_a_crash_and_a_reload(self):
        self.assertEqual(self.fields["KillMode"], ["process"])
        self.assertEqual(self.fields["Restart"], ["always"])
        self.assertEqual(self.fields["ExecReload"], ["/bin/kill -HUP $MAINPID"])

    def test_memory_never_reaches_the_disk(self):
        self.assertEqual(self.fields["LimitCORE"], ["0"])

    def test_control_sees_its_workers_and_the_boot(self):
        # Both would make it take running workers for gone.
        self.assertNotIn("ProtectProc", self.fields)
        self.assertNotIn("ProcSubset", self.fields)


class Package(unittest.TestCase):
    def test_scripts_are_shell(self):
        for name in ("postinst", "prerm", "postrm"):
            path = DEPLOY / "debian" / name
            self.assertEqual(subprocess.run(["sh", "-n", str(path)]).returncode, 0, name)
            self.assertIn("set -e", path.read_text())
            self.assertTrue(path.stat().st_mode & 0o111, name)

    def test_an_upgrade_stops_nothing(self):
        text = (DEPLOY / "debian/prerm").read_text()
        self.assertIn('if [ "$1" = remove ]', text)
        self.assertNotIn("upgrade)", text)

    def test_control_names_every_field(self):
        text = (DEPLOY / "debian/control.in").read_text()
        for field in ("Package", "Version", "Architecture", "Maintainer", "Depends", "Description"):
            self.assertRegex(text, rf"(?m)^{field}: \S")
        self.assertEqual(set(re.findall(r"@(\w+)@", text)), {"VERSION", "ARCHITECTURE", "SIZE", "DEPENDS", "RECOMMENDS"})
        self.assertTrue(all(len(line) <= 80 for line in text.splitlines() if line.startswith(" ")))

    def test_the_changelog_begins_with_this_version(self):
        newest = re.search(r"^## (\S+) \((\d{4}-\d\d-\d\d)\)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
        self.assertEqual(newest.group(1), VERSION)

    def test_hints_are_sysctl(self):
        for line in (DEPLOY / "debian/60-media-relay.conf").read_text().splitlines():
            self.assertRegex(line, r"^(#.*|net\.core\.\w+ = \d+)$")


class Container(unittest.TestCase):
    KNOWN = {"ARG", "FROM", "WORKDIR", "COPY", "RUN", "USER", "VOLUME", "EXPOSE", "STOPSIGNAL", "ENTRYPOINT", "CMD"}

    def setUp(self):
        text = (DEPLOY / "container/Containerfile").read_text().replace("\\\n", " ")
        self.lines = [line.split(None, 1) for line in text.splitlines() if line and not line.startswith("#")]

    def test_it_is_two_stages_and_ends_as_no_root(self):
        self.assertLessEqual({line[0] for line in self.lines}, self.KNOWN)
        stages = [line[1] for line in self.lines if line[0] == "FROM"]
        self.assertEqual(len(stages), 2)
        self.assertTrue(stages[0].endswith("AS build"))
        self.assertEqual([line[1] for line in self.lines if line[0] == "USER"], ["media-relay"])

    def test_what_it_calls_is_there(self):
        for path in re.findall(r"scripts/[\w.-]+", " ".join(line[1] for line in self.lines)):
            self.assertTrue((ROOT / path).exists(), path)

    def test_no_key_is_in_the_image(self):
        self.assertTrue(any("/etc/media-relay/key" in line[1] for line in self.lines if line[0] == "RUN"))


class Kubernetes(unittest.TestCase):
    def setUp(self):
        self.documents = {}
        for document in yaml.safe_load_all((DEPLOY / "kubernetes/media-relay.yaml").read_text()):
            self.documents[document["kind"]] = document
        self.pod = self.documents["DaemonSet"]["spec"]["template"]["spec"]
        (self.container,) = self.pod["containers"]

    def test_every_document_has_its_head(self):
        for document in self.documents.values():
            self.assertTrue(document["apiVersion"] and document["metadata"]["name"])
            self.assertEqual(document["metadata"]["namespace"], "media-relay")

    def test_the_set_selects_its_pods(self):
        spec = self.documents["DaemonSet"]["spec"]
        self.assertEqual(spec["selector"]["matchLabels"], spec["template"]["metadata"]["labels"])

    def test_media_uses_the_host(self):
        self.assertTrue(self.pod["hostNetwork"])

    def test_it_drains_before_it_stops_and_has_the_time(self):
        command = self.container["lifecycle"]["preStop"]["exec"]["command"]
        self.assertEqual(command[1], "drain")
        self.assertIn("--wait", command)
        minutes = int(command[command.index("--deadline") + 1].removesuffix("m"))
        self.assertGreater(self.pod["terminationGracePeriodSeconds"], minutes * 60)

    def test_readiness_is_that_of_load_balancers(self):
        self.assertEqual(self.container["readinessProbe"]["httpGet"]["path"], "/readyz")
        self.assertEqual(self.container["livenessProbe"]["httpGet"]["path"], "/healthz")

    def test_volumes_and_mounts_are_the_same(self):
        self.assertEqual({mount["name"] for mount in self.container["volumeMounts"]}, {volume["name"] for volume in self.pod["volumes"]})

    def test_it_may_do_nothing_special(self):
        self.assertFalse(self.container["securityContext"]["allowPrivilegeEscalation"])
        self.assertEqual(self.container["securityContext"]["capabilities"]["drop"], ["ALL"])
        self.assertTrue(self.pod["securityContext"]["runAsNonRoot"])

    def test_the_image_is_this_version(self):
        self.assertTrue(self.container["image"].endswith(":" + VERSION))


if __name__ == "__main__":
    unittest.main()
