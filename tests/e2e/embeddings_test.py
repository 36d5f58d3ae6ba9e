"""Embeddings, OpenAI's way and Ollama's, end to end on the starter model."""
import asyncio
import base64
import json
import math
import os
import pathlib
import shutil
import struct
import tempfile
import unittest

from gguf_files import write_tiny_bert
from lares_server import STARTER, Server, chat_body, stream


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


class Embeddings(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def embed(self, body, path="/v1/embeddings"):
        status, answer = self.server.post(path, body)
        self.assertEqual(status, 200, answer)
        return answer

    def refused(self, status, code, body, path="/v1/embeddings"):
        got, answer = self.server.post(path, body)
        self.assertEqual((got, answer["error"]["code"]), (status, code), answer)
        return answer["error"]

    def test_openai(self):
        answer = self.embed({"model": "starter-embed", "input": "turn on the light"})
        self.assertEqual(answer["object"], "list")
        self.assertEqual(answer["model"], "starter-embed")
        self.assertGreater(answer["usage"]["prompt_tokens"], 0)
        vector = answer["data"][0]["embedding"]
        self.assertAlmostEqual(dot(vector, vector), 1, places=4)
        many = self.embed({"input": ["what a day", "turn on the light", "turn on the lamp"]})["data"]
        self.assertEqual([item["index"] for item in many], [0, 1, 2])
        self.assertGreater(dot(vector, many[1]["embedding"]), 0.999)
        self.assertGreater(dot(vector, many[2]["embedding"]), dot(vector, many[0]["embedding"]))

    def test_the_starter_model_knows_what_is_meant_in_other_languages(self):
        light, german, spanish, weather = (item["embedding"] for item in self.embed({"input": [
            "turn on the light in the kitchen", "mach das Licht in der Küche an", "enciende la luz de la cocina",
            "what is the weather like tomorrow"]})["data"])
        for other in (german, spanish):
            self.assertGreater(dot(light, other), dot(light, weather) + 0.2)

    def test_base64_tokens_and_dimensions(self):
        text = {"input": "turn on the light"}
        plain = self.embed(text)["data"][0]["embedding"]
        packed = base64.b64decode(self.embed({**text, "encoding_format": "base64"})["data"][0]["embedding"])
        self.assertEqual(len(packed), 4 * len(plain))
        self.assertGreater(dot(plain, struct.unpack(f"<{len(plain)}f", packed)), 0.9999)
        short = self.embed({**text, "dimensions": 16})["data"][0]["embedding"]
        self.assertEqual(len(short), 16)
        length = math.sqrt(dot(plain[:16], plain[:16]))
        self.assertGreater(dot(short, plain[:16]) / length, 0.9999)
        self.assertEqual(self.embed({"input": [100, 200, 300]})["usage"]["prompt_tokens"], 3)
        self.assertEqual(len(self.embed({"input": [[100, 200], [300]]})["data"]), 2)

    def test_ollama(self):
        vector = self.embed({"model": "starter-chat", "input": "turn on the light"})["data"][0]["embedding"]
        answer = self.embed({"model": "starter-chat:latest", "input": ["turn on the light", "hello"]},
                            "/api/embed")
        self.assertEqual(answer["model"], "starter-chat")
        self.assertEqual(len(answer["embeddings"]), 2)
        self.assertGreater(answer["prompt_eval_count"], 0)
        self.assertGreater(dot(vector, answer["embeddings"][0]), 0.999)
        old = self.embed({"model": "starter-chat", "prompt": "turn on the light"}, "/api/embeddings")
        self.assertGreater(dot(vector, old["embedding"]), 0.999)
        # Beyond the window Ollama's clients expect a cut.
        cut = self.embed({"model": "starter-chat", "input": "word " * 5000}, "/api/embed")
        self.assertEqual(cut["prompt_eval_count"], 2048)
        status, answer = self.server.post("/api/embed", {"model": "nope", "input": "x"})
        self.assertEqual(status, 404)
        self.assertIsInstance(answer["error"], str)

    def test_what_makes_no_sense(self):
        self.assertEqual(self.refused(400, "invalid_request", {"input": ""})["param"], "input")
        error = self.refused(400, "invalid_request", {"input": ["x"] * 100000})
        self.assertIn("2048", error["message"])
        self.assertIn("100000", error["message"])
        error = self.refused(400, "context_length_exceeded", {"input": "word " * 200000})
        self.assertIn("256", error["message"])
        width = len(self.embed({"input": "x"})["data"][0]["embedding"])
        error = self.refused(400, "dimensions_invalid", {"input": "x", "dimensions": width + 1})
        self.assertIn(str(width), error["message"])
        self.refused(400, "invalid_request", {"input": "x", "dimensions": 0})
        self.refused(400, "token_unknown", {"input": [10**9]})
        self.refused(404, "model_not_found", {"input": "x", "model": "text-embedding-3-small"})
        status, _, _ = self.server.request("POST", "/v1/embeddings", {"input": "x" * (20 << 20)})
        self.assertEqual(status, 413)

    def test_a_thousand_texts_while_a_chat_streams(self):
        texts = [f"note {i}: the {'kitchen' if i % 2 else 'bath'} light is {'on' if i % 3 else 'off'}"
                 for i in range(1000)]
        body = chat_body("Tell me a story", max_tokens=200, ignore_eos=True)

        async def both():
            asked = asyncio.create_task(stream(self.server, body))
            answer = await asyncio.to_thread(self.embed, {"input": texts})
            return await asked, answer
        chat, answer = asyncio.run(both())
        self.assertIsNone(chat.error)
        self.assertEqual(chat.finish, "length")
        self.assertEqual([item["index"] for item in answer["data"]], list(range(1000)))
        alone = self.embed({"input": texts[500]})["data"][0]["embedding"]
        self.assertGreater(dot(alone, answer["data"][500]["embedding"]), 0.999)
        classes = lambda: [row["key"] for row in json.loads(self.server.get("/v1/usage?by=class")[1])["data"]]
        self.server.wait_for(lambda: "embedding" in classes(), "in the ledger")


class Bert(unittest.TestCase):
    def test_a_bert_reads_whole_texts_and_refuses_longer_ones(self):
        llama = pathlib.Path(os.environ.get("LARES_LLAMA_DIR", "/nowhere"))
        vocabulary = llama / "src" / "models" / "ggml-vocab-bert-bge.gguf"
        if not vocabulary.exists():
            self.skipTest("llama.cpp's vocabularies are not here (LARES_LLAMA_DIR)")
        folder = tempfile.mkdtemp(prefix="lares-bert-")
        self.addCleanup(shutil.rmtree, folder)
        # The noise repeats after 4,096 values, no multiple of the width: no two words look alike.
        write_tiny_bert(vocabulary, f"{folder}/starter-embed.gguf", width=36)
        shutil.copy(pathlib.Path(STARTER) / "chat" / "starter-chat-q8_0.gguf", f"{folder}/chat.gguf")
        with Server(models=folder) as server:
            def embed(body, path="/v1/embeddings"):
                return server.post(path, body)
            status, answer = embed({"input": ["turn on the light", "what a day", "turn on the light"]})
            self.assertEqual(status, 200, answer)
            self.assertEqual(answer["model"], "starter-embed")
            first, other, again = (item["embedding"] for item in answer["data"])
            self.assertEqual(len(first), 36)
            self.assertGreater(dot(first, again), 0.9999)
            self.assertLess(dot(first, other), 0.9999)
            # The beginning and end marks count.
            status, answer = embed({"input": "hello"})
            self.assertEqual(answer["usage"]["prompt_tokens"], 3)
            status, answer = embed({"input": "hello " * 127})
            self.assertEqual((status, answer["error"]["code"]), (400, "context_length_exceeded"))
            self.assertIn("128", answer["error"]["message"])
            self.assertEqual(embed({"input": "hello " * 126})[0], 200)
            status, answer = embed({"model": "starter-embed", "input": "hello " * 500}, "/api/embed")
            self.assertEqual((status, answer["prompt_eval_count"]), (200, 128))
            status, answer = server.chat("hello", model="starter-embed")
            self.assertEqual((status, answer["error"]["code"]), (400, "model_cannot_generate"))
            self.assertEqual(server.chat("How many grams are in 3 kilograms?", model="chat")[0], 200)
            state = {m["id"]: m["state"] for m in json.loads(server.get("/v1/models")[1])["data"]}
            self.assertEqual(state, {"chat": "ready", "starter-embed": "ready"})


if __name__ == "__main__":
    unittest.main(verbosity=2)
