"""A storm of new connections: five hundred a second, for LARES_STORM seconds (5), beside a stream and a chat.

Some say nothing and go, some begin a request and go, some ask and read the answer, some hold what they began.
Afterwards nothing is left of them, and meanwhile nobody's answer failed.
"""
import asyncio
import os
import pathlib
import time
import unittest

from lares_server import Server, chat_body, stream

SECONDS = float(os.environ.get("LARES_STORM", "5"))
A_SECOND = 500
HELD_MOST = 100  # Connections that hold a request they began, at a time.


def handles(pid):
    return len(list(pathlib.Path(f"/proc/{pid}/fd").iterdir()))


class Storm:
    def __init__(self, server):
        self.server = server
        self.opened = self.refused = self.asked = self.answered = 0
        self.held = []

    async def one(self, number):
        try:
            reader, writer = await asyncio.open_connection(self.server.host, self.server.port)
        except OSError:
            self.refused += 1
            return
        self.opened += 1
        try:
            kind = number % 4
            if kind == 1:
                writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nHost: ")
            if kind == 2:
                self.asked += 1
                writer.write(f"GET /healthz HTTP/1.1\r\nHost: {self.server.host}:{self.server.port}\r\n"
                             "Connection: close\r\n\r\n".encode())
                answer = await reader.read()
                self.answered += b" 200 " in answer[:20]
            if kind == 3 and len(self.held) < HELD_MOST:
                writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 100000\r\n\r\nx")
                self.held.append(writer)
                return
        except OSError:
            pass
        writer.close()

    async def blow(self, seconds):
        begin, number, running = time.monotonic(), 0, set()
        while time.monotonic() - begin < seconds:
            while number < (time.monotonic() - begin) * A_SECOND:
                number += 1
                task = asyncio.create_task(self.one(number))
                running.add(task)
                task.add_done_callback(running.discard)
            await asyncio.sleep(0.01)  # The storm's own pace.
        await asyncio.gather(*running)
        for writer in self.held:
            writer.close()


async def beside(server, until):
    """Chats one after the other until then -> (their number, the longest gap between two pieces)."""
    count, longest = 0, 0.0
    while time.monotonic() < until:
        stamps = []
        answer = await stream(server, chat_body("Tell me a long story about the sea.", max_tokens=60, ignore_eos=True),
                              lambda _: stamps.append(time.monotonic()))
        assert answer.done and answer.error is None, (answer.status, answer.error)
        count += 1
        longest = max([longest, *(b - a for a, b in zip(stamps, stamps[1:]))])
    return count, longest


class Connections(unittest.TestCase):
    def test_storm(self):
        with Server() as server:
            server.chat("hello", max_tokens=2)
            before = handles(server.process.pid)

            async def both():
                storm = Storm(server)
                chats = asyncio.create_task(beside(server, time.monotonic() + SECONDS))
                await storm.blow(SECONDS)
                return storm, await chats

            storm, (chats, longest) = asyncio.run(both())
            print(f"\n{storm.opened} connections in {SECONDS:.0f} s, {storm.refused} refused; {storm.answered} of "
                  f"{storm.asked} that asked were answered; {chats} chats beside, longest gap {longest * 1000:.0f} ms")
            self.assertGreater(storm.opened, SECONDS * A_SECOND * 0.5)
            self.assertEqual(storm.answered, storm.asked)
            self.assertGreater(chats, 0)
            server.wait_for(lambda: handles(server.process.pid) <= before + 2, "rid of their connections")
            self.assertEqual(server.chat("hello", max_tokens=2)[0], 200)
            server.lares("usage", "--check")


if __name__ == "__main__":
    unittest.main()
