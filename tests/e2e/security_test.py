"""Every route with every kind of key, and the ways in that attackers try first."""
import asyncio
import contextlib
import json
import pathlib
import random
import re
import socket
import subprocess
import unittest

from lares_server import BINARY, PATIENCE, ROOT, Server, chat_body, stream

SECRET = "xylophone-marmalade"  # In everything ana says.
LONG = {**chat_body(f"Tell me a story of a {SECRET}", max_tokens=1800, ignore_eos=True)}
SKETCH = f'small = "a red apple, {SECRET}" | encode | sample 2 seed 7\nout small png\nkeep small 1d\n'

# What each route is walked with: a body, and of whose thing its id is. A route that is not here fails the test.
CHAT = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 2}
WALK = {
    "GET /": {}, "GET /healthz": {}, "GET /health": {}, "GET /readyz": {}, "GET /api/version": {},
    "POST /v1/chat/completions": {"body": CHAT}, "POST /v1/completions": {"body": {"prompt": "a", "max_tokens": 2}},
    "POST /v1/embeddings": {"body": {"input": "a"}}, "POST /api/embed": {"body": {"input": "a"}},
    "POST /api/embeddings": {"body": {"prompt": "a"}},
    "POST /api/chat": {"body": {**CHAT, "model": "starter-chat", "stream": False}},
    "POST /api/generate": {"body": {"model": "starter-chat", "prompt": "a", "stream": False, "options": {"num_predict": 2}}},
    "POST /api/show": {"body": {"model": "starter-chat"}}, "GET /api/tags": {}, "GET /api/ps": {},
    "POST /v1/jobs": {"body": {"request": {"path": "/v1/chat/completions", "body": CHAT}}},
    "POST /v1/sketches": {"body": {"sketch": '"a cat" | encode | sample 1 seed 1 | out png'}},
    "POST /v1/sketches/check": {"body": {"sketch": '"a cat" | encode | sample 1 seed 1 | out png'}},
    "POST /v1/images/generations": {"body": {"prompt": "a cat", "steps": 1}},
    "POST /v1/images/edits": {"body": {"prompt": "a cat", "steps": 1}}, "GET /v1/webhooks": {}, "GET /v1/latents": {},
    "GET /v1/latents/{id}": {"of": "latent"}, "DELETE /v1/latents/{id}": {"of": "latent"},
    "POST /v1/latents/{id}": {"of": "latent", "tails": ["/share"], "body": {"member": "ben"}},
    "POST /sdapi/v1/txt2img": {"body": {"prompt": "a cat", "steps": 1}},
    "POST /sdapi/v1/img2img": {"body": {"prompt": "a cat", "steps": 1}},
    "GET /sdapi/v1/progress": {}, "GET /sdapi/v1/sd-models": {}, "POST /sdapi/v1/interrupt": {"body": {}},
    "GET /v1/models": {}, "GET /v1/models/loads": {}, "GET /v1/memory": {}, "GET /v1/usage": {}, "GET /v1/queue": {},
    "GET /v1/jobs": {}, "GET /metrics": {"admin": True},
    "GET /web/{id}": {"id": "app.js"}, "GET /v1/me": {}, "GET /v1/timeline": {}, "GET /v1/usage/hours": {},
    "GET /v1/usage/requests": {}, "GET /v1/settings": {"admin": True},
    "GET /v1/models/{id}": {"of": "nobody"},
    "DELETE /v1/chat/completions/{id}": {"of": "stream"}, "DELETE /v1/completions/{id}": {"of": "stream"},
    "GET /v1/jobs/{id}": {"of": "job", "tails": ["", "/result", "/result/0", "/events"]},
    "POST /v1/jobs/{id}": {"of": "job", "tails": ["/retry"], "body": {}}, "DELETE /v1/jobs/{id}": {"of": "job"},
    "GET /v1/sketches/{id}": {"of": "sketch", "tails": ["", "/events", "/results/0"]},
    "DELETE /v1/sketches/{id}": {"of": "sketch"},
    **{f"{route}": {"never": True} for route in (
        "POST /api/pull", "POST /api/create", "POST /api/push", "POST /api/copy", "DELETE /api/delete",
        "GET /api/blobs/{id}", "POST /api/blobs/{id}", "PUT /api/blobs/{id}")},
}
OPEN = {"GET /", "GET /healthz", "GET /health", "GET /readyz", "GET /api/version",
        "GET /web/{id}"}  # Signs of life, and a page that asks for a key.


def table():
    """The server's own list of routes."""
    text = (ROOT / "src" / "server" / "routes.cc").read_text()
    return [f"{m} {p}" for m, p in re.findall(r'\{"([A-Z]+)", "(/[^"]*)", &Routes::', text)]


