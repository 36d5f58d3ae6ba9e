"""`lares chat`: one question, pipes, and the conversation in a pseudo-terminal."""
import json
import os
import pty
import select
import signal
import socket
import stat
import subprocess
import tempfile
import threading
import time
import unittest

from lares_server import BINARY, PATIENCE, Server

QUESTION = "How many grams are in 3 kilograms?"


class Terminal:
    """`lares chat` in a terminal of its own."""

    def __init__(self, *flags):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execv(BINARY, [BINARY, "chat", *flags])
        self.seen = ""

    def expect(self, text):
        """Waits until `text` is on the screen -> what came before it."""
        end = time.monotonic() + PATIENCE
        while text not in self.seen:
            ready, _, _ = select.select([self.fd], [], [], max(0, end - time.monotonic()))
            if not ready:
                raise RuntimeError(f"never saw {text!r} after {self.seen!r}")
            try:
                self.seen += os.read(self.fd, 65536).decode(errors="replace")
            except OSError:
                raise RuntimeError(f"ended before {text!r} after {self.seen!r}")
        before, self.seen = self.seen.split(text, 1)
        return before

    def type(self, text):
        os.write(self.fd, text.encode())

    def ask(self, text):
        """Types a line and waits for the next prompt -> what was printed."""
        self.type(text + "\n")
        self.expect(text + "\r\n")
        return self.expect("> ")

    def end(self):
        """The exit status."""
        try:
            while os.read(self.fd, 65536):
                pass
        except OSError:
            pass
        _, status = os.waitpid(self.pid, 0)
        os.close(self.fd)
        return os.waitstatus_to_exitcode(status)


