"""Models whose memory cannot be cut: a conversation goes on from what was read of it."""
import json
import pathlib
import shutil
import tempfile
import unittest

from gguf_files import write_tiny_gemma2, write_tiny_mamba
from lares_server import STARTER, Server

VOCABULARY = pathlib.Path(STARTER) / "chat" / "starter-chat-q8_0.gguf"
SYSTEM = "You look after a house. " + " ".join(f"Room {n} has a lamp and a window." for n in range(30))


class Checkpoints(unittest.TestCase):
    def serve(self, make):
        folder = tempfile.mkdtemp(prefix="lares-uncut-")
        self.addCleanup(shutil.rmtree, folder)
        make(VOCABULARY, f"{folder}/model.gguf")
        return Server("--pool-tokens", "8192", models=folder)

    def ask(self, server, *said):
        roles = ("system", "user", "assistant", "user")
        status, answer = server.post("/v1/chat/completions", {
            "messages": [{"role": r, "content": c} for r, c in zip(roles, said)], "max_tokens": 8, "temperature": 0})
        self.assertEqual(status, 200, answer)
        return answer["usage"]["prompt_tokens"], answer["usage"]["prompt_tokens_details"]["cached_tokens"]

    def check(self, make):
        with self.serve(make) as server:
            models = json.loads(server.get("/v1/models")[1])["data"]
            self.assertFalse(models[0]["cut_anywhere"], models)
            first, cached = self.ask(server, SYSTEM, "Which lamp is on?")
            self.assertEqual(cached, 0)
            self.assertGreater(first, 300)
            # The next turn pays for what is new.
            second, cached = self.ask(server, SYSTEM, "Which lamp is on?", "None.", "And which window is open?")
            self.assertGreaterEqual(cached, first - 2 * 16)
            self.assertLess(cached, second)
            # Others with the same first words: one more reads them, and then nobody does.
            _, cached = self.ask(server, SYSTEM, "Close all the windows, it is going to rain tonight.")
            self.assertEqual(cached, 0)
            fourth, cached = self.ask(server, SYSTEM, "Is there a lamp in the kitchen, and is it on?")
            self.assertGreater(cached, fourth - 48)
            self.assertGreater(server.metric("lares_states_restored_total"), 1)

    def test_recurrent(self):
        self.check(write_tiny_mamba)

    def test_sliding_window(self):
        self.check(write_tiny_gemma2)


if __name__ == "__main__":
    unittest.main()
