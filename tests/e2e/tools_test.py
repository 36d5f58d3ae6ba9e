"""Tools, schemas and what is wrong with them, end to end on the starter model."""
import asyncio
import json
import os
import signal
import unittest

from lares_server import Server, chat_body

LIGHT = {"type": "function", "function": {
    "name": "set_light", "description": "Switch a light on or off",
    "parameters": {"type": "object", "required": ["room", "on"],
                   "properties": {"room": {"type": "string"}, "on": {"type": "boolean"}}}}}
CLOCK = {"type": "function", "function": {"name": "get_time", "description": "Tell the time"}}
ASK = "Turn on the kitchen light"


def schema(inner, name="answer"):
    return {"type": "json_schema", "json_schema": {"name": name, "schema": inner}}


async def events(server, body):
    """The parsed events of a stream."""
    reader, writer = await asyncio.open_connection(server.host, server.port, limit=1 << 22)
    payload = json.dumps({**body, "stream": True}).encode()
    writer.write(f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                 f"Content-Length: {len(payload)}\r\nConnection: close\r\n\r\n".encode() + payload)
    found = []
    while line := await reader.readline():
        if line.startswith(b"data: {"):
            found.append(json.loads(line[6:]))
    writer.close()
    return found


def joined(stream):
    """(content, calls, finish) of a stream's choice 0."""
    content, calls, finish = "", [], None
    for event in stream:
        for choice in event.get("choices", []):
            content += choice["delta"].get("content") or ""
            finish = choice["finish_reason"] or finish
            for call in choice["delta"].get("tool_calls", []):
                if call["index"] == len(calls):
                    calls.append({"id": call["id"], "name": call["function"]["name"], "arguments": ""})
                calls[call["index"]]["arguments"] += call["function"].get("arguments", "")
    return content, calls, finish


