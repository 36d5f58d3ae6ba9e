"""The Debian package: what is in it, and that what is in it serves."""
import gzip
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from lares_server import PATIENCE, ROOT, Server

BUILD = pathlib.Path(os.environ["LARES_BINARY"]).parent


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="lares-package-"))
        made = subprocess.run(["cpack", "--config", BUILD / "CPackConfig.cmake", "-B", cls.folder], capture_output=True,
                              text=True, cwd=BUILD)
        assert made.returncode == 0, made.stdout + made.stderr
        cls.deb, = cls.folder.glob("*.deb")
        cls.root = cls.folder / "root"
        subprocess.run(["dpkg-deb", "-x", cls.deb, cls.root], check=True)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def test_it_says_what_it_is_and_needs(self):
        fields = subprocess.run(["dpkg-deb", "-f", self.deb], capture_output=True, text=True, check=True).stdout
        self.assertIn("Package: lares\n", fields)
        for library in ("libsqlite3-0", "libsodium23", "libpng16-16", "libseccomp2", "adduser"):
            self.assertIn(library, fields)
        control = self.folder / "control"
        subprocess.run(["dpkg-deb", "-e", self.deb, control], check=True)
        for script in ("postinst", "prerm", "postrm"):
            self.assertTrue(os.access(control / script, os.X_OK), script)
            subprocess.run(["sh", "-n", control / script], check=True)
        self.assertEqual((control / "conffiles").read_text(), "/etc/lares/lares.toml\n")

    def test_what_the_unit_names_is_in_it(self):
        unit = (self.root / "usr/lib/systemd/system/lares.service").read_text()
        command = next(line for line in unit.splitlines() if line.startswith("ExecStart=")).split("=", 1)[1].split()
        self.assertTrue((self.root / command[0].lstrip("/")).is_symlink())
        self.assertTrue((self.root / command[command.index("--config") + 1].lstrip("/")).is_file())
        self.assertEqual(command[command.index("--data") + 1], "/var/lib/lares")

    def test_every_command_has_a_page(self):
        pages = {path.name for path in (self.root / "usr/share/man/man1").iterdir()}
        for verb in ("serve", "chat", "member", "model", "sketch", "jobs", "usage", "export", "backup", "doctor", "simulate"):
            self.assertIn(f"lares-{verb}.1.gz", pages)
        self.assertIn("drain", gzip.open(self.root / "usr/share/man/man1/lares-serve.1.gz", "rt").read())

    def test_it_serves(self):
        binary = self.root / "usr/bin/lares"
        self.assertEqual(os.path.commonpath([binary.resolve(), self.root.resolve()]), str(self.root.resolve()))
        models = self.folder / "models"  # As postinst makes it.
        models.mkdir()
        (models / "starter").symlink_to(self.root / "usr/share/lares/models/starter")
        with Server("--config", str(self.root / "etc/lares/lares.toml"), binary=str(binary), models=str(models)) as server:
            status, answer = server.chat("How many grams are in 3 kilograms?")
            self.assertEqual(status, 200, answer)
            self.assertIn("3000", answer["choices"][0]["message"]["content"])
            names = {m["id"] for m in json.loads(server.get("/v1/models")[1])["data"]}
            self.assertTrue({"starter-chat", "starter-image"} <= names, names)


if __name__ == "__main__":
    unittest.main()
