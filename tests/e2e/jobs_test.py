"""Jobs of the journal: submitted, followed, cancelled, tried again; and what asks for one in its headers."""
import http.client
import json
import os
import pathlib
import signal
import subprocess
import unittest

from lares_server import BINARY, PATIENCE, Server, chat_body

OVER = ("done", "failed", "cancelled")


def job(server, id):
    return json.loads(server.get(f"/v1/jobs/{id}")[1])


def submit(server, body, path="/v1/chat/completions", headers=None):
    status, answer = server.post("/v1/jobs", {"request": {"path": path, "body": body}}, headers)
    if status != 202:
        raise RuntimeError((status, answer))
    return answer["id"]


def wait_over(server, id):
    server.wait_for(lambda: job(server, id)["state"] in OVER, f"over: {id}")
    return job(server, id)


def text_of(server, id):
    status, text = server.get(f"/v1/jobs/{id}/result")
    if status != 200:
        raise RuntimeError((status, text))
    return json.loads(text)["choices"][0]["message"]["content"]


def events_of(server, id, last=None):
    """Of a job that is over, or until it is -> [(id, name, data)]"""
    status, _, text = server.request("GET", f"/v1/jobs/{id}/events", headers={"Last-Event-ID": last} if last else None)
    assert status == 200, text
    found = []
    for event in text.strip().split("\n\n") if text.strip() else []:
        fields = dict(line.split(": ", 1) for line in event.split("\n"))
        found.append((fields["id"], fields["event"], json.loads(fields["data"])))
    return found


LONG = chat_body("Tell me a story", max_tokens=1500, ignore_eos=True)


