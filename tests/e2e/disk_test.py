"""A disk that is really full, and one that can only be read: a small tmpfs, in a mount namespace of its own.

Needs root to mount one; without, it says so and is skipped.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from jobs_test import LONG, rows, submit, wait_over
from lares_server import Server, chat_body

INSIDE = "LARES_DISK_TEST_INSIDE"
SKIPPED = 77  # As tests/CMakeLists.txt says.
SIZE = 32 << 20


def mount(*words):
    subprocess.run(["mount", *words], check=True)


class SmallDisk(unittest.TestCase):
    def setUp(self):
        self.disk = pathlib.Path(tempfile.mkdtemp(prefix="lares-disk-", dir="/tmp"))
        self.addCleanup(shutil.rmtree, self.disk, ignore_errors=True)
        mount("-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(self.disk))
        self.addCleanup(subprocess.run, ["umount", "-l", str(self.disk)], check=False)
        tempfile.tempdir = str(self.disk)  # Where Server makes its data folder.
        self.addCleanup(setattr, tempfile, "tempdir", None)

    def fill(self):
        """All of it but what is written to already."""
        filler = self.disk / "filler"
        with open(filler, "ab", buffering=0) as file:
            for piece in (1 << 20, 4096, 1):
                try:
                    while file.write(b"\0" * piece):
                        pass
                except OSError:
                    continue
        return filler

    def refused(self, server, path="/v1/jobs"):
        """Until a new job is: what the database holds already may be written over once or twice."""
        answers = []

        def is_refused():
            self.fill()
            status, answer = server.post(path, {"request": {"path": "/v1/completions",
                                                            "body": {"prompt": "x" * 30000, "max_tokens": 1}}})
            answers.append((status, answer))
            self.assertIn(status, (202, 507), answer)
            return status == 507

        server.wait_for(is_refused, "refused")
        accepted = [answer["id"] for status, answer in answers if status == 202]
        return answers[-1][1]["error"], accepted

    def goes_on(self, server, accepted):
        server.wait_for(lambda: rows(server, "SELECT 1 FROM job WHERE state IN ('queued', 'running')") == [], "over")
        for id in accepted:
            self.assertIn(wait_over(server, id)["state"], ("done", "failed"))
        self.assertEqual(wait_over(server, submit(server, chat_body("hello", max_tokens=4)))["state"], "done")
        server.lares("usage", "--check")
        self.assertEqual(rows(server, "PRAGMA integrity_check"), [("ok",)])

    def test_full(self):
        with Server() as server:
            running = submit(server, {**LONG, "max_tokens": 300})
            error, accepted = self.refused(server)
            self.assertEqual(error["code"], "storage_failed")
            # Who asks for an answer and no job gets one.
            self.assertEqual(server.chat("hello", max_tokens=4)[0], 200)
            leftovers = [p for p in pathlib.Path(server.data).rglob("*") if p.name.endswith((".tmp", ".part"))]
            self.assertEqual(leftovers, [])
            (self.disk / "filler").unlink()
            self.assertEqual(wait_over(server, running)["state"], "done")
            self.goes_on(server, accepted)

    def test_killed_while_full(self):
        with Server() as server:
            running = submit(server, {**LONG, "max_tokens": 300})
            _, accepted = self.refused(server)
            server.kill()
            (self.disk / "filler").unlink()
            server.start()
            self.assertEqual(wait_over(server, running)["state"], "done")
            self.goes_on(server, accepted)

    def test_read_only(self):
        with Server() as server:
            running = submit(server, {**LONG, "max_tokens": 300})
            # A disk with files open for writing cannot be made read-only, so what is opened from now on finds
            # one that is: blobs.
            mount("--bind", server.data, server.data)
            self.addCleanup(subprocess.run, ["umount", "-l", server.data], check=False)
            mount("-o", "remount,bind,ro", server.data)
            status, answer = server.post("/v1/jobs", {"request": {"path": "/v1/completions", "body": {
                "prompt": "word " * 30000, "max_tokens": 1}}})
            self.assertEqual((status, answer["error"]["code"]), (507, "storage_failed"))
            self.assertEqual(server.chat("hello", max_tokens=4)[0], 200)
            mount("-o", "remount,bind,rw", server.data)
            self.assertEqual(wait_over(server, running)["state"], "done")
            self.goes_on(server, [])

    def test_read_only_from_the_start(self):
        data = self.disk / "data"
        data.mkdir()
        mount("--bind", str(data), str(data))
        self.addCleanup(subprocess.run, ["umount", "-l", str(data)], check=False)
        mount("-o", "remount,bind,ro", str(data))
        with self.assertRaises(RuntimeError) as refused:
            Server(flags_of=lambda _: ("--data", str(data)))
        self.assertIn(str(data), str(refused.exception))
        self.assertIn("read-only", str(refused.exception).lower())


if __name__ == "__main__":
    if os.environ.get(INSIDE):
        unittest.main()
    probe = subprocess.run(["unshare", "--mount", "--propagation", "private", "mount", "-t", "tmpfs", "tmpfs", "/mnt"],
                           capture_output=True, text=True, check=False)
    if probe.returncode != 0:
        print("skipped: no tmpfs may be mounted here:", probe.stderr.strip())
        sys.exit(SKIPPED)
    sys.exit(subprocess.run(["unshare", "--mount", "--propagation", "private", sys.executable, *sys.argv],
                            env={**os.environ, INSIDE: "1"}, check=False).returncode)
