"""`lares bench` on the real binary: against itself, from its own usage, and where nobody listens."""
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree

from lares_server import BINARY, PATIENCE, Server

ENVIRONMENT = {key: value for key, value in os.environ.items() if key != "LARES_KEY"}


def bench(*words, status=0):
    done = subprocess.run([BINARY, "bench", *words], capture_output=True, text=True, timeout=2 * PATIENCE,
                          env=ENVIRONMENT)
    assert done.returncode == status, (words, done.returncode, done.stdout, done.stderr)
    return done.stdout if status == 0 else done.stderr


class Bench(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.json, cls.svg = (os.path.join(cls.folder.name, name) for name in ("out.json", "out.svg"))
        cls.server = Server()

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()
        cls.folder.cleanup()

    def figures(self):
        return json.loads(pathlib.Path(self.json).read_text())

    def test_scenarios_one_after_the_other(self):
        text = bench("--scenario", "alone,noisy", "--seconds", "2", "--data", self.server.data, "--json", self.json,
                     "--svg", self.svg)
        runs = self.figures()["runs"]
        self.assertEqual(self.figures()["url"], self.server.url)
        self.assertEqual([run["scenario"] for run in runs], ["alone", "noisy"])
        self.assertEqual([[(row["member"], row["class"]) for row in run["rows"]] for run in runs],
                         [[("ana", "chat")], [("ana", "chat"), ("dan", "agent")]])
        for run in runs:
            self.assertIsNone(run["first_error"])
            self.assertFalse(run["interrupted"])
            for row in run["rows"]:
                self.assertEqual(row["errors"], 0)
                self.assertEqual(row["ok"], row["sent"])
                self.assertGreater(row["ok"], 0)
                self.assertGreater(row["ttft_p50"], 0)
                self.assertLessEqual(row["ttft_p50"], row["ttft_p95"])
                self.assertLessEqual(row["itl_p50"], row["itl_max"])
                self.assertGreater(row["e2e_p50"], row["ttft_p50"])
        self.assertEqual(runs[0]["jain"], 1)
        self.assertGreaterEqual(runs[1]["rows"][1]["sent"], 16)  # Sixteen in flight.
        self.assertRegex(text, r"\nnoisy\nmember +class +sent +ok +errors +first p50")
        self.assertRegex(text, r"\n\| `alone` \| [0-9.]+ \| [0-9.]+ \| [0-9.]+ \| 1\.000 \| 0 \|\n")
        root = xml.etree.ElementTree.parse(self.svg).getroot()
        self.assertEqual(root.tag, "{http://www.w3.org/2000/svg}svg")
        titles = [title.text for title in root.iter("{http://www.w3.org/2000/svg}title")]
        self.assertEqual(titles, ["ana", "ana", "dan"])

    def test_what_it_counts_is_what_the_server_counted(self):
        def counted():
            return sum(row["output_tokens"]
                       for row in json.loads(self.server.lares("usage", "--json", "--by", "class")))
        before = counted()
        bench("--scenario", "alone", "--seconds", "1", "--url", self.server.url + "/v1", "--json", self.json)
        run = self.figures()["runs"][0]
        tokens = round(run["out_tok_s"] * run["wall_s"])
        self.assertEqual(tokens, 64 * run["rows"][0]["ok"])
        self.server.wait_for(lambda: counted() == before + tokens, "the same tokens")

    def test_from_the_households_own_usage(self):
        with Server() as server:
            self.assertIn("no text", bench("--from-usage", "7", "--data", server.data, status=1))
            for words in ("One", "Two", "Three"):
                self.assertEqual(server.chat(words, max_tokens=5, ignore_eos=True)[0], 200)
            server.wait_for(lambda: "home" in server.lares("usage"), "three rows")
            server.wait_for(lambda: json.loads(server.lares("usage", "--json"))[0]["requests"] == 3, "three rows")
            text = bench("--from-usage", "7", "--seconds", "1", "--data", server.data, "--json", self.json)
        self.assertIn("3 requests of the last 7 days in 1 s", text)
        row, = self.figures()["runs"][0]["rows"]
        self.assertEqual((row["member"], row["class"], row["sent"], row["ok"]), ("a", "chat", 3, 3))
        self.assertNotIn("home", text)

    def test_keys(self):
        keys = []

        def prepare(data):
            for name, cls in (("ana", "chat"), ("dan", "agent")):
                added = subprocess.run([BINARY, "member", "add", name, "--class", cls, "--data", data], capture_output=True,
                                       text=True, timeout=PATIENCE, check=True)
                keys.append(added.stdout.strip())
        with Server("--listen", "0.0.0.0:0", prepare=prepare) as server:
            ana, dan = keys
            self.assertIn("asks for keys", bench("--scenario", "noisy", "--data", server.data, status=2))
            bench("--scenario", "noisy", "--seconds", "1", "--data", server.data, "--json", self.json, "--key",
                  f"ana={ana}", "--key", f"dan={dan}")
            self.assertEqual(self.figures()["runs"][0]["first_error"], None)
            used = {row["member"] for row in json.loads(server.lares("usage", "--json"))}
        self.assertEqual(used, {"ana", "dan"})

    def test_ctrl_c_prints_what_is_there(self):
        answered = "gen_ai_server_request_duration_seconds_count"
        before = self.server.metric(answered)
        process = subprocess.Popen([BINARY, "bench", "--scenario", "alone", "--seconds", "3000", "--data",
                                    self.server.data, "--json", self.json], stdout=subprocess.PIPE, text=True,
                                   env=ENVIRONMENT)
        self.server.wait_for(lambda: self.server.metric(answered) > before, "one answer")
        process.send_signal(signal.SIGINT)
        text, _ = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 130)
        self.assertIn("(interrupted)", text)
        self.assertTrue(self.figures()["runs"][0]["interrupted"])
        self.assertGreaterEqual(self.figures()["runs"][0]["rows"][0]["sent"], 1)

    def test_what_people_get_wrong(self):
        self.assertIn("no server answers at 127.0.0.1:1 ", bench("--url", "http://127.0.0.1:1", status=1))
        self.assertIn("TLS", bench("--url", "https://127.0.0.1:1", status=2))
        self.assertIn("Did you mean `evening`?", bench("--scenario", "evenin", "--data", self.server.data, status=2))
        self.assertIn("1 to 3600", bench("--seconds", "0", status=2))
        self.assertIn("MEMBER=KEY", bench("--key", "lares-1", status=2))
        self.assertIn("nobody is called eve",
                      bench("--scenario", "alone", "--key", "eve=x", "--data", self.server.data, status=2))
        self.assertIn("either", bench("--scenario", "alone", "--from-usage", "1", status=2))
        self.assertIn("no usage ledger", bench("--from-usage", "1", "--data", "/nonexistent", "--url",
                                               self.server.url, status=1))


if __name__ == "__main__":
    unittest.main()
