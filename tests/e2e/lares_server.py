"""Starts the real binary for a test and talks to it. Python's standard library only."""
import asyncio
import contextlib
import http.client
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.environ.get("LARES_BINARY", str(ROOT / "build" / "lares"))
STARTER = str(ROOT / "models" / "starter")
PATIENCE = 60.0  # Seconds until a test gives up waiting for what must happen.


class Server:
    """One `lares serve` on a port of its own, with its own data folder."""

    def __init__(self, *flags, models=STARTER, wait_ready=True, prepare=None, flags_of=None, binary=BINARY,
                 env=None):
        """`prepare(data)` is called with the data folder before the server starts; `flags_of(data)` gives more flags."""
        self.data = tempfile.mkdtemp(prefix="lares-test-")
        self.env = {**os.environ, **(env or {})}
        if prepare:
            prepare(self.data)
        if flags_of:
            flags += tuple(flags_of(self.data))
        self.log = open(os.path.join(self.data, "server.log"), "w+")
        self.command = [binary, "serve", "--listen", "127.0.0.1:0", "--data", self.data, "--models", models, *flags]
        self.start(wait_ready)

    def start(self, wait_ready=True):
        """Also after an end: on the same data folder, and another port."""
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=self.log, text=True,
                                        env=self.env)
        line = self.process.stdout.readline()
        if not line.startswith("listening on http://"):
            self.process.wait(PATIENCE)
            raise RuntimeError(f"the server did not start: {line!r}\n{self.logged()}")
        self.url = line.split()[-1]
        self.host, port = urllib.parse.urlsplit(self.url).netloc.rsplit(":", 1)
        self.port = int(port)
        if wait_ready:
            self.wait_ready()

    def kill(self):
        """kill -9, as a power cut would."""
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process.stdout.close()
        self.log.close()
        shutil.rmtree(self.data, ignore_errors=True)

    def logged(self):
        self.log.flush()
        return pathlib.Path(self.log.name).read_text(errors="replace")

    def wait_ready(self):
        self.wait_for(lambda: self.get("/readyz")[0] == 200, "ready")

    def wait_for(self, condition, what):
        """Polls the server's own word until `condition` holds; the only waiting tests do."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise RuntimeError(f"the server ended with {self.process.returncode}\n{self.logged()}")
            if condition():
                return
            time.sleep(0.02)
        raise RuntimeError(f"never {what}\n{self.logged()}")

    def request(self, method, path, body=None, headers=None):
        """-> (status, headers, text)"""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE)
        with contextlib.closing(connection):
            send = dict(headers or {})
            if isinstance(body, (dict, list)):
                body = json.dumps(body)
                send.setdefault("Content-Type", "application/json")
            connection.request(method, path, body=body, headers=send)
            response = connection.getresponse()
            return response.status, dict(response.getheaders()), response.read().decode()

    def get(self, path):
        status, _, text = self.request("GET", path)
        return status, text

    def post(self, path, body, headers=None):
        """-> (status, parsed JSON)"""
        status, _, text = self.request("POST", path, body, headers)
        return status, json.loads(text)

    def lares(self, *words):
        """Runs another verb on this server's data folder -> what it printed."""
        done = subprocess.run([BINARY, *words, "--data", self.data], capture_output=True, text=True, timeout=PATIENCE)
        if done.returncode != 0:
            raise RuntimeError(f"lares {' '.join(words)}: {done.returncode}\n{done.stderr}")
        return done.stdout.strip()

    def member(self, *words):
        """`lares member ...`, and waits until the server has noticed -> what it printed."""
        before = self.logged().count("members changed")
        printed = self.lares("member", *words)
        self.wait_for(lambda: self.logged().count("members changed") > before, "noticed the members")
        return printed

    def chat(self, content, **fields):
        fields = {"max_tokens": 32, "temperature": 0, **fields}
        return self.post("/v1/chat/completions", {"messages": [{"role": "user", "content": content}], **fields})

    def metric(self, name):
        """The value of one series of /metrics."""
        for line in self.get("/metrics")[1].splitlines():
            if line.startswith(name + " "):
                return float(line.split()[-1])
        raise KeyError(name)

    def children(self):
        """Process ids of the workers by kind."""
        found = {}
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # Gone meanwhile.
                parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
                if parent != self.process.pid:
                    continue
                words = (folder / "cmdline").read_bytes().decode().split("\0")
                if "--device" in words:
                    found["device"] = int(folder.name)
                elif "--text" in words:
                    found["text"] = int(folder.name)
        return found


class Stream:
    """What one streamed answer brought."""

    def __init__(self):
        self.status = 0
        self.text = ""
        self.finish = None
        self.usage = None
        self.error = None
        self.done = False
        self.id = ""
        self.logprobs = []
        self.queue = []  # Where it stood while it waited.
        self.chunks = 0


async def stream(server, body, on_chunk=None, path="/v1/chat/completions", headers=None):
    """Sends a streamed request and collects it; `on_chunk(stream)` is called at every piece of text."""
    result = Stream()
    payload = json.dumps({**body, "stream": True}).encode()
    more = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
    reader, writer = await asyncio.open_connection(server.host, server.port, limit=1 << 22)
    try:
        writer.write(f"POST {path} HTTP/1.1\r\nHost: {server.host}:{server.port}\r\nContent-Type: application/json\r\n"
                     f"{more}Content-Length: {len(payload)}\r\nConnection: close\r\n\r\n".encode() + payload)
        await writer.drain()
        result.status = int((await reader.readline()).split()[1])
        while (await reader.readline()).strip():
            pass
        if result.status != 200:
            result.error = (await reader.read()).decode(errors="replace")
            return result
        while line := await reader.readline():
            line = line.strip()
            if not line.startswith(b"data:"):
                continue
            data = line[5:].strip()
            if data == b"[DONE]":
                result.done = True
                break
            event = json.loads(data)
            if "position" in event:
                result.queue.append(event)
                continue
            if "error" in event:
                result.error = event["error"]
                continue
            result.id = event.get("id", result.id)
            result.usage = event.get("usage") or result.usage
            for choice in event.get("choices", []):
                if (choice.get("logprobs") or {}).get("content"):
                    result.logprobs += choice["logprobs"]["content"]
                piece = choice.get("delta", {}).get("content") or choice.get("text") or ""
                result.text += piece
                result.finish = choice.get("finish_reason") or result.finish
                if piece:
                    result.chunks += 1
                    if on_chunk:
                        on_chunk(result)
        return result
    finally:
        writer.close()


def chat_body(content, **fields):
    return {"messages": [{"role": "user", "content": content}], "max_tokens": 32, "temperature": 0, **fields}
