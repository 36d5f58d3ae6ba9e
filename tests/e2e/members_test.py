"""Members and their keys, end to end: on a server that other machines reach, and on loopback."""
import asyncio
import json
import subprocess
import unittest

from lares_server import BINARY, PATIENCE, Server, chat_body, stream


LONG = chat_body("Tell me a story", max_tokens=1800, ignore_eos=True)


def bearer(key):
    return {"Authorization": f"Bearer {key}"}


HOUSEHOLD = "You help a household of three. You answer in one short sentence. " * 6


class Prefixes(unittest.TestCase):
    def test_who_finds_whose_words_in_the_cache(self):
        """For every pair of members: the household's words are found, each other's are not."""
        keys = {}

        def prepare(data):
            for name in ("ana", "ben", "eve"):
                done = subprocess.run([BINARY, "member", "add", name, "--data", data],
                                      capture_output=True, text=True, timeout=PATIENCE, check=True)
                keys[name] = done.stdout.strip()
            with open(f"{data}/words.txt", "w") as file:
                file.write(HOUSEHOLD)
        own = "My own words, which are nobody else's business at all. " * 6
        with Server(prepare=prepare, flags_of=lambda data: ["--shared-prompts", f"{data}/words.txt"]) as server:
            def cached(name, system, question):
                body = {"messages": [{"role": "system", "content": system},
                                     {"role": "user", "content": question}], "max_tokens": 2}
                status, _, text = server.request("POST", "/v1/chat/completions", body, bearer(keys[name]))
                self.assertEqual(status, 200, text)
                usage = json.loads(text)["usage"]
                return usage["prompt_tokens_details"]["cached_tokens"], usage["prompt_tokens"]

            self.assertEqual(cached("ana", HOUSEHOLD, "first question")[0], 0)
            for first, second in (("ana", "ben"), ("ben", "eve"), ("eve", "ana")):
                with self.subTest(first=first, second=second):
                    words = f"{first} and {second}: {own}"
                    found, prompt = cached(second, HOUSEHOLD, f"a question by {second} to {first}")
                    self.assertGreater(found, prompt - 48)
                    self.assertEqual(cached(first, words, "one")[0], 0)
                    self.assertEqual(cached(second, words, "one")[0], 0)
                    found, prompt = cached(first, words, "two")
                    self.assertGreater(found, prompt - 48)
            # Beyond the household's words, somebody's own question is not found by another.
            question = "What did I ask that nobody should know of? " * 6
            first = cached("ana", HOUSEHOLD, question + "one")
            again = cached("ana", HOUSEHOLD, question + "two")
            other = cached("ben", HOUSEHOLD, question + "two")
            self.assertGreater(again[0], first[0] + 48)
            self.assertEqual(other[0] // 16, first[0] // 16)


class Network(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.keys = {}

        def prepare(data):
            for name, *flags in (["ana", "--class", "chat", "--class", "voice"], ["ben"], ["eve", "--admin"],
                                 ["tim", "--tokens-a-day", "10"]):
                done = subprocess.run([BINARY, "member", "add", name, *flags, "--data", data],
                                      capture_output=True, text=True, timeout=PATIENCE, check=True)
                cls.keys[name] = done.stdout.strip()
        cls.server = Server("--listen", "0.0.0.0:0", prepare=prepare)

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def ask(self, key, method="POST", path="/v1/chat/completions", body=None, **headers):
        if key:
            headers.update(bearer(self.keys.get(key, key)))
        if method == "POST" and body is None:
            body = chat_body("How many grams are in 3 kilograms?")
        status, _, text = self.server.request(method, path, body, headers)
        code = json.loads(text).get("error", {}).get("code") if text.startswith("{") else None
        return status, code, text

    def test_who_may_come_in(self):
        self.assertEqual(self.ask("")[:2], (401, "missing_api_key"))
        self.assertEqual(self.ask("none")[:2], (401, "invalid_api_key"))
        self.assertEqual(self.ask("lares-" + "A" * 43)[:2], (401, "invalid_api_key"))
        status, _, text = self.ask("ana")
        self.assertEqual(status, 200)
        self.assertIn("3000", text)
        status, _, _ = self.server.request("GET", "/v1/models", headers={"X-Api-Key": self.keys["ben"]})
        self.assertEqual(status, 200)
        self.assertEqual(self.server.get("/healthz")[0], 200)

    def test_classes(self):
        self.assertEqual(self.ask("ana", **{"X-Lares-Class": "voice"})[0], 200)
        status, code, text = self.ask("ben", **{"X-Lares-Class": "voice"})
        self.assertEqual((status, code), (403, "class_not_allowed"))
        self.assertIn("it may claim: chat", text)

    def test_who_used_all_of_a_day_waits(self):
        self.assertEqual(self.ask("tim")[0], 200)
        status, headers, text = self.server.request(
            "POST", "/v1/chat/completions", chat_body("And more"), bearer(self.keys["tim"]))
        self.assertEqual((status, json.loads(text)["error"]["code"]), (429, "member_quota"), text)
        self.assertIn("of 10 tokens in the last 24 hours", text)
        self.assertTrue(23 * 3600 < int(headers["Retry-After"]) <= 24 * 3600 + 900, headers)
        self.assertEqual(self.ask("ana")[0], 200)

    def test_metrics_are_an_admins(self):
        self.assertEqual(self.ask("ana", "GET", "/metrics")[:2], (403, "admin_key_needed"))
        status, _, text = self.ask("eve", "GET", "/metrics")
        self.assertEqual(status, 200)
        for name in self.keys:
            self.assertNotIn(f'"{name}"', text)

    def test_usage_is_ones_own(self):
        self.assertEqual(self.ask("ana")[0], 200)
        self.assertEqual(self.ask("ben")[0], 200)

        def rows(key):
            return {row["key"] for row in json.loads(self.ask(key, "GET", "/v1/usage")[2])["data"]}
        self.server.wait_for(lambda: {"ana", "ben"} <= rows("eve"), "in the ledger")
        self.assertEqual(rows("ana"), {"ana"})
        self.assertEqual(rows("ben"), {"ben"})

    def test_one_cancels_ones_own(self):
        statuses = []

        def cancel(got):
            if got.chunks == 3:
                for key in ("ben", "ana"):
                    statuses.append(self.ask(key, "DELETE", f"/v1/chat/completions/{got.id}")[0])
        got = asyncio.run(stream(self.server, LONG, cancel, headers=bearer(self.keys["ana"])))
        self.assertEqual(statuses[:2], [404, 200])
        self.assertEqual(got.error["code"], "cancelled")

    def test_a_stream_ends_when_its_member_is_removed(self):
        key = self.server.member("add", "dan")

        def remove(got):
            if got.chunks == 3:
                self.server.lares("member", "remove", "dan")
        got = asyncio.run(stream(self.server, LONG, remove, headers=bearer(key)))
        self.assertEqual(got.error["code"], "key_removed")
        self.assertFalse(got.done)
        self.assertEqual(self.ask(key, "GET", "/v1/models")[:2], (401, "invalid_api_key"))

    def test_a_rotated_key_takes_the_place_of_the_old_one(self):
        old = self.server.member("add", "kim")
        self.assertEqual(self.ask(old, "GET", "/v1/models")[0], 200)
        new = self.server.member("rotate", "kim")
        self.assertEqual(self.ask(new, "GET", "/v1/models")[0], 200)
        self.assertEqual(self.ask(old, "GET", "/v1/models")[0], 401)
        listed = self.server.lares("member", "list", "--json")
        self.assertIn("kim", {member["name"] for member in json.loads(listed)})
        for key in (old, new, *self.keys.values()):
            self.assertNotIn(key, listed + self.server.logged())


class Loopback(unittest.TestCase):
    def test_with_and_without_a_key(self):
        with Server() as server:
            key = server.member("add", "ana")
            self.assertEqual(server.request("GET", "/v1/usage", headers=bearer(key))[0], 200)
            self.assertEqual(server.chat("hello", max_tokens=2)[0], 200)
            self.assertEqual(server.request("GET", "/v1/models", headers=bearer("sk-none"))[0], 200)
            forwarded = {"X-Forwarded-For": "10.0.0.1"}
            self.assertEqual(server.request("GET", "/v1/models", headers=forwarded)[0], 403)
            both = {**forwarded, **bearer(key)}
            self.assertEqual(server.request("GET", "/v1/models", headers=both)[0], 200)


class Failed(unittest.TestCase):
    def test_wrong_keys_are_slowed_down_and_right_ones_are_not(self):
        with Server() as server:
            key = server.member("add", "ana")
            for _ in range(40):
                status, headers, _ = server.request("GET", "/v1/models", headers=bearer("lares-" + "B" * 43))
                if status == 429:
                    break
                self.assertEqual(status, 401)
            self.assertEqual(status, 429)
            self.assertGreaterEqual(int(headers["Retry-After"]), 1)
            self.assertEqual(server.request("GET", "/v1/models", headers=bearer(key))[0], 200)


if __name__ == "__main__":
    unittest.main(verbosity=2)