class Tools(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def post(self, **body):
        body = {"messages": [{"role": "user", "content": ASK}], "temperature": 0, "max_tokens": 200, **body}
        return self.server.post("/v1/chat/completions", body)

    def refused(self, words, **body):
        status, answer = self.post(**body)
        self.assertEqual(status, 400, answer)
        self.assertIn(words, answer["error"]["message"])
        self.assertTrue(answer["error"]["code"])

    def test_a_call_and_its_result(self):
        _, answer = self.post(tools=[LIGHT])
        choice = answer["choices"][0]
        self.assertEqual(choice["finish_reason"], "tool_calls")
        self.assertIsNone(choice["message"]["content"])
        call = choice["message"]["tool_calls"][0]
        self.assertEqual(call["function"]["name"], "set_light")
        self.assertEqual(json.loads(call["function"]["arguments"]), {"room": "kitchen", "on": True})
        history = [{"role": "user", "content": ASK}, choice["message"],
                   {"role": "tool", "tool_call_id": call["id"], "content": '{"ok": true}'}]
        status, after = self.post(tools=[LIGHT], messages=history)
        self.assertEqual(status, 200, after)
        self.assertEqual(after["choices"][0]["finish_reason"], "stop")
        self.assertTrue(after["choices"][0]["message"]["content"])

    def test_a_stream_brings_the_same_call(self):
        _, whole = self.post(tools=[LIGHT])
        body = chat_body(ASK, max_tokens=200, tools=[LIGHT])
        got = asyncio.run(events(self.server, body))
        content, calls, finish = joined(got)
        want = whole["choices"][0]["message"]["tool_calls"][0]["function"]
        self.assertEqual(content, "")
        self.assertEqual(finish, "tool_calls")
        self.assertEqual([(c["name"], c["arguments"]) for c in calls], [(want["name"], want["arguments"])])
        self.assertGreater(len(got), 4)

    def test_choices_of_tools(self):
        for choice in ("required", {"type": "function", "function": {"name": "get_time"}}):
            for seed in range(4):
                _, answer = self.post(messages=[{"role": "user", "content": "Tell me a joke"}], tools=[LIGHT, CLOCK],
                                      tool_choice=choice, temperature=1.2, seed=seed)
                got = answer["choices"][0]
                self.assertEqual(got["finish_reason"], "tool_calls", got)
                for call in got["message"]["tool_calls"]:
                    json.loads(call["function"]["arguments"])
                    if choice != "required":
                        self.assertEqual(call["function"]["name"], "get_time")
        _, answer = self.post(tools=[LIGHT], tool_choice="none")
        self.assertNotIn("tool_calls", answer["choices"][0]["message"])

    def test_words_with_tools_at_hand_are_words(self):
        _, answer = self.post(messages=[{"role": "user", "content": "Hello!"}], tools=[CLOCK])
        if answer["choices"][0]["finish_reason"] == "stop":
            self.assertTrue(answer["choices"][0]["message"]["content"])

    def test_schemas_are_kept(self):
        person = {"type": "object", "required": ["name", "age", "mood"], "additionalProperties": False, "properties": {
            "name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "minimum": 0, "maximum": 120},
            "mood": {"enum": ["good", "bad"]}, "tags": {"type": "array", "items": {"type": "string", "maxLength": 5},
                                                        "maxItems": 3}}}
        for seed in range(6):
            _, answer = self.post(response_format=schema(person), temperature=1.5, seed=seed, max_tokens=400)
            choice = answer["choices"][0]
            self.assertEqual(choice["finish_reason"], "stop", choice)
            got = json.loads(choice["message"]["content"])
            self.assertLessEqual({"name", "age", "mood"}, set(got))
            self.assertIn(got["mood"], ("good", "bad"))
            self.assertTrue(0 <= got["age"] <= 120)
        _, answer = self.post(response_format={"type": "json_object"})
        self.assertTrue(answer["choices"][0]["message"]["content"].startswith("{"))

    def test_patterns_references_and_long_lists(self):
        _, answer = self.post(response_format=schema({"type": "string", "pattern": "^[a-f]{3}-[0-9]{2}$"}))
        self.assertRegex(json.loads(answer["choices"][0]["message"]["content"]), r"^[a-f]{3}-[0-9]{2}$")
        tree = {"$ref": "#/$defs/node", "$defs": {"node": {
            "type": "object", "required": ["name"], "additionalProperties": False,
            "properties": {"name": {"type": "string", "maxLength": 4},
                           "next": {"$ref": "#/$defs/node"}}}}}
        status, answer = self.post(response_format=schema(tree))
        self.assertEqual(status, 200, answer)
        if answer["choices"][0]["finish_reason"] == "stop":
            self.assertIn("name", json.loads(answer["choices"][0]["message"]["content"]))
        many = [f"value {i}" for i in range(10000)]
        status, answer = self.post(response_format=schema({"enum": many}), temperature=1)
        self.assertEqual(status, 200, answer)
        self.assertIn(json.loads(answer["choices"][0]["message"]["content"]), many)

    def test_what_is_wrong_with_a_schema_is_named(self):
        place = "response_format.json_schema.schema"
        loop = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}
        self.refused(f"{place}.$ref (`#/$defs/a`) leads back to itself", response_format=schema(loop))
        self.refused("leads nowhere", response_format=schema({"$ref": "https://example.org/x.json"}))
        bare = {"anyOf": [{"$ref": "#/$defs/a"}, {"type": "null"}],
                "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"type": "string"}]}}}
        self.refused("contains itself", response_format=schema(bare))
        self.refused(f"{place}.properties.x.pattern", response_format=schema(
            {"type": "object", "properties": {"x": {"type": "string", "pattern": "(?<=a)b"}}}))
        self.refused(f"{place}.pattern", response_format=schema({"type": "string", "pattern": "^(a$"}))
        self.refused(f"{place}.type", response_format=schema({"type": "person"}))
        self.refused(f"{place}.enum", response_format=schema({"enum": []}))
        self.refused(f"{place}.maxLength", response_format=schema({"type": "string", "maxLength": 1000000}))
        self.refused(f"{place}.items", response_format=schema({"type": "array", "items": 5}))
        broken = {**LIGHT, "function": {"name": "x", "parameters": {"$ref": "#/nowhere"}}}
        self.refused("tools[1].function.parameters.$ref", tools=[CLOCK, broken])
        deep = {"type": "string"}
        for _ in range(40):
            deep = {"type": "array", "items": deep}
        self.refused("", response_format=schema(deep))

    def test_tools_of_elsewhere_with_limits_no_grammar_holds(self):
        odd = {"type": "function", "function": {"name": "note", "parameters": {"type": "object", "properties": {
            "text": {"type": "string", "maxLength": 100000, "pattern": "\\S"}}, "required": ["text"]}}}
        _, answer = self.post(tools=[odd], tool_choice="required")
        self.assertIn("text", json.loads(answer["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"]))

    def test_odd_histories(self):
        for history in ([{"role": "tool", "tool_call_id": "1", "content": "lonely"}],
                        [{"role": "user", "content": "x"}, {"role": "tool", "content": "lonely"}],
                        [{"role": "assistant", "content": None, "tool_calls": [
                            {"id": "1", "type": "function", "function": {"name": "gone", "arguments": "{}"}}]}]):
            status, answer = self.post(messages=history, max_tokens=8)
            self.assertIn(status, (200, 400), answer)
        self.refused("messages[0].content[0]", messages=[{"role": "user", "content": [
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]}])
        self.refused("messages[0].tool_calls[0].function.arguments", messages=[{"role": "assistant", "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": "x", "arguments": "not json"}}]}])

    def test_streams_go_on_when_workers_die(self):
        body = chat_body("Tell me a story", max_tokens=400, temperature=1, seed=3, response_format=schema(
            {"type": "object", "required": ["story"], "properties": {"story": {"type": "string", "minLength": 300}}}))
        calm, _, _ = joined(asyncio.run(events(self.server, body)))

        async def disturbed(kind):
            running = asyncio.create_task(events(self.server, body))
            while self.server.metric("lares_jobs_running") == 0:
                await asyncio.sleep(0.005)
            os.kill(self.server.children()[kind], signal.SIGKILL)
            return joined(await running)

        for kind in ("text", "device"):
            content, _, finish = asyncio.run(disturbed(kind))
            self.assertIn(finish, ("stop", "length"))
            self.assertGreater(len(content), 100)
            self.assertTrue(content.startswith("{"), content[:40])
            if finish == "stop":
                json.loads(content)
        self.assertTrue(calm.startswith("{"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
