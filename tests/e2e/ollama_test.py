"""Ollama's API, end to end on the starter model."""
import json
import unittest

from lares_server import Server

LIGHT = {"type": "function", "function": {
    "name": "set_light", "description": "Switch a light on or off",
    "parameters": {"type": "object", "required": ["room", "on"],
                   "properties": {"room": {"type": "string"}, "on": {"type": "boolean"}}}}}
CALM = {"temperature": 0, "num_predict": 100}


class Ollama(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def post(self, path, body):
        """-> (status, headers, list of lines)"""
        status, headers, text = self.server.request("POST", path, {"model": "starter-chat", "options": CALM, **body})
        return status, headers, [json.loads(line) for line in text.splitlines()]

    def test_chat_streams_lines_that_add_up_to_the_whole(self):
        ask = {"messages": [{"role": "user", "content": "How many grams are in 3 kilograms?"}]}
        status, headers, lines = self.post("/api/chat", ask)
        self.assertEqual(status, 200)
        self.assertEqual(headers["Content-Type"], "application/x-ndjson")
        self.assertGreater(len(lines), 3)
        self.assertTrue(all(not line["done"] for line in lines[:-1]))
        self.assertTrue(lines[-1]["done"])
        self.assertEqual(lines[-1]["done_reason"], "stop")
        self.assertGreater(lines[-1]["eval_count"], 3)
        _, headers, whole = self.post("/api/chat", {**ask, "stream": False})
        self.assertTrue(headers["Content-Type"].startswith("application/json"))
        self.assertEqual("".join(line["message"]["content"] for line in lines), whole[0]["message"]["content"])
        self.assertIn("3000", whole[0]["message"]["content"])
        self.assertEqual(whole[0]["model"], "starter-chat")

    def test_generate(self):
        _, _, lines = self.post("/api/generate", {"prompt": "How many grams are in 3 kilograms?"})
        self.assertIn("3000", "".join(line["response"] for line in lines))
        _, _, raw = self.post("/api/generate", {"prompt": "Once upon a time", "raw": True, "stream": False,
                                                "options": {"temperature": 0, "num_predict": 5}})
        self.assertEqual(raw[0]["done_reason"], "length")
        self.assertEqual(raw[0]["eval_count"], 5)

    def test_a_call_and_its_result(self):
        messages = [{"role": "user", "content": "Turn on the kitchen light"}]
        for stream in (False, True):
            _, _, lines = self.post("/api/chat", {"messages": messages, "tools": [LIGHT], "stream": stream})
            message = next(line["message"] for line in lines if "tool_calls" in line["message"])
            call = message["tool_calls"][0]["function"]
            self.assertEqual(call["name"], "set_light")
            self.assertEqual(call["arguments"], {"room": "kitchen", "on": True})
        messages += [message, {"role": "tool", "tool_name": "set_light", "content": '{"ok": true}'}]
        status, _, after = self.post("/api/chat", {"messages": messages, "tools": [LIGHT], "stream": False})
        self.assertEqual(status, 200)
        self.assertTrue(after[0]["message"]["content"])

    def test_formats(self):
        schema = {"type": "object", "required": ["age"], "additionalProperties": False,
                  "properties": {"age": {"type": "integer", "minimum": 0, "maximum": 99}}}
        _, _, lines = self.post("/api/chat", {"messages": [{"role": "user", "content": "Hello"}], "format": schema,
                                              "stream": False, "think": False})
        self.assertEqual(set(json.loads(lines[0]["message"]["content"])), {"age"})
        _, _, lines = self.post("/api/generate", {"prompt": "Hello", "format": "json", "stream": False})
        self.assertTrue(lines[0]["response"].startswith("{"))

    def test_models(self):
        names = [m["name"] for m in json.loads(self.server.get("/api/tags")[1])["models"]]
        self.assertIn("starter-chat", names)
        self.assertEqual(json.loads(self.server.get("/api/ps")[1])["models"][0]["name"], "starter-chat")
        self.assertRegex(json.loads(self.server.get("/api/version")[1])["version"], r"^\d+\.\d+\.\d+$")
        _, _, show = self.post("/api/show", {})
        self.assertEqual(show[0]["model_info"]["general.architecture"], "qwen3")
        self.assertIn("completion", show[0]["capabilities"])
        status, _, answer = self.post("/api/show", {"model": "starter-chat:latest"})
        self.assertEqual(status, 200, answer)
        status, _, answer = self.post("/api/chat", {"model": "starter-chat:latest", "stream": False,
                                                    "messages": [{"role": "user", "content": "Hello"}]})
        self.assertEqual((status, answer[0]["model"]), (200, "starter-chat:latest"))
        _, _, loaded = self.post("/api/generate", {"keep_alive": "5m", "stream": False})
        self.assertEqual(loaded[0]["done_reason"], "load")

    def test_failures_are_strings(self):
        for path, body, status in (("/api/chat", {"model": "none", "messages": [{"role": "user", "content": "x"}]}, 404),
                                   ("/api/show", {"model": "none"}, 404), ("/api/show", {"model": 5}, 400),
                                   ("/api/chat", {"messages": [{"role": "user", "content": 5}]}, 400),
                                   ("/api/chat", {"messages": [{"role": "user", "content": "", "images": ["AA"]}]}, 400),
                                   ("/api/pull", {}, 501),
                                   ("/api/create", {}, 501), ("/api/push", {}, 501), ("/api/copy", {}, 501),
                                   ("/api/blobs/sha256:ab", {}, 501)):
            got, _, lines = self.post(path, body)
            self.assertEqual(got, status, (path, lines))
            self.assertIsInstance(lines[0]["error"], str)
        self.assertEqual(self.server.request("DELETE", "/api/delete", {"model": "x"})[0], 501)
        self.assertEqual(self.server.request("GET", "/api/chat")[0], 405)

    def test_the_rules_of_a_server_without_keys_hold(self):
        page = {"Origin": "https://example.org"}
        for method, path in (("GET", "/api/tags"), ("POST", "/api/chat"), ("GET", "/api/version"), ("POST", "/api/show")):
            status, _, text = self.server.request(method, path, {} if method == "POST" else None, page)
            self.assertEqual(status, 403, path)
            self.assertIsInstance(json.loads(text)["error"], str)
        status, _, _ = self.server.request("POST", "/api/chat", "{}", {"Content-Type": "text/plain"})
        self.assertEqual(status, 415)


if __name__ == "__main__":
    unittest.main(verbosity=2)
