"""`lares top` on the real binary: once, as JSON, and redrawn in a terminal."""
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
import unittest

from lares_server import BINARY, PATIENCE, Server

ENVIRONMENT = {key: value for key, value in os.environ.items() if key not in ("LARES_KEY", "NO_COLOR")}


def top(*words, status=0):
    done = subprocess.run([BINARY, "top", *words], capture_output=True, text=True, timeout=PATIENCE, env=ENVIRONMENT)
    assert done.returncode == status, (words, done.returncode, done.stdout, done.stderr)
    return done.stdout if status == 0 else done.stderr


class Terminal:
    """`lares top` in a terminal of its own."""

    def __init__(self, *words, rows=24, columns=100):
        self.master, slave = pty.openpty()
        self.resize(rows, columns)
        self.before = termios.tcgetattr(slave)
        self.process = subprocess.Popen([BINARY, "top", *words], stdin=slave, stdout=slave, stderr=slave,
                                        env=ENVIRONMENT, start_new_session=True,
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        self.slave = slave
        self.seen = ""

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def wait_for(self, pattern):
        end = time.monotonic() + PATIENCE
        while not re.search(pattern, self.seen):
            left = end - time.monotonic()
            assert left > 0, f"never {pattern!r}:\n{self.seen!r}"
            if select.select([self.master], [], [], left)[0]:
                self.seen += os.read(self.master, 65536).decode(errors="replace")
        return self.seen

    def close(self):
        """-> exit status"""
        status = self.process.wait(PATIENCE)
        while select.select([self.master], [], [], 0)[0]:
            self.seen += os.read(self.master, 65536).decode(errors="replace")
        self.after = termios.tcgetattr(self.slave)
        os.close(self.slave)
        os.close(self.master)
        return status


class Top(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        assert cls.server.chat("Hello!")[0] == 200

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def test_once_as_json(self):
        answer = json.loads(top("--once", "--json", "--server", self.server.url))
        self.assertEqual(answer["object"], "top")
        self.assertEqual(answer["member"], "home")
        self.assertEqual((answer["running"], answer["waiting"]), (0, 0))
        self.assertEqual([share["member"] for share in answer["shares"]["data"]], ["home"])
        self.assertGreater(answer["shares"]["data"][0]["device_s"], 0)
        self.assertIn("starter-chat", [model["id"] for model in answer["models"]["data"]])
        self.assertGreater(answer["memory"]["devices"][0]["weights"], 0)

    def test_once_as_text_finds_the_server_of_the_data_folder(self):
        text = top("--once", "--data", self.server.data)
        self.assertIn(self.server.url, text)
        self.assertRegex(text, r"members +home 100 %")
        self.assertRegex(text, r"starter-chat ready")
        self.assertNotIn("\x1b", text)

    def test_a_terminal_is_redrawn_resized_and_given_back(self):
        for how in ("ctrl-c", "q", "term"):
            terminal = Terminal("--server", self.server.url)
            terminal.wait_for(r"\x1b\[\?1049h[\s\S]*starter-chat ready[\s\S]*\x1b\[J")
            terminal.wait_for(r"(\x1b\[H[\s\S]*){2}")
            terminal.seen = ""
            terminal.resize(10, 30)
            os.kill(terminal.process.pid, signal.SIGWINCH)
            terminal.wait_for(r"\x1b\[H[\s\S]*\x1b\[J")
            frame = terminal.seen.split("\x1b[H")[1].split("\x1b[J")[0]
            lines = re.sub(r"\x1b\[[0-9;]*[mK]", "", re.sub(r"[\r\n]+", "\n", frame)).split("\n")
            self.assertLessEqual(max(map(len, lines)), 30, lines)
            self.assertLessEqual(len(lines), 10)
            if how == "term":
                terminal.process.terminate()
            else:
                os.write(terminal.master, b"\x03" if how == "ctrl-c" else b"q")
            self.assertEqual(terminal.close(), 0, how)
            self.assertTrue(terminal.seen.endswith("\x1b[?25h\x1b[?1049l"), terminal.seen[-40:])
            self.assertEqual(terminal.after, terminal.before, how)

    def test_without_a_server(self):
        self.assertIn("no server answers", top("--once", "--server", "http://127.0.0.1:1", status=1))
        self.assertIn("is not a server", top("--once", "--server", "nowhere", status=2))
        self.assertIn("--once", top("--json", status=2))
        self.assertIn("Did you mean `--server`?", top("--sever", "x", status=2))
        terminal = Terminal("--server", "http://127.0.0.1:1")
        terminal.wait_for("no server answers")
        os.write(terminal.master, b"q")
        self.assertEqual(terminal.close(), 0)


if __name__ == "__main__":
    unittest.main()