class Once(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def chat(self, *flags, stdin=None):
        nothing = subprocess.DEVNULL if stdin is None else None
        return subprocess.run([BINARY, "chat", "--server", self.server.url, *flags], input=stdin, text=True,
                              stdin=nothing, capture_output=True, timeout=PATIENCE)

    def test_one_question(self):
        done = self.chat("-m", QUESTION)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("3000", done.stdout)

    def test_pipes(self):
        self.assertIn("3000", self.chat(stdin=QUESTION + "\n").stdout)
        self.assertIn("3000", self.chat("-m", "How many grams", "-", stdin="are in 3 kilograms?").stdout)
        self.assertEqual(self.chat(stdin="").returncode, 2)

    def test_what_goes_wrong_is_said(self):
        done = self.chat("-m", "hello", "--model", "starter-chad")
        self.assertEqual(done.returncode, 1)
        self.assertIn("Did you mean `starter-chat`?", done.stderr)
        done = self.chat("-m", "hello", "--server", "127.0.0.1:1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("lares serve", done.stderr)
        self.assertEqual(self.chat("--modle", "x").returncode, 2)
        done = self.chat("-m", "hello", "--key", "lares-" + "C" * 43)
        self.assertEqual(done.returncode, 1)
        self.assertIn("not the key of a member", done.stderr)

    def test_a_conversation(self):
        with tempfile.TemporaryDirectory() as folder:
            saved = os.path.join(folder, "saved")
            terminal = Terminal("--server", self.server.url)
            terminal.expect("> ")
            self.assertIn("3000", terminal.ask(QUESTION))
            self.assertIn("starter-chat", terminal.ask("/model"))
            self.assertIn("starter-chat", terminal.ask("/model starter-chta"))
            self.assertIn("from now on", terminal.ask("/model starter-chat"))
            self.assertIn("noted", terminal.ask("/system You are a helpful assistant."))
            self.assertIn("/save", terminal.ask("/help"))
            self.assertIn("Did you mean `clear`?", terminal.ask("/cler"))
            self.assertIn("saved 2 messages", terminal.ask(f"/save {saved}"))
            terminal.ask("/clear")
            terminal.type("How many grams are \\\n")
            terminal.expect(". ")
            self.assertIn("3000", terminal.ask("in 3 kilograms?"))
            terminal.type("/quit\n")
            self.assertEqual(terminal.end(), 0)
            with open(saved) as file:
                lines = [json.loads(line) for line in file]
            self.assertEqual([line["role"] for line in lines], ["user", "assistant"])
            self.assertEqual(lines[0]["content"], QUESTION)
            self.assertEqual(stat.S_IMODE(os.stat(saved).st_mode), 0o600)
            self.assertEqual(os.listdir(folder), ["saved"])

    def test_history_goes_on(self):
        with tempfile.TemporaryDirectory() as folder:
            history = os.path.join(folder, "history")
            for _ in range(2):
                terminal = Terminal("--server", self.server.url, "--history", history)
                terminal.expect("> ")
                terminal.ask(QUESTION)
                terminal.type("\x04")  # Ctrl-D.
                self.assertEqual(terminal.end(), 0)
            with open(history, "r+") as file:
                self.assertEqual(len(file.readlines()), 4)
                file.write("not json\n")
            done = self.chat("-m", "x", "--history", history)
            self.assertEqual(done.returncode, 1)
            self.assertIn("line 5", done.stderr)


class SlowServer:
    """Answers the first question with one word and then nothing more, and every later one whole."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.left = threading.Event()
        self.bodies = []
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def close(self):
        self.listener.close()

    @staticmethod
    def event(text, kind="content"):
        data = "data: " + json.dumps({"choices": [{"delta": {kind: text}}]}) + "\n\n"
        return f"{len(data):x}\r\n{data}\r\n".encode()

    def serve(self):
        for number in range(2):
            try:
                connection, _ = self.listener.accept()
            except OSError:  # The test has ended.
                return
            with connection, connection.makefile("rb") as reader:
                length = 0
                while (line := reader.readline()).strip():
                    if line.lower().startswith(b"content-length:"):
                        length = int(line.split(b":")[1])
                self.bodies.append(json.loads(reader.read(length)))
                connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                connection.sendall(self.event("slowly"))
                if number == 0:
                    if reader.read() == b"":
                        self.left.set()
                else:
                    connection.sendall(self.event("let me think", "reasoning_content"))
                    connection.sendall(self.event(" but surely\x1b[2J"))
                    connection.sendall(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")


class Interrupt(unittest.TestCase):
    def test_ctrl_c_cancels_the_answer_and_not_the_program(self):
        server = SlowServer()
        self.addCleanup(server.close)
        terminal = Terminal("--server", f"127.0.0.1:{server.port}")
        terminal.expect("> ")
        terminal.type("first\n")
        terminal.expect("slowly")
        terminal.type("\x03")
        terminal.expect("[cancelled]")
        terminal.expect("> ")
        self.assertTrue(server.left.wait(PATIENCE), "the connection was closed")
        terminal.type("half a line")
        terminal.type("\x03")
        terminal.expect("> ")
        terminal.type("second\n")
        terminal.expect("\x1b[2mlet me think\x1b[22m")  # A thought is dim, and not part of the answer.
        shown = terminal.expect("but surely")
        self.assertNotIn("\x1b", shown + terminal.expect("> "))
        self.assertIn("saved 4 messages", terminal.ask("/save /dev/null"))
        terminal.type("/quit\n")
        self.assertEqual(terminal.end(), 0)
        self.assertEqual([m["content"] for m in server.bodies[1]["messages"]], ["first", "slowly", "second"])

    def test_a_single_question_ends_with_the_shells_status(self):
        server = SlowServer()
        self.addCleanup(server.close)
        process = subprocess.Popen([BINARY, "chat", "--server", f"127.0.0.1:{server.port}", "-m", "hello"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(process.stdout.read(6), b"slowly")
        process.send_signal(signal.SIGINT)
        self.assertIn(b"[cancelled]", process.communicate(timeout=PATIENCE)[1])
        self.assertEqual(process.returncode, 130)


if __name__ == "__main__":
    unittest.main(verbosity=2)
