"""What the dashboard reads, on the real binary, and what reading it costs."""
import contextlib
import http.client
import json
import pathlib
import unittest

from lares_server import PATIENCE, Server

DASHBOARDS = 10
CYCLES = 200


class Dashboard(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.ana = {"Authorization": f"Bearer {cls.server.member('add', 'ana')}"}
        cls.keeper = {"Authorization": f"Bearer {cls.server.member('add', 'keeper', '--admin')}"}

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def read(self, path, headers=None, status=200):
        got, _, text = self.server.request("GET", path, headers=headers)
        self.assertEqual(got, status, text)
        return json.loads(text)

    def chat(self, headers=None, **fields):
        status, answer = self.server.post("/v1/chat/completions", {
            "messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 24, "ignore_eos": True, **fields}, headers)
        self.assertEqual(status, 200, answer)
        return answer

    def test_the_timeline_adds_up_to_what_members_are_charged(self):
        before = self.read("/v1/timeline", self.keeper)["next"]
        status, headers, _ = self.server.request("POST", "/v1/chat/completions", {
            "messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 24, "ignore_eos": True}, self.ana)
        self.assertEqual(status, 200)

        def rows():  # Other tests' are there, too; this one's comes a moment after its answer.
            return [row for row in self.read("/v1/usage/requests", self.ana)["data"]
                    if str(row["request"]) == headers["X-Request-Id"]]
        self.server.wait_for(rows, "kept the request")
        row, = rows()
        self.assertEqual((row["member"], row["class"], row["output_tokens"]), ("ana", "chat", 24))
        steps = [s for s in self.read("/v1/timeline", self.keeper)["steps"] if s["n"] > before]
        mine = sum(share["device_s"] for s in steps for share in s["shares"] if share["member"] == "ana")
        self.assertAlmostEqual(mine, row["device_s"], delta=0.02 * row["device_s"] + 1e-5)
        for step in steps:
            self.assertLessEqual(step["start"], step["end"])
            self.assertEqual(step["model"], "starter-chat")
        clocks = row["clocks"]
        self.assertLessEqual(clocks["queue_wait_s"] + clocks["prefill_s"] + clocks["inference_s"], clocks["total_s"])

    def test_a_member_sees_no_other(self):
        self.chat(self.ana)
        self.chat()
        text = self.server.request("GET", "/v1/timeline", headers=self.ana)[2]
        self.assertIn('"member":"ana"', text)
        self.assertIn('"member":null', text)
        self.assertNotIn('"member":"home"', text)
        self.server.wait_for(lambda: self.read("/v1/usage/hours", self.ana)["others"], "kept the others' requests")
        self.assertEqual({use["member"] for use in self.read("/v1/usage/hours", self.ana)["data"]}, {"ana"})
        self.assertLessEqual({"ana", "home"}, {use["member"] for use in self.read("/v1/usage/hours", self.keeper)["data"]})
        self.assertEqual({row["member"] for row in self.read("/v1/usage/requests", self.ana)["data"]}, {"ana"})

    def test_requests_in_pages(self):
        for _ in range(3):
            self.chat(max_tokens=1)
        self.server.wait_for(lambda: len(self.read("/v1/usage/requests")["data"]) >= 3, "kept them")
        page = self.read("/v1/usage/requests?limit=1")
        seen = [page["data"][0]["n"]]
        while page["has_more"]:
            page = self.read(f"/v1/usage/requests?limit=1&before={page['next']}")
            seen.append(page["data"][0]["n"])
        self.assertEqual(seen, sorted(set(seen), reverse=True))
        self.assertGreaterEqual(len(seen), 3)

    def test_settings_and_who_asks(self):
        values = {s["key"]: s["value"] for s in self.read("/v1/settings")["data"]}
        self.assertEqual(values["server.listen"], "127.0.0.1:0")
        self.assertEqual(values["server.data"], self.server.data)
        self.assertEqual(self.read("/v1/me", self.keeper)["admin"], True)
        self.assertEqual(self.read("/v1/me")["name"], "home")

    def test_a_model_says_why_it_is_held(self):
        model = self.read("/v1/models/starter-chat")
        self.assertEqual(model["why"], "it stays while there is room")
        self.assertGreater(model["load_s"], 0)
        self.assertEqual(model["loads"], 1)

    def computed(self):
        """Seconds that the server's own process computed."""
        tasks = pathlib.Path(f"/proc/{self.server.process.pid}/task").glob("*/schedstat")
        return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9

    def test_ten_dashboards_cost_little(self):
        self.chat(max_tokens=200)
        since = self.read("/v1/timeline")["next"]
        connection = http.client.HTTPConnection(self.server.host, self.server.port, timeout=PATIENCE)

        def look(path):
            connection.request("GET", path)
            response = connection.getresponse()
            self.assertEqual(response.status, 200)
            response.read()

        with contextlib.closing(connection):
            look("/v1/queue")
            before = self.computed()
            for i in range(CYCLES):  # As src/web/now.js: a cycle a second.
                look(f"/v1/timeline?since={since}")
                look("/v1/queue")
                if i % 4 == 0:
                    look("/v1/memory")
                    look("/v1/models")
            cycle = (self.computed() - before) / CYCLES
        print(f"a dashboard's second takes {cycle * 1e6:.0f} us of the server; ten take {cycle * DASHBOARDS:.2%} of a core")
        self.assertLess(cycle * DASHBOARDS, 0.01)


if __name__ == "__main__":
    unittest.main()
