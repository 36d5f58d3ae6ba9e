#!/usr/bin/env python3
"""The simulator beside the device: the same arrivals, policy by policy.

usage: bench/side_by_side.py [--policies lares,vtc,sarathi,orca] [--scenarios overload,noisy] [--seconds 20] [--markdown OUT]

A household's scenario is run against `lares serve`; what was asked, and when, is written down and given to `lares simulate`
with the cost table that the server measured meanwhile. Arrivals answer to the device (who waits asks later), so the
simulator gets them as they came. Classes are not in a trace: scenarios whose members differ in nothing but number.
"""
import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from compare import ROOT, Lares  # noqa: E402



def run(policy, scenario, args, model):
    """-> ({figure: device}, {figure: simulator})"""
    server = Lares(argparse.Namespace(threads=args.threads, policy=policy, lares_flags=""), model)
    server.start()
    folder = pathlib.Path(server.data.name)
    try:
        subprocess.run([sys.executable, HERE / "household_load.py", "--url", server.url, "--model", "default", "--scenario",
                        scenario, "--seconds", str(args.seconds), "--drain", "120", "--json", folder / "load.json", "--trace",
                        folder / "trace.csv", *(w for key in server.keys for w in ("--key", key))], check=True,
                       stdout=subprocess.DEVNULL)
    finally:
        server.process.send_signal(signal.SIGTERM)
        server.process.wait(60)
    load = json.load(open(folder / "load.json"))
    rows = load["rows"]
    many = sum(r["ok"] for r in rows)
    device = {"output tokens/s": sum(r["out_tok_s"] for r in rows),
              "first token mean, s": sum(r["ttft_mean"] * r["ok"] for r in rows) / many,
              "quiet member's, s": min(rows, key=lambda r: r["ok"])["ttft_mean"],
              "gap p99, s": max(r["itl_p99"] for r in rows)}
    subprocess.run([ROOT / "build" / "lares", "simulate", "--trace", folder / "trace.csv", "--device", "this", "--data", folder,
                    "--policy", policy, "--json", folder / "sim.json"], check=True, stdout=subprocess.DEVNULL)
    told = json.load(open(folder / "sim.json"))["policies"][0]
    output = sum(int(line.split(",")[3]) for line in open(folder / "trace.csv").readlines()[1:])
    total = sum(int(line.split(",")[2]) + int(line.split(",")[3]) for line in open(folder / "trace.csv").readlines()[1:])
    quiet = min(told["members"], key=lambda m: m["requests"])
    simulated = {"output tokens/s": told["throughput_tokens_s"] * output / total,
                 "first token mean, s": told["first_token_s"]["mean"],
                 "quiet member's, s": quiet["first_token_mean_s"],
                 "gap p99, s": told["gap_s"]["p99"]}
    return device, simulated


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--policies", default="lares,vtc,sarathi,orca")
    ap.add_argument("--scenarios", default="overload,noisy")
    ap.add_argument("--seconds", type=float, default=20)
    ap.add_argument("--threads", type=int, default=os.cpu_count())
    ap.add_argument("--shape", default="qwen2-0.1b")
    ap.add_argument("--markdown")
    args = ap.parse_args()
    model = subprocess.check_output([HERE / "make_model.sh", args.shape], text=True).strip()
    lines = []
    for scenario in args.scenarios.split(","):
        for policy in args.policies.split(","):
            device, simulated = run(policy, scenario, args, model)
            if not lines:
                lines += ["| scenario | policy | " + " | ".join(device) + " |", "|---|---|" + "---|" * len(device)]
            cells = [f"{device[k]:.2f} / {simulated[k]:.2f} ({(simulated[k] / device[k] - 1) * 100:+.0f} %)" for k in device]
            lines.append(f"| `{scenario}` | `{policy}` | " + " | ".join(cells) + " |")
            print(lines[-1], flush=True)
    print("\n" + "\n".join(lines))
    if args.markdown:
        pathlib.Path(args.markdown).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