class Jobs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.addClassCleanup(cls.server.stop)

    def test_a_job_from_its_submit_to_its_result(self):
        server = self.server
        status, headers, text = server.request(
            "POST", "/v1/jobs", {"request": {"path": "/v1/chat/completions",
                                             "body": chat_body("How many grams are in 3 kilograms?")}})
        self.assertEqual(status, 202)
        answer = json.loads(text)
        self.assertIn(answer["state"], ("queued", "running"))
        self.assertEqual(headers["Location"], f"/v1/jobs/{answer['id']}")
        # The events' stream ends with the job.
        events = events_of(server, answer["id"])
        self.assertEqual([name for _, name, _ in events], ["queued", "running", "done"])
        self.assertEqual(events_of(server, answer["id"], events[1][0]), events[2:])
        self.assertEqual(wait_over(server, answer["id"])["state"], "done")
        _, same = server.chat("How many grams are in 3 kilograms?")
        self.assertEqual(text_of(server, answer["id"]), same["choices"][0]["message"]["content"])

    def test_every_api_can_be_wrapped(self):
        server = self.server
        asked = {
            "/v1/completions": {"prompt": "Once upon", "max_tokens": 8},
            "/v1/embeddings": {"input": ["one", "two"]},
            "/api/chat": {"messages": [{"role": "user", "content": "Hi"}], "stream": False},
            "/api/generate": {"prompt": "Hi", "stream": True, "options": {"num_predict": 8}},
            "/api/embed": {"input": "one"},
            "/api/embeddings": {"prompt": "one"},
        }
        ids = {path: submit(server, body, path) for path, body in asked.items()}
        for path, id in ids.items():
            got = wait_over(server, id)
            self.assertEqual((got["state"], got["path"]), ("done", path), got)
        self.assertEqual(len(json.loads(server.get(f"/v1/jobs/{ids['/v1/embeddings']}/result")[1])["data"]), 2)
        _, headers, text = server.request("GET", f"/v1/jobs/{ids['/api/generate']}/result")
        self.assertEqual(headers["Content-Type"], "application/x-ndjson")
        self.assertTrue(json.loads(text.strip().split("\n")[-1])["done"])

    def test_what_cannot_be_done_is_refused_at_once(self):
        server = self.server
        for body, param in (({}, "request"), ({"request": {"path": "/v1/models", "body": {}}}, "request.path"),
                            ({"request": {"path": "/v1/chat/completions"}}, "request.body"),
                            ({"request": {"path": "/v1/chat/completions", "body": {"messages": 3}}}, "messages")):
            status, answer = server.post("/v1/jobs", body)
            self.assertEqual(status, 400, answer)
            self.assertEqual(answer["error"]["param"] or "request", param, answer)

    def test_a_request_that_fails_is_a_job_that_failed(self):
        server = self.server
        id = submit(server, chat_body("hello", model="no-such-model"))
        got = wait_over(server, id)
        self.assertEqual((got["state"], got["error"]["code"]), ("failed", "model_not_found"))
        status, text = server.get(f"/v1/jobs/{id}/result")
        self.assertEqual((status, json.loads(text)["error"]["code"]), (404, "model_not_found"))

    def test_cancel_and_retry(self):
        server = self.server
        id = submit(server, LONG)
        server.wait_for(lambda: job(server, id)["state"] == "running", "running")
        self.assertEqual(server.get(f"/v1/jobs/{id}/result")[0], 409)
        self.assertEqual(server.post(f"/v1/jobs/{id}/retry", {})[0], 409)
        status, _, text = server.request("DELETE", f"/v1/jobs/{id}")
        self.assertEqual((status, json.loads(text)["state"]), (200, "cancelled"))
        self.assertEqual(job(server, id)["state"], "cancelled")
        self.assertEqual(server.request("DELETE", f"/v1/jobs/{id}")[0], 200)
        self.assertEqual(server.get(f"/v1/jobs/{id}/result")[0], 409)
        self.assertEqual(server.post(f"/v1/jobs/{id}/retry", {})[0], 202)
        server.wait_for(lambda: job(server, id)["state"] == "running", "running again")
        self.assertEqual(server.request("DELETE", f"/v1/jobs/{id}")[0], 200)
        done = submit(server, chat_body("hello"))
        wait_over(server, done)
        self.assertEqual(server.request("DELETE", f"/v1/jobs/{done}")[0], 409)
        self.assertEqual(server.request("DELETE", "/v1/jobs/job_nobody")[0], 404)
        server.lares("usage", "--check")

    def test_lists_are_filtered_and_paged(self):
        server = self.server
        ids = [submit(server, chat_body("hello", max_tokens=2), headers={"X-Lares-Class": "agent"}) for _ in range(3)]
        for id in ids:
            wait_over(server, id)
        page = json.loads(server.get("/v1/jobs?class=agent&state=done&limit=2")[1])
        self.assertEqual([j["id"] for j in page["data"]], ids[:0:-1])
        self.assertTrue(page["has_more"])
        page = json.loads(server.get(f"/v1/jobs?class=agent&limit=2&after={page['next']}")[1])
        self.assertEqual([j["id"] for j in page["data"]], ids[:1])
        self.assertFalse(page["has_more"])
        self.assertEqual(server.get("/v1/jobs?state=asleep")[0], 400)
        self.assertEqual(server.get("/v1/jobs?limit=0")[0], 400)

    def test_the_same_key_and_body_are_the_same_job(self):
        server = self.server
        key = {"Idempotency-Key": "tea-1"}
        body = chat_body("How many grams are in 3 kilograms?", seed=1, temperature=1)
        _, first = server.post("/v1/chat/completions", body, key)
        _, again = server.post("/v1/chat/completions", dict(reversed(body.items())), key)
        # Members in another order are another text, and so another request: 409.
        self.assertEqual(again["error"]["code"], "idempotency_key_reused")
        before = json.loads(server.get("/v1/usage")[1])["data"][0]["requests"]
        status, again = server.post("/v1/chat/completions", body, key)
        self.assertEqual((status, again), (200, first))
        self.assertEqual(json.loads(server.get("/v1/usage")[1])["data"][0]["requests"], before)
        status, other = server.post("/v1/chat/completions", {**body, "max_tokens": 3}, key)
        self.assertEqual((status, other["error"]["code"]), (409, "idempotency_key_reused"))
        wrapped = {"request": {"path": "/v1/chat/completions", "body": body}}
        key = {"Idempotency-Key": "tea-2"}
        self.assertEqual(server.post("/v1/jobs", wrapped, key)[1]["id"], server.post("/v1/jobs", wrapped, key)[1]["id"])

    def test_respond_async_is_a_job(self):
        status, headers, text = self.server.request(
            "POST", "/v1/chat/completions", chat_body("hello"), {"Prefer": "respond-async"})
        self.assertEqual((status, headers["Preference-Applied"]), (202, "respond-async"))
        self.assertEqual(wait_over(self.server, json.loads(text)["id"])["state"], "done")

    def test_a_stream_is_opened_again_and_replays_what_was_missed(self):
        server = self.server
        body = json.dumps({**LONG, "max_tokens": 600, "stream": True})
        headers = {"Content-Type": "application/json", "Idempotency-Key": "story-1"}
        connection = http.client.HTTPConnection(server.host, server.port, timeout=PATIENCE)
        connection.request("POST", "/v1/chat/completions", body, headers)
        response = connection.getresponse()
        seen = [response.readline() for _ in range(30)]
        connection.close()
        response.close()
        last = [line for line in seen if line.startswith(b"id: ")][-1][4:].strip().decode()
        cut = seen.index(b"id: " + last.encode() + b"\n")
        _, _, rest = server.request("POST", "/v1/chat/completions", body, {**headers, "Last-Event-ID": last})
        _, _, whole = server.request("POST", "/v1/chat/completions", body, headers)
        self.assertTrue(whole.endswith("data: [DONE]\n\n"))
        self.assertTrue(whole.startswith(b"".join(seen[:cut]).decode()))
        self.assertTrue(whole.endswith(rest))
        first = whole.index(f"id: {last}\n")
        self.assertEqual(whole[whole.index("\n\n", first) + 2:], rest)
        self.assertEqual(len(json.loads(server.get("/v1/jobs?limit=500")[1])["data"]),
                         len({j["id"] for j in json.loads(server.get("/v1/jobs?limit=500")[1])["data"]}))

    def test_a_second_server_on_the_folder_is_refused(self):
        done = subprocess.run(self.server.command, capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"process {self.server.process.pid}", done.stderr)


