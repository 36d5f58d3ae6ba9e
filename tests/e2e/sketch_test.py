"""`lares sketch` on the real binary, planning with the models that ship."""
import json
import pathlib
import subprocess
import unittest

from lares_server import BINARY, PATIENCE, STARTER

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples" / "sketches"


def sketch(*words, status=0, given=""):
    done = subprocess.run([BINARY, "sketch", *map(str, words)], capture_output=True, text=True, timeout=PATIENCE,
                          input=given)
    assert done.returncode == status, (words, done.returncode, done.stdout, done.stderr)
    return done.stdout + (done.stderr if status else "")


class Sketches(unittest.TestCase):
    def test_a_text_is_planned_with_the_chat_model(self):
        text = 'in idea : Text\nout (idea | ask starter-chat "briefly" max 40 seed 1) txt\n'
        plan = json.loads(sketch("check", "-", "--json", "--models", STARTER, given=text))
        ask = next(node for node in plan["nodes"] if node["op"] == "ask")
        self.assertEqual(ask["type"], "Text")
        self.assertEqual(ask["model"], "starter-chat")
        self.assertTrue(ask["batch_key"])
        self.assertFalse(ask["cached"])
        self.assertIn("seconds", plan["price"])
        self.assertIn("starter-chat", sketch("check", "-", "--models", STARTER, given=text))

    def test_errors_have_their_place(self):
        text = "use starter-chta\nout x png\n"
        errors = json.loads(sketch("check", "-", "--json", "--models", STARTER, status=1, given=text))["errors"]
        self.assertEqual([(e["code"], e["line"], e["column"]) for e in errors], [("N1", 1, 5), ("N1", 2, 5)])
        self.assertIn("Did you mean `starter-chat`?", errors[0]["message"])
        self.assertIn("N1 line 2, column 5", sketch("check", "-", "--models", STARTER, status=1, given=text))

    def test_the_examples_keep_their_meaning_as_json_and_back(self):
        for example in sorted(EXAMPLES.glob("*.sketch")):
            text = sketch("fmt", example)
            as_json = sketch("fmt", example, "--json")
            self.assertEqual(json.loads(as_json)["sketch"], 1)
            self.assertEqual(sketch("fmt", "-", given=as_json), text, example)
            self.assertEqual(sketch("fmt", "-", given=text), text, example)

    def test_too_much_is_refused(self):
        for text in ("(" * 1_000_000, "x = a" + " | resize 2x" * 10_000, '{"sketch":1,"lines":' + "[" * 400_000):
            self.assertIn("L2 line 1", sketch("check", "-", "--models", STARTER, status=1, given=text))


if __name__ == "__main__":
    unittest.main()
