"""A KV pool at four times what it holds: streams step back, are saved to the host and put back; nobody
fails, and the texts are those of a run with room for all, by the rule of kills_test.py; the control
runs as few streams side by side, since narrow steps round otherwise than wide ones.

LARES_ROUNDS: how often, each time begun in another order (1).
"""
import asyncio
import os
import random
import unittest

from faults_test import NEAR_TIE, NO_TIE, bodies, tie_where_they_part
from kills_test import differing, run_all
from lares_server import Server, chat_body, stream

ROUNDS = int(os.environ.get("LARES_ROUNDS", "1"))
POOL = 640  # Tokens; the sixteen streams come to 2,600 and more.
SIDE_BY_SIDE = 4


async def short_answers(server):
    """From which the server learns to expect short ones, and lets too many begin."""
    for i in range(12):
        await stream(server, chat_body(f"Hello {i}", max_tokens=2, ignore_eos=True))


class FullPool(unittest.TestCase):
    def test_a_pool_at_four_times_its_size_fails_nobody(self):
        rng = random.Random(2)
        fixed = list(range(len(bodies())))
        with Server() as server:
            undisturbed = asyncio.run(run_all(server, fixed))
        # Undisturbed, with as few beside each other as the small pool lets run: steps of that width round
        # as they do there.
        with Server("--sequences", str(SIDE_BY_SIDE)) as server:
            control = [asyncio.run(run_all(server, rng.sample(fixed, len(fixed)))) for _ in range(min(ROUNDS, 10))]
        control_ties = [tie_where_they_part(a, b) or 0 for texts in control for a, b in zip(undisturbed, texts)]
        control_rate = sum(differing(undisturbed, texts) for texts in control) / (len(control) * len(fixed))
        differ, ties = 0, []
        with Server("--pool-tokens", str(POOL), "--cache-tokens", "0") as server:
            for _ in range(ROUNDS):
                asyncio.run(short_answers(server))
                results = asyncio.run(run_all(server, rng.sample(fixed, len(fixed))))
                differ += differing(undisturbed, results)
                for a, b in zip(undisturbed, results):
                    self.assertIsNone(b.error)
                    self.assertTrue(b.done)
                    ties.append(tie_where_they_part(a, b) or 0)
                    self.assertLess(ties[-1], NO_TIE, f"{a.text!r}\n{b.text!r}")
            saved = server.metric("lares_states_saved_total")
            restored = server.metric("lares_states_restored_total")
        texts = ROUNDS * len(fixed)
        print(f"\n{texts} texts, 0 failed; {differ} differ ({differ / texts:.1%}), control {control_rate:.1%}; "
              f"{sum(t > NEAR_TIE for t in ties)} beyond a near tie (control "
              f"{sum(t > NEAR_TIE for t in control_ties)} of {len(control_ties)}); {saved:.0f} states saved, {restored:.0f} put back")
        self.assertGreater(restored, 0)
        if ROUNDS >= 5:  # Fewer are too few to count: those of the first round are held to NO_TIE alone.
            beyond, control_beyond = (sum(t > NEAR_TIE for t in all_of) for all_of in (ties, control_ties))
            self.assertLessEqual(beyond / texts, 1.5 * control_beyond / len(control_ties) + 0.03)  # Small counts.
            self.assertLessEqual(differ / texts, 1.5 * control_rate + 0.01)


if __name__ == "__main__":
    unittest.main(verbosity=2)