class Members(unittest.TestCase):
    def test_a_member_sees_only_their_own(self):
        with Server() as server:
            ana = {"Authorization": "Bearer " + server.member("add", "ana", "--class", "chat")}
            ben = {"Authorization": "Bearer " + server.member("add", "ben", "--class", "chat")}
            id = submit(server, chat_body("hello"), headers=ana)
            server.wait_for(lambda: json.loads(server.request("GET", f"/v1/jobs/{id}", headers=ana)[2])["state"] == "done",
                            "done")
            for path in ("", "/result", "/events"):
                self.assertEqual(server.request("GET", f"/v1/jobs/{id}{path}", headers=ana)[0], 200)
                self.assertEqual(server.request("GET", f"/v1/jobs/{id}{path}", headers=ben)[0], 404)
            self.assertEqual(server.request("DELETE", f"/v1/jobs/{id}", headers=ben)[0], 404)
            self.assertEqual(server.request("POST", f"/v1/jobs/{id}/retry", {}, headers=ben)[0], 404)
            self.assertEqual(json.loads(server.request("GET", "/v1/jobs", headers=ben)[2])["data"], [])
            # A key that was taken away takes its jobs along.
            ids = [submit(server, LONG, headers=ben) for _ in range(20)]
            server.member("remove", "ben")
            server.wait_for(lambda: server.get("/v1/queue")[1].count('"running":0') == 1, "ended")
            server.wait_for(lambda: not server.lares("usage", "--check").startswith("x"), "exact")
            self.assertEqual(len(ids), 20)


class Restarts(unittest.TestCase):
    def test_kill_nine_loses_nothing(self):
        asked = {f"Count to {n}": chat_body(f"Count to {n}", max_tokens=200, ignore_eos=True) for n in range(12)}
        with Server() as server:
            plain = {q: server.post("/v1/chat/completions", body)[1]["choices"][0]["message"]["content"]
                     for q, body in asked.items()}
            ids = {q: submit(server, body) for q, body in asked.items()}
            embed = submit(server, {"input": ["one"] * 40}, "/v1/embeddings")
            for kill in range(5):
                started = [id for id in ids.values() if job(server, id)["state"] != "queued"]
                server.wait_for(lambda: len([1 for id in ids.values() if job(server, id)["state"] != "queued"]) >=
                                min(len(started), len(ids)), "under way")
                server.kill()
                server.start(wait_ready=kill == 4)
            differ = 0
            for q, id in ids.items():
                got = wait_over(server, id)
                self.assertEqual(got["state"], "done", got)
                differ += text_of(server, id) != plain[q]
            self.assertEqual(wait_over(server, embed)["state"], "done")
            # Other neighbours in a batch round differently, at near ties alone.
            self.assertLessEqual(differ, 4)
            server.lares("usage", "--check")
            self.assertEqual(list(pathlib.Path(server.data).glob("blobs/**/*.half")), [])

    def test_a_running_answer_goes_on_from_its_tokens(self):
        with Server() as server:
            _, whole = server.post("/v1/chat/completions", LONG)
            id = submit(server, LONG)
            server.wait_for(lambda: any(j["id"] == id for j in json.loads(server.get("/v1/jobs?state=running")[1])["data"]),
                            "running")
            tokens = lambda: sum(j["output_tokens"] for j in json.loads(server.get("/v1/queue")[1])["jobs"])
            server.wait_for(lambda: tokens() > 300, "made 300 tokens")
            server.kill()
            server.start()
            got = wait_over(server, id)
            self.assertEqual(got["state"], "done")
            self.assertEqual(len(got["attempt_log"]), 2)
            self.assertEqual(text_of(server, id), whole["choices"][0]["message"]["content"])
            # The second attempt had less to do.
            first, second = (a["device_s"] for a in got["attempt_log"])
            self.assertGreater(first, 0)
            self.assertGreater(second, 0)
            server.lares("usage", "--check")

    def test_sigterm_lets_answers_end_and_leaves_the_rest_for_the_next_start(self):
        with Server("--drain", "300ms") as server:
            ids = [submit(server, LONG) for _ in range(12)]
            server.wait_for(lambda: job(server, ids[0])["state"] == "running", "running")
            server.process.send_signal(signal.SIGTERM)
            self.assertEqual(server.process.wait(PATIENCE), 0)
            server.process.stdout.close()
            server.lares("usage", "--check")
            server.start()
            for id in ids:
                self.assertEqual(wait_over(server, id)["state"], "done")
            server.lares("usage", "--check")

    def test_sigterm_waits_for_what_runs(self):
        with Server() as server:
            connection = http.client.HTTPConnection(server.host, server.port, timeout=PATIENCE)
            connection.request("POST", "/v1/chat/completions", json.dumps({**LONG, "max_tokens": 300, "stream": True}),
                               {"Content-Type": "application/json"})
            response = connection.getresponse()
            response.readline()
            server.process.send_signal(signal.SIGTERM)
            rest = response.read().decode()
            self.assertTrue(rest.endswith("data: [DONE]\n\n"), rest[-200:])
            self.assertNotIn("server_stopping", rest)
            self.assertEqual(server.process.wait(PATIENCE), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
