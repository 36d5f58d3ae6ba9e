"""What clients see of the scheduler: the queue, its reasons, tasks, superseding, and who goes first."""
import asyncio
import json
import pathlib
import subprocess
import tempfile
import unittest

from lares_server import BINARY, STARTER, Server, chat_body, stream


def story(tokens, text="Tell the kids a story about a brave rabbit"):
    return chat_body(text, max_tokens=tokens, ignore_eos=True)


class Queue(unittest.TestCase):
    def queue(self, server):
        status, text = server.get("/v1/queue")
        self.assertEqual(status, 200)
        return json.loads(text)

    def test_the_queue_shows_who_waits_and_why(self):
        with Server("--sequences", "1") as server:
            seen = []

            async def all_three():
                def look(got):
                    if got.chunks == 20 and not seen:
                        seen.append(self.queue(server))

                first = asyncio.create_task(stream(server, story(200), look))
                while not json.loads(server.get("/v1/queue")[1])["jobs"]:
                    await asyncio.sleep(0)
                others = [asyncio.create_task(stream(server, story(5))) for _ in range(2)]
                return [await first] + [await other for other in others]

            results = asyncio.run(all_three())
            self.assertTrue(all(r.done and not r.error for r in results))
            jobs = seen[0]["jobs"]
            self.assertEqual([j["state"] for j in jobs], ["running", "queued", "queued"])
            self.assertEqual([j["position"] for j in jobs[1:]], [0, 1])
            self.assertEqual({j["reason"] for j in jobs[1:]}, {"waiting for memory"})
            self.assertTrue(all(j["estimate_s"] >= 0 and j["waited_s"] >= 0 for j in jobs[1:]))
            self.assertEqual(self.queue(server)["jobs"], [])

    def test_a_stream_that_asks_hears_where_it_stands(self):
        with Server("--sequences", "1") as server:
            async def both():
                started = asyncio.Event()

                def begin(got):
                    if got.chunks == 5:
                        started.set()

                first = asyncio.create_task(stream(server, story(200), begin))
                await started.wait()
                asks = await stream(server, story(5), headers={"X-Lares-Events": "queue"})
                return await first, asks
            first, asks = asyncio.run(both())
            self.assertTrue(first.done and asks.done and not first.queue)
            self.assertEqual((asks.queue[0]["position"], asks.queue[0]["reason"]), (0, "waiting for memory"))
            self.assertTrue(asks.queue[0]["estimate_s"] >= 0)
            self.assertEqual(asks.chunks > 0, True)
            status, _, text = server.request("POST", "/v1/chat/completions", story(5), {"X-Lares-Events": "weather"})
            self.assertEqual((status, json.loads(text)["error"]["code"]), (400, "events_unknown"))

    def test_a_newer_request_takes_the_place_of_the_older_one(self):
        with Server() as server:
            headers = {"X-Lares-Supersede": "kitchen"}
            newer = []

            async def both():
                started = asyncio.Event()

                def begin(got):
                    if got.chunks == 5:
                        started.set()

                older = asyncio.create_task(stream(server, story(2000), begin, headers=headers))
                other = asyncio.create_task(stream(server, story(40), headers={"X-Lares-Supersede": "hall"}))
                await started.wait()
                newer.append(await stream(server, story(5), headers=headers))
                return await older, await other

            older, other = asyncio.run(both())
            self.assertEqual(older.error["code"], "superseded")
            self.assertTrue(newer[0].done and other.done and not other.error)

    def test_headers_that_are_too_long_are_refused(self):
        with Server() as server:
            for header in ("X-Lares-Task", "X-Lares-Supersede"):
                status, body = server.post("/v1/chat/completions", story(5), {header: "x" * 200})
                self.assertEqual(status, 400)
                self.assertIn(header, body["error"]["message"])


class Fairness(unittest.TestCase):
    def test_a_question_is_answered_before_a_flood_of_somebody_else_is(self):
        with Server("--sequences", "2") as server:
            keys = {}
            for name in ("ana", "dan"):
                keys[name] = server.member("add", name, "--class", "chat", "--class", "agent").splitlines()[-1].split()[-1]

            def key(name):
                return {"Authorization": f"Bearer {keys[name]}"}

            async def evening():
                ended = []

                async def ask(name, tokens):
                    got = await stream(server, story(tokens), headers=key(name))
                    ended.append(name)
                    return got

                flood = [asyncio.create_task(ask("dan", 60)) for _ in range(12)]
                while True:
                    jobs = json.loads(server.request("GET", "/v1/queue", headers=key("dan"))[2])["jobs"]
                    if sum(j["state"] == "running" for j in jobs) == 2:
                        break
                    await asyncio.sleep(0)
                quiet = asyncio.create_task(ask("ana", 20))
                results = [await task for task in [quiet, *flood]]
                return ended, results

            ended, results = asyncio.run(evening())
            self.assertTrue(all(r.done and not r.error for r in results))
            # Two of Dan's run when Ana asks; hers is next, not thirteenth.
            self.assertLessEqual(ended.index("ana"), 4)


class Doctor(unittest.TestCase):
    def test_doctor_prints_the_guarantees_from_what_was_measured_here(self):
        with Server() as server:
            server.chat("Hello")
            data = server.data
            told = json.loads(server.lares("doctor", "--models", STARTER, "--json"))
            self.assertIn("measured here", told["measured"])
            self.assertGreater(told["guarantees"]["longest_slice_ms"], 1)
            waits = {name: c["longest_wait_s"] for name, c in told["guarantees"]["classes"].items()}
            self.assertEqual(set(waits), {"voice", "chat", "agent", "embedding", "image", "maintenance"})
            self.assertLess(waits["voice"], waits["chat"])
            server.wait_for(lambda: json.loads(server.lares("doctor", "--models", STARTER, "--json"))["slowest_segment"],
                            "in the ledger")
            told = json.loads(server.lares("doctor", "--models", STARTER, "--json"))
            self.assertIn(told["slowest_segment"]["name"],
                          ("queue", "model_load", "text_work", "prefill", "inference", "deliver"))
            self.assertEqual([p for p in told["problems"] if p["level"] == "problem"], [])
            self.assertTrue(any("a server runs" in what for what in told["well"]), told["well"])
            text = subprocess.run([BINARY, "doctor", "--models", STARTER, "--data", data], capture_output=True,
                                  text=True, check=True).stdout
            for part in ("longest step", "Where the time", "What to change"):
                self.assertIn(part, text)

    def test_what_needs_mending_is_said_first_and_is_the_exit_status(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "broken.gguf").write_bytes(b"GGUF" + b"\xff" * 100)
            done = subprocess.run([BINARY, "doctor", "--models", folder, "--data", folder + "/data",
                                   "--listen", "127.0.0.1:0"], capture_output=True, text=True)
            self.assertEqual(done.returncode, 1, done)
            self.assertRegex(done.stdout, r"! the model broken: .*\n +fetch the file again")


if __name__ == "__main__":
    unittest.main(verbosity=2)
