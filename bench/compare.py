#!/usr/bin/env python3
"""Lares beside llama-server of the same release, on the household scenarios, in interleaved pairs.

usage: bench/compare.py [--shape qwen2-0.1b] [--threads 2] [--pairs 5] [--seconds 20]
                        [--scenarios alone,evening,...] [--policy lares] [--json OUT] [--markdown OUT]

Both servers are started afresh for every run, with the same model, threads and KV pool, on loopback.
A ratio is Lares / llama-server of the same pair; the table shows the median of the pairs and the
lower 95 % bound of their mean (Student's t on the ratios). Run it on a quiet machine: it prints the
load average before each pair and says when something else was running.
"""
import argparse
import json
import math
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
SCENARIOS = "alone,evening,noisy,overload,long-doc,shared-prefix"
T95 = {1: 6.314, 2: 2.920, 3: 2.353, 4: 2.132, 5: 2.015, 6: 1.943, 7: 1.895, 8: 1.860, 9: 1.833}  # One-sided.
POOL = 32768
USERS = ("ana", "ben", "cleo", "dan", "eve")  # Of household_load.py.
KEY = r"lares-[\w-]+"


def wait_ready(url, process):
    end = time.monotonic() + 120
    while time.monotonic() < end:
        if process.poll() is not None:
            raise SystemExit(f"the server ended with {process.returncode}")
        try:
            with urllib.request.urlopen(url, timeout=2) as answer:
                if answer.status == 200:
                    return
        except OSError:
            pass
        time.sleep(0.1)
    raise SystemExit("the server never became ready")


