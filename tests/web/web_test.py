"""Drives the dashboard with a real browser (web_test.mjs), against the real binary.

  web_test.py [FOLDER]    FOLDER: where pictures of the pages are put, for docs/
"""
import contextlib
import os
import pathlib
import random
import shutil
import sqlite3
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))
from lares_server import BINARY, ROOT, STARTER, Server  # noqa: E402

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
SKETCH = '"a red apple" | encode | sample 2 seed 1 | out png'


def a_day(data):
    """Rows of a day that was not, so that a picture of a day has one to show."""
    chance = random.Random(1)
    now = int(time.time() * 1000)
    rows = []
    for hour in range(1, 22):
        for member, (name, cls, at) in enumerate((("ana", "voice", 8), ("ben", "agent", 15), ("keeper", "image", 20)), 1):
            awake = max(0.0, 1.3 - abs((time.localtime(now / 1000 - hour * 3600).tm_hour - at + 12) % 24 - 12) / 5)
            for _ in range(int(awake * chance.randint(4, 12))):
                seconds = chance.uniform(2, 30) * (2 if cls == "image" else 1)
                wait = int(chance.expovariate(4 if cls == "voice" else 1) * 4e8)
                rows.append((1, now - hour * 3600_000 + chance.randint(0, 900_000), name, cls, "starter-chat", 300, 90,
                             int(seconds * 20), int(seconds * 1e9), wait, wait + 200_000_000, wait + int(seconds * 1.2e9),
                             "done", "", member))
    with contextlib.closing(sqlite3.connect(pathlib.Path(data) / "lares.db")) as ledger, ledger:
        ledger.executemany(
            "INSERT INTO usage (job, accepted_unix_ms, member, class, model, prompt_tokens, cached_tokens, output_tokens, "
            "device_ns, queue_wait_ns, first_token_ns, total_ns, outcome, reason, member_id) "
            "VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)", rows)


def main():
    node = shutil.which("node")
    browser = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if node is None or browser is None:
        sys.exit("node or chromium is missing: ./test installs them (Debian's nodejs, npm and chromium)")
    fetched = subprocess.run([ROOT / "tools" / "fetch_clients.sh"], stdout=subprocess.PIPE, text=True)
    if fetched.returncode != 0:
        sys.exit("the clients' packages cannot be fetched; is there a network?")
    keys = {}
    pictures = sys.argv[1] if len(sys.argv) > 1 else ""

    def members(data):
        for name, *flags in (("ana",), ("ben", "--class", "chat", "--class", "agent"), ("keeper", "--admin")):
            done = subprocess.run([BINARY, "member", "add", name, *flags, "--data", data], capture_output=True,
                                  text=True, check=True)
            keys[name] = done.stdout.strip()
        if pictures:
            a_day(data)

    # An address of all interfaces: every request needs a key there, also one from this machine.
    with Server("--listen", "0.0.0.0:0", prepare=members) as server, Server(models=STARTER) as home:
        for one, key in ((server, keys["ana"]), (home, "")):
            headers = {"Authorization": f"Bearer {key}"} if key else {}
            one.wait_for(lambda: one.post("/v1/sketches/check", {"sketch": SKETCH}, headers)[0] == 200,
                         "found the image model")
        environment = {**os.environ, "LARES_URL": f"http://127.0.0.1:{server.port}", "LARES_HOME_URL": home.url,
                       "LARES_CLIENTS": fetched.stdout.strip(), "LARES_CHROMIUM": browser,
                       "LARES_PICTURES": pictures and str(pathlib.Path(pictures).resolve())}
        environment.update({f"LARES_KEY_{name.upper()}": key for name, key in keys.items()})
        done = subprocess.run([node, "--test", HERE / "web_test.mjs"], timeout=550, env=environment)
        if done.returncode != 0:
            print(server.logged())
            print(home.logged())
        sys.exit(done.returncode)


if __name__ == "__main__":
    main()
