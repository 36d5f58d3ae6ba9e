"""`lares model`, split models, and a folder that is watched by the running server."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from gguf_files import Gguf
from lares_server import BINARY, PATIENCE, STARTER, Server

MODEL = pathlib.Path(STARTER) / "chat" / "starter-chat-q8_0.gguf"


def lares(*words, status=0):
    done = subprocess.run([BINARY, "model", *words], capture_output=True, text=True, timeout=PATIENCE,
                          stdin=subprocess.DEVNULL)
    assert done.returncode == status, (words, done.returncode, done.stdout, done.stderr)
    return done.stdout + done.stderr


class Models(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="lares-models-")
        self.addCleanup(shutil.rmtree, self.folder)

    def test_without_a_server(self):
        rows = json.loads(lares("list", "--json", "--models", STARTER))
        starter = next(row for row in rows if row["name"] == "starter-chat")
        self.assertEqual(starter["context"], 2048)
        self.assertTrue(starter["generates"])
        self.assertNotIn("state", starter)
        self.assertIn("starter-chat-f16", lares("list", "--models", STARTER))
        self.assertIn("2048 tokens", lares("show", "starter-chat", "--models", STARTER))
        slip = lares("show", "starter-chta", "--models", STARTER, status=1)
        self.assertIn("Did you mean `starter-chat`?", slip)
        missing = lares("list", "--server", "127.0.0.1:1", "--data", self.folder, status=1)
        self.assertIn("--models", missing)

    def test_a_file_comes_and_goes_while_the_server_runs(self):
        lares("add", str(MODEL), "--name", "first", "--models", self.folder)
        with Server(models=self.folder) as server:
            def listed():
                rows = json.loads(lares("list", "--json", "--server", server.url))
                return {row["name"]: row["state"] for row in rows}
            self.assertEqual(listed(), {"first": "ready"})
            self.assertIn("loaded", lares("list", "--server", server.url))
            first_part = Gguf(MODEL).split(os.path.join(server.data, "cut"))
            lares("add", first_part, "--name", "second", "--models", self.folder)
            server.wait_for(lambda: listed().get("second") == "available", "found")
            status, answer = server.chat("How many grams are in 3 kilograms?", model="second")
            self.assertEqual(status, 200, answer)
            self.assertIn("3000", answer["choices"][0]["message"]["content"])
            self.assertEqual(listed()["second"], "ready")
            refused = lares("remove", "second", "--models", self.folder, status=1)
            self.assertIn("--yes", refused)
            lares("remove", "second", "--yes", "--models", self.folder)
            server.wait_for(lambda: "second" not in listed(), "gone")
            status, answer = server.chat("hello", model="second")
            self.assertEqual((status, answer["error"]["code"]), (404, "model_not_found"))
            server.wait_for(lambda: 'msg="model unloaded"' in server.logged(), "unloaded")
            self.assertEqual(server.chat("How many grams are in 3 kilograms?")[0], 200)

    def test_what_is_no_model_is_not_added(self):
        bad = os.path.join(self.folder, "bad.gguf")
        with open(bad, "wb") as file:
            file.write(b"PK\3\4 no model")
        self.assertIn("GGUF", lares("add", bad, "--models", self.folder + "/models", status=1))
        lares("add", "/nowhere.gguf", "--models", self.folder, status=1)
        self.assertEqual(os.listdir(self.folder), ["bad.gguf"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