class Lares:
    name = "lares"
    load_flags = ()

    def __init__(self, args, model):
        self.data = tempfile.TemporaryDirectory(prefix="lares-bench-")
        config = pathlib.Path(self.data.name, "bench.toml")
        config.write_text(f'[[model]]\nname = "bench"\npath = "{model}"\n')
        # Everybody has a key, as in a household: without one all would be the same member.
        self.keys = []
        for user in USERS:
            printed = subprocess.check_output(
                [str(ROOT / "build" / "lares"), "member", "add", user, "--data", self.data.name,
                 *(word for cls in ("chat", "voice", "agent", "embedding", "maintenance") for word in ("--class", cls))], text=True,
                stderr=subprocess.DEVNULL)
            self.keys.append(f"{user}={re.search(KEY, printed).group()}")
        self.command = [str(ROOT / "build" / "lares"), "serve", "--config", str(config), "--listen", "127.0.0.1:0",
                        "--data", self.data.name, "--models", self.data.name, "--threads", str(args.threads),
                        "--pool-tokens", str(POOL), "--policy", args.policy, *args.lares_flags.split()]

    def start(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.url = self.process.stdout.readline().split()[-1]
        wait_ready(self.url + "/readyz", self.process)


class DurableLares(Lares):
    """Every request is in the journal before it is answered."""
    name = "durable"
    load_flags = ("--durable",)


class LlamaServer:
    name = "llama-server"
    load_flags = ()
    keys = []

    def __init__(self, args, model):
        self.url = "http://127.0.0.1:18391"
        self.command = [str(pathlib.Path(args.llama_bin) / "llama-server"), "-m", model, "-np", "16", "-kvu", "-c",
                        str(POOL), "-t", str(args.threads), "--host", "127.0.0.1", "--port", "18391"]

    def start(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_ready(self.url + "/health", self.process)


def run(server, scenario, args, seed):
    """One fresh server, one scenario -> what household_load.py measured."""
    server.start()
    try:
        with tempfile.NamedTemporaryFile(suffix=".json") as out:
            subprocess.run([sys.executable, str(HERE / "household_load.py"), "--url", server.url, "--model", "default",
                            "--scenario", scenario, "--seconds", str(args.seconds), "--seed", str(seed),
                            "--drain", "120", "--json", out.name, *server.load_flags,
                            *(word for key in server.keys for word in ("--key", key))], check=True, stdout=subprocess.DEVNULL)
            result = json.load(open(out.name))
    finally:
        server.process.send_signal(signal.SIGTERM)
        try:
            server.process.wait(20)
        except subprocess.TimeoutExpired:
            server.process.kill()
            server.process.wait()
    rows = result["rows"]
    first = min(rows, key=lambda r: {"voice": 0, "chat": 1}.get(r["class"], 2))
    return {"output_tok_s": sum(r["out_tok_s"] for r in rows), "errors": sum(r["errors"] for r in rows),
            "first_p50": first["ttft_p50"], "first_p95": first["ttft_p95"],
            "gap_max": max(r["itl_max"] for r in rows if not math.isnan(r["itl_max"])), "jain": result["jain"]}


def summary(ratios):
    """-> (median, lower 95 % bound of the mean)"""
    middle = statistics.median(ratios)
    if len(ratios) < 2:
        return middle, float("nan")
    t = T95.get(len(ratios) - 1, 1.8)
    return middle, statistics.mean(ratios) - t * statistics.stdev(ratios) / math.sqrt(len(ratios))


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--shape", default="qwen2-0.1b")
    ap.add_argument("--threads", type=int, default=os.cpu_count())
    ap.add_argument("--pairs", type=int, default=5)
    ap.add_argument("--seconds", type=float, default=20)
    ap.add_argument("--scenarios", default=SCENARIOS)
    ap.add_argument("--policy", default="lares")
    ap.add_argument("--lares-flags", default="", help="further flags of `lares serve`, as one text")
    ap.add_argument("--busy", type=int, default=0, help="processes that compute beside, for as long as it runs")
    ap.add_argument("--beside-durable", action="store_true", help="not llama-server, but Lares with every request a job")
    ap.add_argument("--llama-bin")
    ap.add_argument("--json")
    ap.add_argument("--markdown")
    args = ap.parse_args()
    args.other = DurableLares if args.beside_durable else LlamaServer
    args.llama_bin = args.llama_bin or subprocess.check_output([HERE / "build_llama_server.sh"], text=True).strip()
    model = subprocess.check_output([HERE / "make_model.sh", args.shape], text=True).strip()

    neighbours = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(args.busy)]
    try:
        compare(args, model)
    finally:
        for neighbour in neighbours:
            neighbour.kill()
            neighbour.wait()


def compare(args, model):
    everything, lines = {}, []
    head = (f"| scenario | output tokens/s, Lares / {args.other.name} | ratio (lower bound) | first token p95, s | "
            "longest gap, s | errors |\n|---|---|---|---|---|---|")
    for scenario in args.scenarios.split(","):
        pairs = []
        for i in range(args.pairs):
            load = os.getloadavg()[0]
            order = [Lares(args, model), args.other(args, model)]
            if i % 2:
                order.reverse()
            pair = {server.name: run(server, scenario, args, seed=i + 1) for server in order}
            pairs.append(pair)
            ours, theirs = pair["lares"], pair[args.other.name]
            print(f"{scenario} pair {i + 1}: output {ours['output_tok_s']:.1f} / {theirs['output_tok_s']:.1f} tok/s, "
                  f"first p95 {ours['first_p95']:.2f} / {theirs['first_p95']:.2f} s, gap {ours['gap_max']:.2f} / "
                  f"{theirs['gap_max']:.2f} s, errors {ours['errors']} / {theirs['errors']}, load before {load:.2f}",
                  flush=True)
        everything[scenario] = pairs
        middle, low = summary([p["lares"]["output_tok_s"] / p[args.other.name]["output_tok_s"] for p in pairs])
        med = lambda who, what: statistics.median(p[who][what] for p in pairs)
        both = lambda what, form: f"{med('lares', what):{form}} / {med(args.other.name, what):{form}}"
        errors = f"{sum(p['lares']['errors'] for p in pairs)} / {sum(p[args.other.name]['errors'] for p in pairs)}"
        lines.append(f"| `{scenario}` | {both('output_tok_s', '.1f')} | {middle:.2f} ({low:.2f}) | "
                     f"{both('first_p95', '.2f')} | {both('gap_max', '.2f')} | {errors} |")
    table = head + "\n" + "\n".join(lines)
    print("\n" + table)
    if args.json:
        json.dump(everything, open(args.json, "w"), indent=1)
    if args.markdown:
        pathlib.Path(args.markdown).write_text(table + "\n")


if __name__ == "__main__":
    main()
