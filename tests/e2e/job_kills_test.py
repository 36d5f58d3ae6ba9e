"""kill -9 of the server at random moments under a mixed load, a hundred times (LARES_KILLS): every accepted job ends well,
and the ledger is exact after each kill."""
import json
import os
import random
import time
import unittest

from jobs_test import rows, submit
from lares_server import Server, chat_body
from pictures_test import APPLE

KILLS = int(os.environ.get("LARES_KILLS", "100"))


class Kills(unittest.TestCase):
    def test_a_hundred_kills(self):
        rng = random.Random(1)
        accepted, lost, back = [], 0, []
        with Server() as server:
            server.wait_for(lambda: server.post("/v1/sketches/check", {"sketch": APPLE})[0] == 200, "found the model")
            for kill in range(KILLS):
                # What the server has answered 202 to must be there; what it had not may be or not.
                for i in range(rng.randrange(1, 6)):
                    kind = rng.randrange(4)
                    if kind == 0:
                        accepted.append(submit(server, chat_body(f"Count to {i}", max_tokens=rng.choice((20, 150)),
                                                                 ignore_eos=True)))
                    elif kind == 1:
                        accepted.append(submit(server, {"input": ["one two"] * rng.randrange(1, 20)}, "/v1/embeddings"))
                    elif kind == 2:
                        accepted.append(submit(server, {"prompt": "a red apple", "steps": rng.choice((2, 40))},
                                               "/v1/images/generations"))
                    else:
                        accepted.append(submit(server, {"prompt": "Once", "options": {"num_predict": 40}}, "/api/generate"))
                time.sleep(rng.uniform(0, 0.5))  # The moment of the kill: any will do.
                server.kill()
                server.lares("usage", "--check")
                begun = time.monotonic()
                server.start(wait_ready=False)
                back.append(time.monotonic() - begun)
                # Pictures are planned as they are taken on: the model must have been seen.
                server.wait_for(lambda: server.post("/v1/sketches/check", {"sketch": APPLE})[0] == 200, "found the model")
            server.wait_for(lambda: rows(server, "SELECT 1 FROM job WHERE state IN ('queued', 'running')") == [], "over")
            states = dict(rows(server, "SELECT id, state FROM job"))
            lost = [id for id in accepted if id not in states]
            self.assertEqual(lost, [])
            self.assertEqual({states[id] for id in accepted}, {"done"})
            server.lares("usage", "--check")
            print(json.dumps({"kills": KILLS, "accepted": len(accepted), "lost": len(lost),
                              "seconds_until_it_listens_median": sorted(back)[len(back) // 2],
                              "seconds_until_it_listens_most": max(back)}))


if __name__ == "__main__":
    unittest.main(verbosity=2)
