"""`lares model`, split models, and a folder that is watched by the running server."""
import json
import os
import pathlib
import shutil
import struct
import subprocess
import tempfile
import unittest

from lares_server import BINARY, PATIENCE, STARTER, Server

MODEL = pathlib.Path(STARTER) / "chat" / "starter-chat-q8_0.gguf"


class Gguf:
    """Enough of the format to cut a file in two."""
    SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}

    def __init__(self, path):
        self.data = pathlib.Path(path).read_bytes()
        tensors, pairs = struct.unpack_from("<QQ", self.data, 8)
        self.at = 24
        begin = self.at
        for _ in range(pairs):
            self.text()
            self.value(self.number("<I"))
        self.pairs, self.pair_count = self.data[begin:self.at], pairs
        self.tensors = []
        for _ in range(tensors):
            start = self.at
            self.text()
            dimensions = self.number("<I")
            self.at += 8 * dimensions + 4
            head = self.data[start:self.at]
            self.tensors.append((head, self.number("<Q")))
        self.base = (self.at + 31) // 32 * 32

    def number(self, form):
        value, = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return value

    def text(self):
        size = self.number("<Q")
        self.at += size

    def value(self, kind):
        if kind == 8:
            return self.text()
        if kind == 9:
            inner, count = self.number("<I"), self.number("<Q")
            for _ in range(count):
                self.value(inner)
            return None
        self.at += self.SIZES[kind]
        return None

    def write(self, path, pairs, pair_count, number, chosen):
        def key(name, kind, form, value):
            return struct.pack("<Q", len(name)) + name + struct.pack("<I", kind) + struct.pack(form, value)
        pairs += key(b"split.no", 2, "<H", number) + key(b"split.count", 2, "<H", 2)
        pairs += key(b"split.tensors.count", 5, "<i", len(self.tensors))
        ends = sorted(offset for _, offset in self.tensors) + [len(self.data) - self.base]
        heads, body = b"", b""
        for head, offset in chosen:
            end = next(e for e in ends if e > offset)
            heads += head + struct.pack("<Q", len(body))
            body += self.data[self.base + offset:self.base + end]
            body += b"\0" * (-len(body) % 32)
        out = b"GGUF" + struct.pack("<IQQ", 3, len(chosen), pair_count + 3) + pairs + heads
        out += b"\0" * (-len(out) % 32)
        pathlib.Path(path).write_bytes(out + body)

    def split(self, stem):
        half = len(self.tensors) // 2
        self.write(f"{stem}-00001-of-00002.gguf", self.pairs, self.pair_count, 0, self.tensors[:half])
        self.write(f"{stem}-00002-of-00002.gguf", b"", 0, 1, self.tensors[half:])
        return f"{stem}-00001-of-00002.gguf"


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
        self.assertIn("Did you mean `starter-chat`?", lares("show", "starter-chta", "--models", STARTER, status=1))
        missing = lares("list", "--server", "127.0.0.1:1", "--data", self.folder, status=1)
        self.assertIn("--models", missing)

    def test_a_file_comes_and_goes_while_the_server_runs(self):
        lares("add", str(MODEL), "--name", "first", "--models", self.folder)
        with Server(models=self.folder) as server:
            listed = lambda: {row["name"]: row["state"] for row in json.loads(lares("list", "--json", "--server", server.url))}
            self.assertEqual(listed(), {"first": "ready"})
            self.assertIn("loaded", lares("list", "--server", server.url))
            lares("add", Gguf(MODEL).split(os.path.join(server.data, "cut")), "--name", "second", "--models", self.folder)
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
