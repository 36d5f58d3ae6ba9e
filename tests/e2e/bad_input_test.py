"""What a person or a stranger can do wrong: one clear error each, and nobody else notices."""
import asyncio
import json
import os
import socket
import subprocess
import tempfile
import unittest

from lares_server import BINARY, PATIENCE, STARTER, Server, chat_body, stream


class Requests(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--header-time", "1s", "--body-time", "2s", "--pool-tokens", "1024",
                            "--body-bytes", "2 MiB")

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def tearDown(self):
        status, answer = self.server.chat("How many grams are in 3 kilograms?")
        self.assertEqual(status, 200, answer)

    def refused(self, status, code, body, headers=None, path="/v1/chat/completions"):
        if not isinstance(body, (str, bytes)):
            body = json.dumps(body)
        got, _, text = self.server.request("POST", path, body, {"Content-Type": "application/json", **(headers or {})})
        error = json.loads(text)["error"]
        self.assertEqual((got, error["code"]), (status, code), error)
        self.assertGreater(len(error["message"]), 10)
        return error

    def test_bodies_that_make_no_sense(self):
        self.refused(400, "invalid_json", '{"messages": [')
        self.refused(400, "invalid_json", b'{"messages": "\xff\xfe"}')
        error = self.refused(400, "invalid_request", {"messages": "hello"})
        self.assertEqual(error["param"], "messages")
        self.refused(400, "invalid_request", {"messages": []})
        self.refused(400, "invalid_request", chat_body("hello", max_tokens=0))
        self.refused(400, "invalid_request", chat_body("hello", temperature="hot"))
        deep = '{"messages":' + "[" * 5000 + "]" * 5000 + "}"
        self.assertIn(self.server.request("POST", "/v1/chat/completions", deep, {"Content-Type": "application/json"})[0],
                      (400, 413))
        self.assertEqual(self.server.request("POST", "/v1/chat/completions", "x" * (3 << 20),
                                             {"Content-Type": "application/json"})[0], 413)

    def test_numbers_are_named_in_refusals(self):
        error = self.refused(404, "model_not_found", chat_body("hello", model="starter-chad"))
        self.assertIn("starter-chat", error["message"])
        error = self.refused(400, "context_length_exceeded", chat_body("hello", max_tokens=4000))
        self.assertIn("2048", error["message"])
        error = self.refused(400, "kv_never_fits", chat_body("hello", max_tokens=1500))
        self.assertIn("1024", error["message"])
        error = self.refused(400, "kv_never_fits", chat_body("word " * 650, max_tokens=10))
        self.assertIn("1024", error["message"])
        error = self.refused(400, "class_unknown", chat_body("hello"), {"X-Lares-Class": "voise"})
        self.assertIn("voice", error["message"])

    def test_a_web_page_gets_nothing(self):
        body = json.dumps(chat_body("hello"))
        for headers in ({"Origin": "https://evil.example", "Content-Type": "application/json"},
                        {"Content-Type": "text/plain"},
                        {"Host": "evil.example", "Content-Type": "application/json"},
                        {"X-Forwarded-For": "10.0.0.1", "Content-Type": "application/json"}):
            status, answer_headers, text = self.server.request("POST", "/v1/chat/completions", body, headers)
            self.assertIn(status, (403, 415, 421), (headers, text))
            self.assertNotIn("Access-Control-Allow-Origin", answer_headers)

    def test_a_client_that_sends_a_byte_now_and_then_is_cut(self):
        with socket.create_connection((self.server.host, self.server.port), timeout=PATIENCE) as s:
            s.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                      b"Content-Length: 1000\r\n\r\n{")
            answer = b""
            while chunk := s.recv(4096):  # Ends by the server's limit of 2 s, not by ours.
                answer += chunk
            self.assertIn(b" 408 ", answer.split(b"\r\n")[0])

    def test_two_thousand_idle_connections_disturb_nobody(self):
        idle = []
        try:
            for _ in range(2000):
                idle.append(socket.create_connection((self.server.host, self.server.port), timeout=PATIENCE))
            got = asyncio.run(stream(self.server, chat_body("Tell me a story", max_tokens=64, ignore_eos=True)))
            self.assertEqual(got.finish, "length")
            self.assertEqual(self.server.get("/healthz")[0], 200)
        finally:
            for s in idle:
                s.close()

    def test_work_of_one_that_leaves_without_reading_ends(self):
        body = json.dumps(chat_body("Tell me a story", max_tokens=900, ignore_eos=True, stream=True, n=1)).encode()
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.connect((self.server.host, self.server.port))
        s.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                  b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.server.wait_for(lambda: self.server.metric("lares_jobs_running") >= 1, "running")
        s.close()
        self.server.wait_for(lambda: self.server.metric("lares_jobs_running") == 0, "ended")


