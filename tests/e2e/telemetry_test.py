"""Traces as an OpenTelemetry collector gets them: what is in them, and that a collector that is away costs nobody anything."""
import http.server
import json
import queue
import threading
import time
import unittest

from lares_server import PATIENCE, Server, chat_body

SECRET = "xylophone-marmalade"


class Collector:
    """Takes OTLP/HTTP JSON and keeps it; `status` is what it answers."""

    def __init__(self, status=200, hang=None):
        collector = self
        self.got, self.status = queue.Queue(), status

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.got.put((self.path, self.headers["Content-Type"], json.loads(body)))
                if hang is not None:
                    hang.wait(PATIENCE)
                self.send_response(collector.status)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_):
                pass
        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        self.thread = threading.Thread(target=self.http.serve_forever)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.http.shutdown()
        self.thread.join()
        self.http.server_close()


def attributes(span):
    return {a["key"]: next(iter(a["value"].values())) for a in span.get("attributes", [])}


class Telemetry(unittest.TestCase):
    def test_a_span_for_each_clock(self):
        with Collector() as collector:
            with Server("--otlp-endpoint", collector.url) as server:
                server.chat(f"Tell me of {SECRET}", max_tokens=8, ignore_eos=True)
                server.post("/v1/embeddings", {"input": SECRET})
                self.assertEqual(server.post("/v1/chat/completions", {
                    **chat_body("x"), "model": "nobody"})[0], 404)
                # Once at the latest when it ends, everything has been sent.
            spans = []
            while not collector.got.empty():
                path, kind, body = collector.got.get()
                self.assertEqual((path, kind), ("/v1/traces", "application/json"))
                self.assertNotIn(SECRET, json.dumps(body))
                self.assertNotIn("home", json.dumps(body))
                resource, = body["resourceSpans"]
                self.assertEqual(attributes(resource["resource"])["service.name"], "lares")
                spans += resource["scopeSpans"][0]["spans"]
        roots = [span for span in spans if "parentSpanId" not in span]
        by_name = {span["name"]: span for span in roots}
        chat = by_name["chat starter-chat"]
        self.assertIn("embeddings starter-embed", by_name)
        got = attributes(chat)
        self.assertEqual((got["gen_ai.operation.name"], got["gen_ai.request.model"], got["gen_ai.usage.output_tokens"]),
                         ("chat", "starter-chat", "8"))
        self.assertGreater(int(got["gen_ai.usage.input_tokens"]), 8)
        self.assertGreater(got["lares.device_s"], 0)
        children = {span["name"]: span for span in spans if span.get("parentSpanId") == chat["spanId"]}
        self.assertTrue({"text", "queue", "prefill", "inference"} <= set(children), children)
        for span in children.values():
            self.assertEqual(span["traceId"], chat["traceId"])
            self.assertLessEqual(int(chat["startTimeUnixNano"]), int(span["startTimeUnixNano"]))
            self.assertLessEqual(int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"]))
            self.assertLessEqual(int(span["endTimeUnixNano"]), int(chat["endTimeUnixNano"]))
        self.assertLessEqual(abs(int(chat["startTimeUnixNano"]) / 1e9 - time.time()), 600)
        self.assertEqual(len({span["spanId"] for span in spans}), len(spans))

    def test_what_is_sent_is_counted(self):
        with Collector() as collector, Server("--otlp-endpoint", collector.url) as server:
            server.chat("Hello", max_tokens=2)
            server.wait_for(lambda: server.metric('lares_traces_total{result="sent"}') == 1, "sent")
            self.assertEqual(server.metric('lares_traces_total{result="dropped"}'), 0)

    def test_a_collector_that_says_no(self):
        with Collector(status=400) as collector, Server("--otlp-endpoint", collector.url) as server:
            server.chat("Hello", max_tokens=2)
            server.wait_for(lambda: server.metric('lares_traces_total{result="dropped"}') == 1, "dropped")
            self.assertIn("traces are not taken", server.logged())

    def test_a_collector_that_hangs_or_is_away_holds_nobody_up(self):
        hang = threading.Event()
        with Collector(hang=hang) as collector, Server("--otlp-endpoint", collector.url) as server:
            server.chat("Hello", max_tokens=2)
            collector.got.get(timeout=PATIENCE)  # It has the first batch, and does not answer.
            self.assertEqual(server.chat("Hello again", max_tokens=2)[0], 200)
            hang.set()
        with Server("--otlp-endpoint", "http://127.0.0.1:1") as server:
            self.assertEqual(server.chat("Hello", max_tokens=2)[0], 200)
            server.wait_for(lambda: "traces are not taken" in server.logged(), "noticed")
            self.assertEqual(server.chat("Hello again", max_tokens=2)[0], 200)

    def test_an_endpoint_that_is_none(self):
        with self.assertRaisesRegex(RuntimeError, "telemetry.otlp_endpoint"):
            Server("--otlp-endpoint", "collector:4318")


if __name__ == "__main__":
    unittest.main()
