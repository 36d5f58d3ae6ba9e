"""Several models on a device with room for some of them."""
import asyncio
import json
import os
import pathlib
import shutil
import tempfile
import unittest

from lares_server import STARTER, Server, chat_body, stream

MODEL = pathlib.Path(STARTER) / "chat" / "starter-chat-q8_0.gguf"
POOL = ("--pool-tokens", "16384")


def total(server, which="loads"):
    return sum(json.loads(server.get("/v1/models/loads")[1])[which].values())


class Residency(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="lares-models-")
        for name in ("a", "b", "c"):
            shutil.copy(MODEL, os.path.join(cls.folder, f"{name}.gguf"))
        with Server(*POOL, models=cls.folder) as server:
            device = json.loads(server.get("/v1/memory")[1])["devices"][0]
            assert device["total"] > device["budget"] > 0 and device["free"] > 0, device
            cls.size = device["weights"] + device["kv"] + device["compute"] + device["cache"]
            assert cls.size > MODEL.stat().st_size, device
            assert server.metric('lares_memory_bytes{part="weights"}') == device["weights"], device

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def serve(self, models, *flags):
        """A server with room for so many models; what is not loaded yet counts as a little more than it is."""
        room = int(models * self.size + 34e6)
        return Server(*POOL, "--device-memory", str(room), *flags, models=self.folder)

    def ask(self, server, models):
        body = chat_body("How many grams are in 3 kilograms?", max_tokens=40, temperature=0)

        async def all_of():
            return await asyncio.gather(*(stream(server, {**body, "model": m}) for m in models))
        results = asyncio.run(all_of())
        for result in results:
            self.assertTrue(result.done, result.error)
            self.assertIn("3000", result.text)

    def test_three_models_in_the_room_of_two(self):
        with self.serve(2) as server:
            self.ask(server, "abaacabc")
            self.assertLessEqual(total(server), 4)
            self.assertGreaterEqual(total(server, "unloads"), 1)
            for model in "cba":  # One after the other, each absent one takes another's place.
                self.ask(server, model)
            held = [m["name"] for m in json.loads(server.get("/v1/memory")[1])["models"]]
            self.assertEqual(len(held), 2, held)

    def test_one_that_can_never_fit_is_refused_with_figures(self):
        with Server(*POOL, "--device-memory", str(self.size // 2), models=self.folder,
                    wait_ready=False) as server:
            status, _, text = server.request("POST", "/v1/chat/completions", {**chat_body("hi"), "model": "b"})
            self.assertEqual((status, json.loads(text)["error"]["code"]), (503, "model_failed"))
            self.assertIn("raise device.memory", text)
            self.assertEqual(total(server), 0)

    def test_a_client_says_how_long_a_model_is_kept(self):
        with self.serve(3) as server:
            def running():
                return [m["name"] for m in json.loads(server.get("/api/ps")[1])["models"]]
            self.assertEqual(running(), ["a"])
            status, _, text = server.request("POST", "/api/generate", {"model": "a", "keep_alive": 0, "stream": False})
            self.assertEqual((status, json.loads(text)["done_reason"]), (200, "unload"))
            server.wait_for(lambda: running() == [], "unloaded")
            self.ask(server, "a")
            server.wait_for(lambda: running() == [], "unloaded again after its use")
            status, _, _ = server.request("POST", "/api/generate", {"model": "a", "keep_alive": -1, "stream": False})
            self.assertEqual((status, running()), (200, ["a"]))


if __name__ == "__main__":
    unittest.main()
