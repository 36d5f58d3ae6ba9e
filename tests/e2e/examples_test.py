"""The programs of examples/clients, run as they are."""
import os
import shutil
import subprocess
import tempfile
import unittest

from lares_server import PATIENCE, ROOT, Server

CLIENTS = ROOT / "examples" / "clients"


class Examples(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--listen", "127.0.0.1:0")
        cls.key = cls.server.member("add", "ana")

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def run_one(self, *command, folder=CLIENTS):
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, cwd=folder,
                              env={**os.environ, "LARES_URL": self.server.url, "LARES_KEY": self.key})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_every_example_is_run(self):
        self.assertEqual({p.name for p in CLIENTS.iterdir()}, {"chat.sh", "chat.py", "tools.mjs", "job.sh"})

    def test_curl(self):
        self.assertIn("3000", self.run_one("./chat.sh"))

    def test_a_job(self):
        out = self.run_one("./job.sh", "How many grams are in 3 kilograms?")
        self.assertIn("event: done", out)
        self.assertIn("3000", out)

    def test_python(self):
        out = self.run_one("./chat.py")
        self.assertIn("3000", out)
        self.assertIn("> And in 2?", out)

    def test_python_says_what_is_wrong(self):
        done = subprocess.run(["./chat.py"], capture_output=True, text=True, timeout=PATIENCE, cwd=CLIENTS,
                              env={**os.environ, "LARES_URL": self.server.url, "LARES_KEY": "lares-" + "A" * 43})
        self.assertEqual(done.returncode, 1)
        self.assertIn("key", done.stderr)

    def test_javascript(self):
        packages = subprocess.run([ROOT / "tools" / "fetch_clients.sh"], stdout=subprocess.PIPE, text=True,
                                  check=True).stdout.strip()
        with tempfile.TemporaryDirectory() as folder:  # Modules are looked for beside the file.
            shutil.copy(CLIENTS / "tools.mjs", folder)
            os.symlink(f"{packages}/node_modules", f"{folder}/node_modules")
            out = self.run_one("node", "tools.mjs", folder=folder)
        self.assertIn("kitchen: true", out)


if __name__ == "__main__":
    unittest.main()
