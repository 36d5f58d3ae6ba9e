"""Jobs of the journal: submitted, followed, cancelled, tried again; and what asks for one in its headers."""
import asyncio
import contextlib
import http.client
import json
import pathlib
import resource
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import unittest

from faults_test import NO_TIE
from lares_server import BINARY, PATIENCE, Server, chat_body, stream

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


def rows(server, query):
    """Of the journal, beside the server that writes it."""
    with contextlib.closing(sqlite3.connect(f"file:{server.data}/lares.db?mode=ro", uri=True, timeout=PATIENCE)) as db:
        return db.execute(query).fetchall()


LONG = chat_body("Tell me a story", max_tokens=1000, ignore_eos=True)


class WallClock(unittest.TestCase):
    DAY = 86400

    def setUp(self):
        folder = tempfile.mkdtemp(prefix="lares-clock-")
        self.addCleanup(shutil.rmtree, folder)
        shim = f"{folder}/shim.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-O2", pathlib.Path(__file__).with_name("clock_shim.c"), "-o", shim,
                        "-ldl"], check=True)
        self.offset = pathlib.Path(folder, "offset")
        self.jump(0)
        self.server = Server(env={"LD_PRELOAD": shim, "LARES_TEST_CLOCK": str(self.offset)})
        self.addCleanup(self.server.stop)

    def jump(self, seconds):
        fresh = self.offset.with_suffix(".new")
        fresh.write_text(str(seconds))
        fresh.rename(self.offset)

    def test_a_clock_that_jumps_loses_nothing(self):
        server, ask = self.server, chat_body("How many grams are in 3 kilograms?")
        first = submit(server, ask)
        self.assertEqual(wait_over(server, first)["state"], "done")
        created = job(server, first)["created"]
        for days in (3, -3000, 0):
            self.jump(days * self.DAY)
            id = submit(server, ask)
            self.assertEqual(wait_over(server, id)["state"], "done", days)
            self.assertIn("3000", text_of(server, id))
            # Its time is the clock's: the shim is at work.
            self.assertAlmostEqual(job(server, id)["created"], created + days * self.DAY, delta=600)
        self.assertIn("3000", text_of(server, first))  # Three days are within what is kept.
        self.assertEqual(len(json.loads(server.get("/v1/jobs")[1])["data"]), 4)
        server.lares("usage", "--check")

    def test_a_stream_does_not_notice(self):
        def jump(got):
            self.jump({10: 3 * self.DAY, 20: -3000 * self.DAY}.get(got.chunks, 0))
        got = asyncio.run(stream(self.server, chat_body("Tell me a story", max_tokens=60, ignore_eos=True), jump))
        self.assertTrue(got.done, got.error)
        self.assertEqual(got.usage["completion_tokens"] if got.usage else 60, 60)
        self.server.lares("usage", "--check")


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
        # Members in another order are another text, and so another request.
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
            server.wait_for(lambda: rows(server, "SELECT state FROM job WHERE state IN ('queued', 'running')") == [],
                            "over")
            got = dict(rows(server, "SELECT id, error_code FROM job WHERE member = 'ben'"))
            self.assertEqual({id: "key_removed" for id in ids}, got)
            server.lares("usage", "--check")


def gap_where_they_part(undisturbed, text):
    """How far apart the two best scores of an undisturbed answer with logprobs are where the text parts from it;
    None if it does not."""
    want, at = text.encode(), 0
    for token in undisturbed["logprobs"]["content"]:
        piece = bytes(token["bytes"])
        # A replacement mark in the text stands for bytes that are no letter.
        if want[at:at + len(piece)] != piece:
            best = token["top_logprobs"]
            return best[0]["logprob"] - best[1]["logprob"]
        at += len(piece)
    return None


def same_text(test, undisturbed, text):
    if undisturbed["message"]["content"] != text:
        gap = gap_where_they_part(undisturbed, text)
        test.assertIsNotNone(gap, (undisturbed["message"]["content"], text))
        test.assertLess(gap, NO_TIE, (undisturbed["message"]["content"], text))


class Restarts(unittest.TestCase):
    def test_kill_nine_five_times_loses_nothing(self):
        asked = {f"Count to {n}": chat_body(f"Count to {n}", max_tokens=150, ignore_eos=True) for n in range(10)}
        with Server() as server:
            scored = {"logprobs": True, "top_logprobs": 2}
            plain = {q: server.post("/v1/chat/completions", {**body, **scored})[1]["choices"][0]
                     for q, body in asked.items()}
            ids = {q: submit(server, body) for q, body in asked.items()}
            others = [submit(server, {"input": ["one two three"] * 40}, "/v1/embeddings"),
                      submit(server, {"prompt": "Once", "max_tokens": 100, "stream": True}, "/v1/completions"),
                      submit(server, {"prompt": "Once", "options": {"num_predict": 100}}, "/api/generate")]
            for kill in range(5):
                # Somebody has got further than at the last kill, or is over.
                so_far = rows(server, "SELECT job, length(bytes) FROM checkpoint ORDER BY job, part")
                server.wait_for(lambda: so_far != rows(
                    server, "SELECT job, length(bytes) FROM checkpoint ORDER BY job, part"), "got further")
                server.kill()
                server.start(wait_ready=False)
            for q, id in ids.items():
                got = wait_over(server, id)
                self.assertEqual(got["state"], "done", got)
                same_text(self, plain[q], text_of(server, id))
            for id in others:
                self.assertEqual(wait_over(server, id)["state"], "done")
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
            self.assertTrue(all(a["device_s"] > 0 for a in got["attempt_log"]), got)
            # It began behind its last checkpoint, and did not do the beginning again.
            self.assertIn("the server stopped", got["attempt_log"][0]["reason"])
            self.assertLess(server.metric("lares_output_tokens_total"), 1001)
            server.lares("usage", "--check")

    def test_sigterm_lets_answers_end_and_leaves_the_rest_for_the_next_start(self):
        with Server("--drain", "100ms") as server:
            ids = [submit(server, {**LONG, "max_tokens": 500}) for _ in range(5)]
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
            connection.close()
            self.assertTrue(rest.endswith("data: [DONE]\n\n"), rest[-200:])
            self.assertNotIn("server_stopping", rest)
            self.assertEqual(server.process.wait(PATIENCE), 0)


