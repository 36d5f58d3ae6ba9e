#!/usr/bin/env python3
"""What open dashboards cost: dashboards.py BINARY [--open 10] [--seconds 10] [--pairs 3]

Asks what the page `now` asks, as often as it does, of a server that answers a chat without end, and compares with
nobody looking. Prints the processor time of the server's own process, of all cores' time; the device's workers are
processes of their own, so what is left for them is the rest.
"""
import argparse
import http.client
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import tempfile
import threading
import time

MODELS = str(pathlib.Path(__file__).resolve().parents[1] / "models" / "starter")


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def get(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", path)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    if answer.status != 200:
        raise RuntimeError(f"{path}: {answer.status}")
    return body


def dashboard(port, stop):
    """Like src/web/now.js: timeline and queue each second, memory every four."""
    since, turn = 0, 0
    while not stop.wait(1.0):
        since = json.loads(get(port, f"/v1/timeline?since={since}")).get("next", since)
        get(port, "/v1/queue")
        if turn % 4 == 0:
            get(port, "/v1/memory")
        turn += 1


def chat(port, stop, tokens):
    """One stream after the other; counts their pieces."""
    while not stop.is_set():
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("POST", "/v1/chat/completions", json.dumps({
            "messages": [{"role": "user", "content": "Tell me a story."}], "max_tokens": 256, "ignore_eos": True,
            "stream": True}), {"Content-Type": "application/json"})
        for line in connection.getresponse():
            if line.startswith(b"data: {"):
                tokens[0] += 1
            if stop.is_set():
                break
        connection.close()


def window(port, pid, count, seconds):
    """-> share of all cores that the server's process took, pieces a second"""
    stop, tokens = threading.Event(), [0]
    threads = [threading.Thread(target=dashboard, args=(port, stop)) for _ in range(count)]
    threads.append(threading.Thread(target=chat, args=(port, stop, tokens)))
    for thread in threads:
        thread.start()
    time.sleep(1)  # The windows begin in the middle of things.
    before, first, began = cpu_seconds(pid), tokens[0], time.monotonic()
    time.sleep(seconds)
    long = time.monotonic() - began
    result = (cpu_seconds(pid) - before) / long / os.cpu_count(), (tokens[0] - first) / long
    stop.set()
    for thread in threads:
        thread.join()
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--open", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--pairs", type=int, default=3)
    args = parser.parse_args()
    data = tempfile.mkdtemp()
    process = subprocess.Popen([args.binary, "serve", "--listen", "127.0.0.1:0", "--data", data, "--models", MODELS],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        port = int(process.stdout.readline().rsplit(":", 1)[1])
        window(port, process.pid, 0, 2)  # Loads the model.
        costs = []
        for _ in range(args.pairs):
            alone = window(port, process.pid, 0, args.seconds)
            looked = window(port, process.pid, args.open, args.seconds)
            costs.append(looked[0] - alone[0])
            print(f"nobody looks: {alone[0]:.2%} of the cores, {alone[1]:.1f} pieces/s; {args.open} dashboards: "
                  f"{looked[0]:.2%}, {looked[1]:.1f} pieces/s; they cost {costs[-1]:.2%}")
        print(f"median {statistics.median(costs):.2%}")
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        process.stdout.close()
        shutil.rmtree(data, ignore_errors=True)


if __name__ == "__main__":
    main()
