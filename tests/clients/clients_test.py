"""Runs one of the programs beside this file, which drive real clients, against the built server.

  clients_test.py openai|images|ollama
"""
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))
from lares_server import ROOT, Server  # noqa: E402


def main():
    node = shutil.which("node")
    if node is None:
        sys.exit("node is missing: ./test installs it (Debian's nodejs and npm)")
    fetched = subprocess.run([ROOT / "tools" / "fetch_clients.sh"], stdout=subprocess.PIPE, text=True)
    if fetched.returncode != 0:
        sys.exit("the clients' packages cannot be fetched; is there a network?")
    with Server() as server:
        program = HERE / f"{sys.argv[1]}_test.mjs"
        done = subprocess.run([node, "--test", program], timeout=500, env={
            "PATH": str(pathlib.Path(node).parent), "LARES_URL": server.url,
            "LARES_CLIENTS": fetched.stdout.strip()})
        if done.returncode != 0:
            print(server.logged())
        sys.exit(done.returncode)


if __name__ == "__main__":
    main()
