#!/usr/bin/env python3
"""How quick /metrics and the lists are with a long history: store_rows.py BINARY [--rows 1000000] [--metrics-rows 10000]

Writes the rows into a scratch data folder with SQL, starts the server on it, and asks. Prints the
median and the slowest of 50 answers, in ms, over the loopback socket.
"""
import argparse
import http.client
import json
import pathlib
import signal
import sqlite3
import statistics
import subprocess
import tempfile
import time

PATHS = ("/metrics", "/v1/jobs", "/v1/jobs?limit=500", "/v1/jobs?state=running", "/v1/jobs?state=failed",
         "/v1/jobs?state=done", "/v1/jobs?class=voice", "/v1/jobs?class=nobody's", "/v1/jobs?all=true&state=queued",
         "/v1/jobs?all=true&state=cancelled", "/v1/usage/requests?limit=50", "/v1/usage/hours", "/v1/usage?by=day")

MODELS = str(pathlib.Path(__file__).resolve().parents[1] / "models" / "starter")


def start(binary, data):
    process = subprocess.Popen([binary, "serve", "--listen", "127.0.0.1:0", "--data", data, "--models", MODELS],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    line = process.stdout.readline()
    if not line.startswith("listening on"):
        raise SystemExit(f"the server did not start: {line!r}")
    return process, int(line.rsplit(":", 1)[1])


def stop(process):
    process.send_signal(signal.SIGTERM)
    process.wait(60)
    process.stdout.close()


def fill(data, rows):
    """`rows` jobs that are over, one in a thousand of them failed, of three members; and their usage."""
    now = int(time.time() * 1000)
    with sqlite3.connect(pathlib.Path(data) / "lares.db") as db:
        db.execute(f"""WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})
            INSERT INTO job (id, member_id, member, class, kind, state, request_digest, created_unix_ms, started_unix_ms,
                             ended_unix_ms)
            SELECT printf('job_%08d', i), i % 3, 'member ' || (i % 3), CASE WHEN i % 5000 = 1 THEN 'voice' ELSE 'chat' END,
                   '/v1/chat/completions', CASE WHEN i % 1000 = 0 THEN 'failed' ELSE 'done' END, hex(randomblob(32)),
                   {now} - ({rows} - i) * 500, {now} - ({rows} - i) * 500, {now} - ({rows} - i) * 500 + 400 FROM n""")
        db.execute(f"""WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})
            INSERT INTO usage (job, accepted_unix_ms, member, class, model, prompt_tokens, cached_tokens, output_tokens,
                               device_ns, queue_wait_ns, first_token_ns, total_ns, outcome, reason, member_id, job_id)
            SELECT i, {now} - ({rows} - i) * 500, 'member ' || (i % 3), 'chat', 'starter-chat', 100, 50, 20, 300000000,
                   1000000, 50000000, 400000000, CASE WHEN i % 1000 = 0 THEN 'failed' ELSE 'done' END, '', i % 3,
                   printf('job_%08d', i) FROM n""")


def measure(binary, rows, paths):
    with tempfile.TemporaryDirectory() as data:
        process, _ = start(binary, data)  # Makes the schema.
        stop(process)
        fill(data, rows)
        admin = subprocess.run([binary, "member", "add", "watcher", "--admin", "--data", data], capture_output=True,
                               text=True, check=True).stdout.strip()
        began = time.monotonic()
        process, port = start(binary, data)
        print(f"{rows} jobs in history; started in {time.monotonic() - began:.1f} s")
        try:
            for path in paths:
                times = []
                for _ in range(50):
                    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
                    begun = time.monotonic()
                    headers = {"Authorization": f"Bearer {admin}"} if "all=true" in path else {}
                    connection.request("GET", path.replace("'", "%27"), headers=headers)
                    answer = connection.getresponse()
                    body = answer.read()
                    times.append((time.monotonic() - begun) * 1000)
                    connection.close()
                    if answer.status != 200:
                        raise SystemExit(f"{path}: {answer.status} {body[:300]!r}")
                    if sum(times) > 5000:
                        break  # Slow enough to be known.
                found = len(json.loads(body).get("data", [])) if body.startswith(b"{") else len(body.splitlines())
                print(f"{path:38} median {statistics.median(times):9.2f}  slowest {max(times):9.2f}  rows {found}")
        finally:
            stop(process)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--metrics-rows", type=int, default=10_000)
    args = parser.parse_args()
    measure(args.binary, args.metrics_rows, PATHS[:2])
    measure(args.binary, args.rows, PATHS)


if __name__ == "__main__":
    main()
