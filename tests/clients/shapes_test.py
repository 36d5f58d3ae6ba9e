"""Requests as Home Assistant and Open WebUI send them, and the shape of what they get.

Each file in shapes/ holds a request and, as golden, the status, the type and the shape of its answer: the
members of every line with the types of their values, repeated lines once. The requests were written after the
projects' public documentation. Which tool the starter model calls, and how, is its own business; a starter that
is trained anew may still make a new blessing necessary. `shapes_test.py --bless` writes the goldens anew; read the difference.
"""
import json
import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))
from lares_server import Server  # noqa: E402

# Members whose few values are part of the contract.
SPOKEN = {"role", "done", "done_reason", "object", "finish_reason", "type", "code", "index"}
# Of the starter models, which may grow in number.
LISTS = {"models", "data"}
# Requests that do not say otherwise are answered with the likeliest words: the same ones in every run.
CALM = ("--temperature", "0")


def shape(value, name=""):
    if isinstance(value, dict):
        if name == "arguments":
            return "object"
        return {key: shape(inner, key) for key, inner in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if name in LISTS and value else [shape(inner) for inner in value]
    if name in SPOKEN or value is None or isinstance(value, bool):
        return value
    return "text" if isinstance(value, str) else "number"


def shapes_of(text):
    """Every JSON value of an answer: of a body, of lines, or of an event stream."""
    found = []
    for line in text.splitlines():
        line = line.removeprefix("data: ").strip()
        if not line:
            continue
        is_shape = line if line == "[DONE]" else shape(json.loads(line))
        if not found or found[-1] != is_shape:
            found.append(is_shape)
    return found


def answer_to(server, wish):
    status, headers, text = server.request(wish["method"], wish["path"], wish.get("body"))
    kind = headers["Content-Type"].split(";")[0]
    return {"status": status, "content_type": kind, "shape": shapes_of(text)}


class Shapes(unittest.TestCase):
    maxDiff = None

    def test_every_shape(self):
        with Server(*CALM) as server:
            for file in sorted((HERE / "shapes").glob("*.json")):
                with self.subTest(file.stem):
                    wish = json.loads(file.read_text())
                    self.assertEqual(answer_to(server, wish), wish["answer"])


def bless():
    with Server(*CALM) as server:
        for file in sorted((HERE / "shapes").glob("*.json")):
            wish = json.loads(file.read_text())
            wish["answer"] = answer_to(server, wish)
            file.write_text(json.dumps(wish, indent=1) + "\n")


if __name__ == "__main__":
    bless() if "--bless" in sys.argv else unittest.main(verbosity=2)
