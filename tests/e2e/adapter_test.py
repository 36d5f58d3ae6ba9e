"""A LoRA adapter is one more model: it shares its base's weights, and nothing else."""
import json
import pathlib
import shutil
import tempfile
import unittest

from gguf_files import write_adapter
from lares_server import STARTER, Server

BASE = pathlib.Path(STARTER) / "chat" / "starter-chat-q8_0.gguf"
QUESTION = "Tell me a story about the garden of a very old house, and who lives there."


class Adapters(unittest.TestCase):
    def serve(self, *blocks):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="lares-adapter-"))
        self.addCleanup(shutil.rmtree, folder)
        write_adapter(BASE, folder / "tone.gguf", "qwen3", width=256)
        write_adapter(BASE, folder / "foreign.gguf", "llama", width=256)
        config = "".join(f'[[model]]\nname = "{name}"\npath = "{BASE}"\n{more}\n' for name, more in blocks)
        (folder / "lares.toml").write_text(config)
        empty = folder / "models"
        empty.mkdir()
        return Server("--config", str(folder / "lares.toml"), "--pool-tokens", "4096", models=str(empty))

    def ask(self, server, model):
        status, answer = server.post("/v1/chat/completions", {
            "model": model, "messages": [{"role": "user", "content": QUESTION}], "max_tokens": 24, "temperature": 0})
        self.assertEqual(status, 200, answer)
        self.assertEqual(answer["model"], model)
        return answer["choices"][0]["message"]["content"], answer["usage"]["prompt_tokens_details"]["cached_tokens"]

    def test_side_by_side(self):
        with self.serve(("plain", ""), ("tone", 'adapter = "tone.gguf"\nadapter_scale = 3.0')) as server:
            names = [m["id"] for m in json.loads(server.get("/v1/models")[1])["data"]]
            self.assertEqual(sorted(names), ["plain", "tone"])
            plain, _ = self.ask(server, "plain")
            tone, cached = self.ask(server, "tone")
            self.assertNotEqual(plain, tone)
            self.assertEqual(cached, 0, "what one has read is no use to the other")
            again, cached = self.ask(server, "tone")
            self.assertEqual(again, tone)
            self.assertGreater(cached, 0)
            self.assertEqual(self.ask(server, "plain")[0], plain)
            device = json.loads(server.get("/v1/memory")[1])["devices"][0]
            self.assertLess(device["weights"], 1.5 * BASE.stat().st_size, "the weights are there once")

    def test_one_that_does_not_fit(self):
        with self.serve(("plain", ""), ("foreign", 'adapter = "foreign.gguf"')) as server:
            status, answer = server.post("/v1/chat/completions", {
                "model": "foreign", "messages": [{"role": "user", "content": QUESTION}]})
            self.assertGreaterEqual(status, 400)
            self.assertIn("foreign.gguf", answer["error"]["message"])
            self.ask(server, "plain")


if __name__ == "__main__":
    unittest.main()
