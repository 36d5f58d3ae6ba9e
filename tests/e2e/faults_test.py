"""Workers that die, files that are broken: what a client notices (nothing, or one clear error)."""
import asyncio
import os
import pathlib
import shutil
import signal
import tempfile
import unittest

from lares_server import STARTER, Server, chat_body, stream

STREAMS = 16
TOKENS = 128
NEAR_TIE = 0.1  # Of the two best scores, as log-probabilities.
# Rounding was seen to move one score by up to 0.07; no two scores further apart than this may change places.
NO_TIE = 0.15

ASKED = ["Tell the kids a story about a brave rabbit", "How do I get my rice nice and fluffy?",
         "Wie koche ich ein weiches Ei?", "¿Cómo se hace un buen arroz?", "What exactly are you?",
         "Erzähl uns bitte eine Geschichte vom Fuchs", "Cuéntanos un cuento de un dragón", "Tell me a joke"]


def bodies():
    return [chat_body(f"{ASKED[i % len(ASKED)]} ({i})", max_tokens=TOKENS, ignore_eos=True, logprobs=True,
                      top_logprobs=2) for i in range(STREAMS)]


async def run_all(server, on_chunk=None):
    return await asyncio.gather(*(stream(server, body, on_chunk if i == 0 else None)
                                  for i, body in enumerate(bodies())))


def tie_where_they_part(undisturbed, other):
    """How far apart the undisturbed run's two best scores are where the texts part; None if they never do."""
    for a, b in zip(undisturbed.logprobs, other.logprobs):
        # By bytes: two halves of different letters are the same replacement mark as text.
        if a["bytes"] != b["bytes"]:
            best = a["top_logprobs"]
            return best[0]["logprob"] - best[1]["logprob"]
    return None


class Workers(unittest.TestCase):
    def test_sixteen_streams_go_on_with_the_same_text_when_the_device_worker_is_killed(self):
        with Server() as server:
            undisturbed = asyncio.run(run_all(server))
            restarts = 'lares_worker_restarts_total{kind="device"}'

            def kill(got):
                if got.chunks in (10, 60):
                    os.kill(server.children()["device"], signal.SIGKILL)

            disturbed = asyncio.run(run_all(server, kill))
            self.assertEqual(server.metric(restarts), 2)
            for a, b in zip(undisturbed, disturbed):
                self.assertIsNone(b.error)
                self.assertTrue(b.done)
                self.assertEqual(len(b.logprobs), TOKENS)
                self.assertLess(tie_where_they_part(a, b) or 0, NO_TIE, f"{a.text!r}\n{b.text!r}")

    def test_nobody_streaming_notices_that_the_text_worker_is_killed(self):
        with Server() as server:
            first = server.children()["text"]

            def kill(got):
                if got.chunks == 10:
                    os.kill(first, signal.SIGKILL)

            async def both():
                return await stream(server, chat_body("Tell me a story", max_tokens=300, ignore_eos=True), kill)

            got = asyncio.run(both())
            self.assertIsNone(got.error)
            self.assertEqual(got.finish, "length")
            self.assertEqual(server.chat("How many grams are in 3 kilograms?")[0], 200)
            self.assertNotEqual(server.children()["text"], first)

    def test_a_hung_worker_answers_after_it_wakes_or_is_replaced(self):
        with Server() as server:
            pid = server.children()["device"]

            def stop(got):
                if got.chunks == 5:
                    os.kill(pid, signal.SIGSTOP)

            async def asked():
                return await stream(server, chat_body("Tell me a story", max_tokens=60, ignore_eos=True), stop)

            got = asyncio.run(asked())  # The limit is 10 s.
            self.assertIsNone(got.error)
            self.assertEqual(got.finish, "length")
            self.assertNotEqual(server.children()["device"], pid)

    def test_workers_end_with_the_server(self):
        server = Server()
        children = server.children().values()
        os.kill(server.process.pid, signal.SIGKILL)
        server.process.wait()

        def gone(pid):
            try:
                return pathlib.Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"
            except OSError:
                return True

        end = asyncio.run(self.until(lambda: all(gone(pid) for pid in children)))
        server.stop()
        self.assertTrue(end)

    @staticmethod
    async def until(condition):
        for _ in range(1000):
            if condition():
                return True
            await asyncio.sleep(0.01)
        return False


class ModelFiles(unittest.TestCase):
    def test_a_bad_file_is_an_error_for_that_model_only(self):
        folder = tempfile.mkdtemp(prefix="lares-models-")
        try:
            good = pathlib.Path(STARTER) / "chat" / "starter-chat-q8_0.gguf"
            whole = good.read_bytes()
            shutil.copy(good, f"{folder}/good.gguf")
            pathlib.Path(f"{folder}/truncated.gguf").write_bytes(whole[:len(whole) // 2])
            pathlib.Path(f"{folder}/foreign.gguf").write_bytes(b"PK\3\4" + b"not a model" * 100)
            pathlib.Path(f"{folder}/empty.gguf").write_bytes(b"")
            # Sizes in the head that cannot be: what crashes or exhausts a careless loader.
            absurd = bytearray(whole[:4096])
            absurd[8:24] = (2**60).to_bytes(8, "little") * 2
            pathlib.Path(f"{folder}/absurd.gguf").write_bytes(absurd)
            noise = bytearray(whole)
            noise[3000:9000] = b"\xff" * 6000
            pathlib.Path(f"{folder}/noise.gguf").write_bytes(noise)
            with Server("--model", "good", models=folder) as server:
                for name in ("truncated", "foreign", "empty", "absurd", "noise"):
                    server.wait_for(lambda: f'"{name}"' in server.get("/v1/models")[1], f"listed {name}")
                    status, answer = server.chat("hello", model=name)
                    self.assertEqual(status, 503, (name, answer))
                    self.assertEqual(answer["error"]["code"], "model_failed")
                    self.assertIn(name, answer["error"]["message"])
                self.assertEqual(server.chat("How many grams are in 3 kilograms?", model="good")[0], 200)
                self.assertEqual(server.metric('lares_worker_restarts_total{kind="device"}'), 0)
        finally:
            shutil.rmtree(folder)


if __name__ == "__main__":
    unittest.main(verbosity=2)