def bearer(key):
    return {"Authorization": f"Bearer {key}"} if key else {}


class EveryRoute(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.keys = {}

        def prepare(data):
            for name, *flags in (["ana"], ["ben"], ["eve", "--admin"], ["tom"]):
                done = subprocess.run([BINARY, "member", "add", name, "--class", "chat", "--class", "image", *flags,
                                       "--data", data], capture_output=True, text=True, timeout=PATIENCE, check=True)
                cls.keys[name] = done.stdout.strip()
        cls.server = Server("--listen", "0.0.0.0:0", prepare=prepare)
        cls.server.member("remove", "tom")

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def ask(self, who, method, path, body=None, **headers):
        return self.server.request(method, path, body, {**headers, **bearer(self.keys.get(who))})

    def things_of_ana(self):
        """-> ids: a job that is done, a sketch that is done."""
        status, _, text = self.ask("ana", "POST", "/v1/jobs", {"request": {
            "path": "/v1/chat/completions", "body": chat_body(f"What is a {SECRET}?", max_tokens=8)}})
        self.assertEqual(status, 202, text)
        job = json.loads(text)["id"]
        status, _, text = self.ask("ana", "POST", "/v1/sketches", {"sketch": SKETCH}, Prefer="wait")
        self.assertEqual(status, 200, text)
        sketch = json.loads(text)["id"]
        latent = json.loads(text)["kept"][0]["handle"].removeprefix("lat:")
        self.server.wait_for(lambda: json.loads(self.ask("ana", "GET", f"/v1/jobs/{job}")[2])["state"] == "done", "done")
        return {"job": job, "sketch": sketch, "latent": latent}

    def walk(self, ids):
        """(route, method, path, body, whose id) of every route, ids of ana's things filled in."""
        for route in table():
            how = WALK[route]
            method, path = route.split()
            for tail in how.get("tails", [""]):
                yield route, method, path.replace("{id}", ids.get(how.get("of"), how.get("id", "x"))) + tail, how.get("body"), how.get("of")

    def test_every_route_is_walked(self):
        self.assertEqual(sorted(set(table()) - set(WALK)), [])
        self.assertGreater(len(table()), 40)

    def test_without_a_key_and_with_a_removed_one(self):
        for route, method, path, body, _ in self.walk({}):
            for who in (None, "tom"):
                status, _, text = self.ask(who, method, path, body)
                if route in OPEN:
                    self.assertLess(status, 400 if route != "GET /readyz" else 504, (route, text))
                else:
                    # From the tenth wrong key at once on.
                    self.assertIn(status, (401, 429) if who else (401,), (route, who, text))

    def test_nobody_finds_anothers(self):
        ids = self.things_of_ana()
        seen = []

        def while_it_runs(got):
            if got.chunks != 3:
                return
            mine = {**ids, "stream": got.id}
            for route, method, path, body, of in self.walk(mine):
                if WALK[route].get("never") or "/api/" in path and method == "POST":
                    continue
                status, head, text = self.ask_raw("ben", method, path, body)
                seen.append(route)
                self.assertNotIn(SECRET.encode(), text, route)
                for name, value in mine.items():
                    if value.encode() in text:
                        self.assertTrue(status == 404 and of == name, (route, text))
                if WALK[route].get("admin"):
                    self.assertEqual(status, 403, route)
                if of in mine:
                    # As if it had never been: the same answer as for an id that nobody has.
                    other = mine[of][:-6] + "zzzzzz"
                    status_never, _, never = self.ask_raw("ben", method, path.replace(mine[of], other), body)
                    self.assertEqual(status, 404, (route, text))
                    self.assertEqual((status_never, never.replace(other.encode(), b"ID")),
                                     (404, text.replace(mine[of].encode(), b"ID")), route)
        got = asyncio.run(stream(self.server, {**LONG, "max_tokens": 300}, while_it_runs, headers=bearer(self.keys["ana"])))
        self.assertTrue(got.done, got.error)  # Nobody ended it.
        self.assertGreater(len(seen), 30)
        # Hers are still there.
        self.assertEqual(self.ask("ana", "GET", f"/v1/latents/{ids['latent']}")[0], 200)
        self.assertEqual(self.ask("ana", "GET", f"/v1/jobs/{ids['job']}/result")[0], 200)
        self.assertEqual(self.ask_raw("ana", "GET", f"/v1/sketches/{ids['sketch']}/results/0")[0], 200)

    def test_an_admin_sees_that_jobs_are_there_and_not_what_is_in_them(self):
        id = self.things_of_ana()["job"]

        def listed(who, query=""):
            status, _, text = self.ask(who, "GET", f"/v1/jobs?all=true{query}")
            return status, json.loads(text)
        status, refused = listed("ana")
        self.assertEqual((status, refused["error"]["code"]), (403, "admin_key_needed"))
        status, everybodys = listed("eve", "&class=chat&state=done")
        self.assertEqual(status, 200)
        self.assertEqual({job["member"] for job in everybodys["data"]}, {"ana"})
        self.assertIn(id, [job["id"] for job in everybodys["data"]])
        self.assertNotIn(SECRET, json.dumps(everybodys))
        self.assertEqual(json.loads(self.ask("eve", "GET", "/v1/jobs")[2])["data"], [])  # Of her own there are none.
        # Pages go on behind another's job; nobody else's may be named there.
        newest = listed("eve", "&limit=1")[1]["data"][0]["id"]
        self.assertNotIn(newest, [job["id"] for job in listed("eve", f"&after={newest}")[1]["data"]])
        self.assertEqual(self.ask("ben", "GET", f"/v1/jobs?after={newest}")[0], 404)
        for path in (f"/v1/jobs/{id}", f"/v1/jobs/{id}/result", f"/v1/jobs/{id}/events"):
            self.assertEqual(self.ask("eve", "GET", path)[0], 404)
        self.assertEqual(self.ask("eve", "DELETE", f"/v1/jobs/{id}")[0], 404)

    def ask_raw(self, who, method, path, body=None):
        """Like request(), for answers that are no text."""
        import http.client
        connection = http.client.HTTPConnection(self.server.host, self.server.port, timeout=PATIENCE)
        headers = {**bearer(self.keys.get(who)), **({"Content-Type": "application/json"} if body is not None else {})}
        connection.request(method, path, body=None if body is None else json.dumps(body), headers=headers)
        response = connection.getresponse()
        answer = response.status, dict(response.getheaders()), response.read()
        connection.close()
        return answer


class Ways(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def raw(self, data):
        """Sends bytes as they are -> all that comes back until the server closes."""
        with socket.create_connection((self.server.host, self.server.port), timeout=PATIENCE) as connection:
            out = b""
            with contextlib.suppress(ConnectionError):  # Cut before all of it was sent.
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
                while part := connection.recv(65536):
                    out += part
            return out

    def head(self, *lines):
        return "\r\n".join((*lines, f"Host: {self.server.host}:{self.server.port}", "", "")).encode()

    def test_paths_do_not_leave_the_house(self):
        for path in ("/../../etc/passwd", "/v1/jobs/../../../etc/passwd", "/v1/jobs/%2e%2e%2f%2e%2e%2fetc%2fpasswd",
                     "/v1/models/..%2f..%2fetc%2fpasswd", "/api/blobs/../../etc/passwd", "/v1/jobs/%00", "/%c0%ae%c0%ae/etc"):
            answer = self.raw(self.head(f"GET {path} HTTP/1.1", "Connection: close"))
            self.assertRegex(answer.split(b"\r\n")[0], rb"HTTP/1.1 (400|404|501)", path)
            self.assertNotIn(b"root:", answer)

    def test_nothing_is_smuggled_behind_a_request(self):
        inner = b"GET /v1/usage HTTP/1.1\r\nHost: x\r\n\r\n"
        for lines in (("Content-Length: 4", "Transfer-Encoding: chunked"), ("Content-Length: 4", "Content-Length: 40"),
                      ("Transfer-Encoding: chunked, identity",), ("Content-Length: +4",), ("Content-Length: 0x4",),
                      ("Transfer-Encoding : chunked",), ("Content-Length: 4\r\n folded",)):
            answer = self.raw(self.head("POST /v1/completions HTTP/1.1", "Content-Type: application/json", *lines)
                              + b"0\r\n\r\n" + inner)
            first = answer.split(b"\r\n")[0]
            self.assertTrue(re.match(rb"$|HTTP/1.1 (4\d\d|501) ", first), (lines, answer[:200]))
            self.assertEqual(len(re.findall(rb"HTTP/1.1 \d\d\d ", answer)), 1 if first else 0, (lines, answer[:400]))

    def test_requests_of_changed_bytes_are_answered_or_cut(self):
        rng = random.Random(20261)
        body = json.dumps(chat_body("Hello", max_tokens=1)).encode()
        seeds = [self.head("GET /v1/models HTTP/1.1", "Accept: */*", "Connection: close"),
                 self.head("POST /v1/chat/completions HTTP/1.1", "Content-Type: application/json",
                           f"Content-Length: {len(body)}", "Connection: close") + body,
                 self.head("POST /v1/completions HTTP/1.1", "Content-Type: application/json", "Connection: close",
                           "Transfer-Encoding: chunked") + b"5\r\n{\"a\":\r\n2\r\n1}\r\n0\r\n\r\n"]
        pieces = [b"\r\n", b"\n", b"\0", b":", b" ", b"HTTP/1.1", b"Content-Length: 99999999999999999999\r\n", b"%",
                  b"chunked", b"\xff\xfe", b"a" * 20000, b"0\r\n\r\n", b"-1", b";x=y", b"Expect: 100-continue\r\n"]
        for _ in range(400):
            data = bytearray(rng.choice(seeds))
            for _ in range(rng.randint(1, 4)):
                at = rng.randrange(len(data) + 1)
                data[at:at + rng.choice((0, 0, 1, 5))] = rng.choice(pieces + [bytes([rng.randrange(256)])])
            answer = self.raw(bytes(data))
            self.assertTrue(answer == b"" or answer.startswith(b"HTTP/1."), (bytes(data[:300]), answer[:100]))
            self.assertNotIn(b" 500 ", answer.split(b"\r\n")[0], bytes(data[:300]))
        self.assertEqual(self.server.get("/healthz")[0], 200)

    def test_headers_cannot_be_put_into_an_answer(self):
        for path in ("/v1/jobs/a%0d%0aX-Evil:%20yes", "/v1/models/a%0d%0aX-Evil:%20yes", "/a%0d%0aX-Evil:%20yes"):
            answer = self.raw(self.head(f"GET {path} HTTP/1.1", "Connection: close"))
            head, _, _ = answer.partition(b"\r\n\r\n")
            self.assertNotIn(b"x-evil", head.lower(), path)
        answer = self.raw(self.head("GET /v1/models HTTP/1.1", "X-Request-Id: a\tb<script>", "Connection: close"))
        self.assertNotIn(b"<script>", answer.partition(b"\r\n\r\n")[0])

    def test_a_web_page_is_told_apart(self):
        body = chat_body("Hello", max_tokens=2)
        for headers in ({"Origin": "https://evil.example"}, {"Host": "evil.example"}, {"Content-Type": "text/plain"},
                        {"Content-Type": "application/x-www-form-urlencoded"}, {"Origin": "null"}):
            status, got, text = self.server.request("POST", "/v1/chat/completions", json.dumps(body),
                                                    {"Content-Type": "application/json", **headers})
            self.assertIn(status, (403, 415), (headers, text))
            self.assertNotIn("access-control-allow-origin", {name.lower() for name in got})

    def test_a_body_that_grows_when_it_is_unpacked_is_not_unpacked(self):
        import gzip
        bomb = gzip.compress(b" " * (64 << 20))
        answer = self.raw(self.head("POST /v1/chat/completions HTTP/1.1", "Content-Type: application/json",
                                    "Content-Encoding: gzip", f"Content-Length: {len(bomb)}", "Connection: close") + bomb)
        self.assertRegex(answer.split(b"\r\n")[0], rb"HTTP/1.1 4\d\d")

    def test_workers_have_no_network_and_leave_no_core(self):
        self.assertEqual(self.server.chat("Hello", max_tokens=2)[0], 200)
        for pid in self.server.children().values():
            status = pathlib.Path(f"/proc/{pid}/status").read_text()
            self.assertRegex(status, r"Seccomp:\s*2")
            self.assertRegex(status, r"NoNewPrivs:\s*1")
            self.assertRegex(pathlib.Path(f"/proc/{pid}/limits").read_text(), r"Max core file size\s+0\s+0")

    def test_what_people_said_is_readable_by_the_servers_user_alone(self):
        self.assertEqual(self.server.chat("Hello", max_tokens=2)[0], 200)
        self.server.lares("backup", f"{self.server.data}/copy.db")
        files = [p for p in pathlib.Path(self.server.data).rglob("*") if p.name != "server.log"]  # The test's own.
        self.assertIn("copy.db", {p.name for p in files})
        self.assertEqual([(p.name, oct(p.stat().st_mode)) for p in files if p.stat().st_mode & 0o077], [])

    def test_words_are_in_no_log_and_no_metric(self):
        for body in (chat_body(f"What is a {SECRET}?", max_tokens=4), {**chat_body(SECRET), "temperature": SECRET},
                     {**chat_body(SECRET), "model": "none"}, {**chat_body(SECRET), "tools": [{"type": SECRET}]}):
            self.server.request("POST", "/v1/chat/completions", body)
        self.server.request("POST", "/v1/sketches", {"sketch": f'"{SECRET}" | encod'})
        self.server.request("GET", f"/v1/jobs/{SECRET}")
        self.assertNotIn(SECRET, self.server.logged())
        self.assertNotIn(SECRET, self.server.get("/metrics")[1])


if __name__ == "__main__":
    unittest.main()
