#!/usr/bin/env python3
"""What open dashboards cost: dashboards.py BINARY [--open 10] [--seconds 10] [--pairs 3]

Asks what the page `now` asks, as often as it does, and compares with nobody looking. Prints processor time as a part
of all cores' time: of the server's own process while it answers a chat without end (the device's worker computes beside
it, in a process of its own), then of all its processes while nothing else is asked.
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


def family(pid):
    """The process and its workers."""
    found = [pid]
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(stat.read_text().rsplit(")", 1)[1].split()[1]) == pid:
                found.append(int(stat.parent.name))
        except OSError:
            pass  # Gone meanwhile.
    return found


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


def chat(port, stop):
    """One stream after the other."""
    while not stop.is_set():
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("POST", "/v1/chat/completions", json.dumps({
            "messages": [{"role": "user", "content": "Tell me a story."}], "max_tokens": 256, "ignore_eos": True,
            "stream": True}), {"Content-Type": "application/json"})
        for _ in connection.getresponse():
            if stop.is_set():
                break
        connection.close()


def window(port, pids, count, seconds, busy):
    """-> the part of all cores' time that these processes took"""
    stop = threading.Event()
    threads = [threading.Thread(target=dashboard, args=(port, stop)) for _ in range(count)]
    if busy:
        threads.append(threading.Thread(target=chat, args=(port, stop)))
    for thread in threads:
        thread.start()
    time.sleep(1)  # The windows begin in the middle of things.
    before, began = sum(map(cpu_seconds, pids)), time.monotonic()
    time.sleep(seconds)
    cost = (sum(map(cpu_seconds, pids)) - before) / (time.monotonic() - began) / os.cpu_count()
    stop.set()
    for thread in threads:
        thread.join()
    return cost


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
        window(port, [process.pid], 0, 2, True)  # Loads the model.
        for busy, pids, what in ((True, [process.pid], "beside a chat, the server's process"),
                                 (False, family(process.pid), "nothing else, all processes")):
            costs = []
            for _ in range(args.pairs):
                alone = window(port, pids, 0, args.seconds, busy)
                costs.append(window(port, pids, args.open, args.seconds, busy) - alone)
                print(f"{what}: {alone:.2%} with nobody, {args.open} dashboards cost {costs[-1]:.2%}")
            print(f"{what}: median {statistics.median(costs):.2%} of all cores")
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        process.stdout.close()
        shutil.rmtree(data, ignore_errors=True)


if __name__ == "__main__":
    main()