class Disk(unittest.TestCase):
    def test_while_nothing_can_be_written_new_jobs_are_refused_and_running_ones_end(self):
        with Server() as server:
            running = submit(server, {**LONG, "max_tokens": 300})
            # Files may grow no further, as on a full disk.
            wal = pathlib.Path(f"{server.data}/lares.db-wal").stat().st_size
            resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (wal, resource.RLIM_INFINITY))
            refused = {}

            def is_refused():
                # The write-ahead log may begin anew once: at most as much as it holds is taken.
                status, answer = server.post("/v1/jobs", {"request": {
                    "path": "/v1/completions", "body": {"prompt": "x" * 30000, "max_tokens": 1}}})
                refused.update(answer)
                return status == 507

            server.wait_for(is_refused, "refused")
            self.assertEqual(refused["error"]["code"], "storage_failed")
            self.assertEqual(server.chat("hello", max_tokens=2)[0], 200)
            resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
            self.assertEqual(wait_over(server, running)["state"], "done")
            server.wait_for(lambda: rows(server, "SELECT 1 FROM job WHERE state IN ('queued', 'running')") == [], "over")
            self.assertEqual(server.post("/v1/jobs", {"request": {"path": "/v1/chat/completions",
                                                                  "body": chat_body("hello")}})[0], 202)
            server.lares("usage", "--check")


class Commands(unittest.TestCase):
    def test_jobs_backup_and_export(self):
        with Server() as server:
            large = "word " * 30000  # A blob; the prompt is too long for the model, and the job fails.
            failed = submit(server, chat_body(large))
            id = submit(server, chat_body("How many grams are in 3 kilograms?"))
            self.assertEqual(server.lares("jobs", "wait", id), "done")
            self.assertIn("kilograms", server.lares("jobs", "result", id))
            self.assertIn(id, server.lares("jobs"))
            self.assertEqual(json.loads(server.lares("jobs", "--json"))["data"][0]["id"], id)
            self.assertNotIn(id, server.lares("jobs", "list", "--state", "failed"))
            with self.assertRaisesRegex(RuntimeError, "context_length_exceeded"):
                server.lares("jobs", "wait", failed)
            long = submit(server, LONG)
            self.assertEqual(server.lares("jobs", "cancel", long), "cancelled")
            self.assertIn("cancelled", server.lares("jobs", "show", long))
            self.assertEqual(server.lares("jobs", "retry", long), "queued again")
            self.assertEqual(server.lares("jobs", "cancel", long), "cancelled")
            lines = server.lares("export", "usage", "--csv").splitlines()
            self.assertEqual(len(lines), 4)
            by_job = {r["job"]: r for r in map(json.loads, server.lares("export", "usage", "--json").splitlines())}
            self.assertEqual(by_job[id]["outcome"], "done")
            with tempfile.TemporaryDirectory() as folder:
                server.lares("backup", f"{folder}/copy.db")
                with self.assertRaisesRegex(RuntimeError, "is there already"):
                    server.lares("backup", f"{folder}/copy.db")
                pathlib.Path(f"{folder}/half.db").write_bytes(pathlib.Path(f"{folder}/copy.db").read_bytes()[:20000])
                result = server.lares("jobs", "result", id)
                server.kill()
                for name in pathlib.Path(server.data).glob("lares.db*"):
                    name.unlink()
                shutil.rmtree(pathlib.Path(server.data) / "blobs", ignore_errors=True)
                shutil.copy(f"{folder}/half.db", f"{server.data}/lares.db")
                broken = subprocess.run(server.command, capture_output=True, text=True, timeout=PATIENCE)
                self.assertEqual(broken.returncode, 1)
                self.assertIn("malformed", broken.stderr)
                shutil.copy(f"{folder}/copy.db", f"{server.data}/lares.db")
            server.start()
            self.assertEqual(server.lares("jobs", "result", id), result)
            server.lares("usage", "--check")
            # The request of the failed one was a blob; it can be tried again from the copy.
            self.assertEqual(server.lares("jobs", "retry", failed), "queued again")
            self.assertEqual(wait_over(server, failed)["error"]["code"], "context_length_exceeded")
            server.lares("usage", "--check")


if __name__ == "__main__":
    unittest.main(verbosity=2)
