"""Drives the dashboard with a real browser (web_test.mjs), against the real binary.

  web_test.py [FOLDER]    FOLDER: where pictures of the pages are put, for docs/
"""
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))
from lares_server import BINARY, ROOT, STARTER, Server  # noqa: E402

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
SKETCH = '"a red apple" | encode | sample 2 seed 1 | out png'


def main():
    node = shutil.which("node")
    browser = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if node is None or browser is None:
        sys.exit("node or chromium is missing: ./test installs them (Debian's nodejs, npm and chromium)")
    fetched = subprocess.run([ROOT / "tools" / "fetch_clients.sh"], stdout=subprocess.PIPE, text=True)
    if fetched.returncode != 0:
        sys.exit("the clients' packages cannot be fetched; is there a network?")
    keys = {}

    def members(data):
        for name, *flags in (("ana",), ("ben",), ("keeper", "--admin")):
            done = subprocess.run([BINARY, "member", "add", name, *flags, "--data", data], capture_output=True,
                                  text=True, check=True)
            keys[name] = done.stdout.strip()

    # An address of all interfaces: every request needs a key there, also one from this machine.
    with Server("--listen", "0.0.0.0:0", prepare=members) as server, Server(models=STARTER) as home:
        for one, key in ((server, keys["ana"]), (home, "")):
            headers = {"Authorization": f"Bearer {key}"} if key else {}
            one.wait_for(lambda: one.post("/v1/sketches/check", {"sketch": SKETCH}, headers)[0] == 200,
                         "found the image model")
        environment = {**os.environ, "LARES_URL": f"http://127.0.0.1:{server.port}", "LARES_HOME_URL": home.url,
                       "LARES_CLIENTS": fetched.stdout.strip(), "LARES_CHROMIUM": browser,
                       "LARES_PICTURES": sys.argv[1] if len(sys.argv) > 1 else ""}
        environment.update({f"LARES_KEY_{name.upper()}": key for name, key in keys.items()})
        done = subprocess.run([node, "--test", HERE / "web_test.mjs"], timeout=550, env=environment)
        if done.returncode != 0:
            print(server.logged())
            print(home.logged())
        sys.exit(done.returncode)


if __name__ == "__main__":
    main()