class Starts(unittest.TestCase):
    def serve(self, *flags):
        with tempfile.TemporaryDirectory() as data:
            return subprocess.run([BINARY, "serve", "--data", data, "--models", STARTER, "--listen", "127.0.0.1:0", *flags],
                                  capture_output=True, text=True, timeout=PATIENCE)

    def test_a_port_in_use_is_named(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            s.listen()
            port = s.getsockname()[1]
            done = self.serve("--listen", f"127.0.0.1:{port}")
        self.assertEqual(done.returncode, 1)
        self.assertIn(str(port), done.stderr)
        self.assertIn("--listen", done.stderr)

    def test_a_data_folder_that_cannot_be_written_is_named(self):
        with tempfile.NamedTemporaryFile() as file:
            done = self.serve("--data", file.name + "/data")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(file.name, done.stderr)

    def test_another_address_needs_keys(self):
        done = self.serve("--listen", "0.0.0.0:0")
        self.assertEqual(done.returncode, 2)
        self.assertIn("lares member add NAME --data", done.stderr)

    def test_unknown_keys_and_flags_are_suggested(self):
        self.assertIn("--policy", self.serve("--polixy", "orca").stderr)
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write("[scheduler]\npolici = 'orca'\n")
            file.flush()
            done = self.serve("--config", file.name)
        self.assertEqual(done.returncode, 2)
        self.assertIn("policy", done.stderr)
        self.assertIn(":2:", done.stderr)

    def test_models_that_are_not_there(self):
        done = self.serve("--models", "/nowhere/at/all")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("/nowhere/at/all", done.stderr)

    def test_usage_before_any_request(self):
        with tempfile.TemporaryDirectory() as data:
            done = subprocess.run([BINARY, "usage", "--data", data], capture_output=True, text=True, timeout=PATIENCE)
        self.assertIn("no usage ledger", done.stdout + done.stderr)


class Ledger(unittest.TestCase):
    def test_done_cancelled_and_refused_requests_are_all_there(self):
        with Server() as server:
            server.chat("hello", max_tokens=4)
            server.chat("hello", max_tokens=100000)

            def leave(got):
                if got.chunks == 3:
                    server.request("DELETE", f"/v1/chat/completions/{got.id}")

            asyncio.run(stream(server, chat_body("Tell me a story", max_tokens=1500, ignore_eos=True), leave))

            def rows():
                done = subprocess.run([BINARY, "usage", "--data", server.data, "--by", "member", "--json"],
                                      capture_output=True, text=True, timeout=PATIENCE)
                return json.loads(done.stdout)

            server.wait_for(lambda: rows() and rows()[0]["requests"] == 3, "written")
            row = rows()[0]
            self.assertEqual(row["cancelled"], 1)
            self.assertEqual(row["failed"], 1)
            self.assertGreater(row["device_s"], 0)
            for by in ("class", "model", "day"):
                done = subprocess.run([BINARY, "usage", "--data", server.data, "--by", by], capture_output=True,
                                      text=True, timeout=PATIENCE)
                self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
