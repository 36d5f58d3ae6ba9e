"""/metrics on the real binary: a strict parser, docs/metrics.md and packaging/grafana agree with it."""
import json
import math
import pathlib
import re
import time
import unittest

from lares_server import Server

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "metrics.md"
DASHBOARD = ROOT / "packaging" / "grafana" / "lares.json"
NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"')
VALUE = re.compile(r"[+-]?(?:\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+|Inf|NaN)")
SUFFIXES = {"histogram": ("_bucket", "_sum", "_count"), "counter": ("",), "gauge": ("",)}


class Family:
    def __init__(self):
        self.type = self.help = None
        self.samples = {}  # (name, labels) -> value


def parse(text):
    """The text exposition format 0.0.4, and no more than it allows -> families by name."""
    assert text.endswith("\n"), "the last line must end"
    families, current = {}, None
    for line in text.splitlines():
        assert line == line.strip() and line, f"blanks: {line!r}"
        if line.startswith("#"):
            word, name, rest = re.fullmatch(r"# (HELP|TYPE) (\S+) (.*)", line).groups()
            assert NAME.fullmatch(name), line
            if name != current:
                assert name not in families, f"{name} comes twice"
                families[name], current = Family(), name
            family = families[name]
            assert not family.samples, f"{line!r} after samples"
            assert getattr(family, word.lower()) is None, f"{word} of {name} comes twice"
            assert word == "HELP" or rest in SUFFIXES, line
            setattr(family, word.lower(), rest)
            continue
        name = NAME.match(line).group(0)
        rest = line[len(name):]
        family = families[current]
        assert name in [current + s for s in SUFFIXES[family.type]], f"{name} within {current}"
        labels = []
        if rest.startswith("{"):
            inside, rest = rest[1:].rsplit("}", 1)
            labels = LABEL.findall(inside)
            assert ",".join(f'{k}="{v}"' for k, v in labels) == inside, line
            assert len({k for k, _ in labels}) == len(labels), line
        assert re.fullmatch(" " + VALUE.pattern, rest), f"value: {line!r}"
        key = (name, tuple(sorted(labels)))
        assert key not in family.samples, f"{line!r} comes twice"
        family.samples[key] = float(rest.strip().replace("Inf", "inf"))
    for name, family in families.items():
        check(name, family)
    return families


def check(name, family):
    assert family.help and family.type, f"{name} lacks HELP or TYPE"
    assert family.samples, f"{name} has no samples"
    assert (family.type == "counter") == name.endswith("_total"), f"{name} is a {family.type}"
    if family.type == "counter":
        assert all(v >= 0 and math.isfinite(v) for v in family.samples.values()), name
    if family.type != "histogram":
        return
    series = {}
    for (sample, labels), value in family.samples.items():
        plain = tuple(label for label in labels if label[0] != "le")
        entry = series.setdefault(plain, {"buckets": []})
        if sample.endswith("_bucket"):
            entry["buckets"].append((float(dict(labels)["le"].replace("Inf", "inf")), value))
        else:
            entry[sample[len(name):]] = value
    for entry in series.values():
        bounds = [bound for bound, _ in entry["buckets"]]
        counts = [n for _, n in entry["buckets"]]
        assert bounds == sorted(bounds) and bounds[-1] == math.inf, name
        assert counts == sorted(counts) and counts[-1] == entry["_count"], name
        assert entry["_sum"] >= 0, name


def documented():
    """Names in the first column of the document's tables."""
    return set(re.findall(r"^\| `([a-z0-9_]+)`", DOCUMENT.read_text(), re.M))


class Metrics(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.server.chat("Hello!")
        cls.server.post("/v1/embeddings", {"input": "hello"})
        cls.server.wait_for(lambda: cls.server.post("/v1/sketches", {
            "sketch": '"a house" | encode | sample 2 seed 1 | out png\n'}, {"Prefer": "wait"})[0] == 200, "made a picture")
        cls.server.get("/metrics")  # Which is counted, too.
        cls.families = parse(cls.server.get("/metrics")[1])

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def test_every_metric_is_documented_and_there_are_no_others(self):
        self.assertEqual(set(self.families), documented())

    def test_names_are_those_of_opentelemetry_where_there_are_some(self):
        for name in ("gen_ai_server_request_duration_seconds", "gen_ai_server_time_to_first_token_seconds",
                     "gen_ai_server_time_per_output_token_seconds"):
            self.assertEqual(self.families[name].type, "histogram")
        self.assertGreaterEqual(self.families["gen_ai_server_request_duration_seconds"].samples[
            ("gen_ai_server_request_duration_seconds_count", ())], 2)

    def test_nobody_is_named(self):
        for name, family in self.families.items():
            for _, labels in family.samples:
                self.assertFalse({key for key, _ in labels} & {"member", "key", "id"}, name)

    def test_the_dashboard_asks_for_what_exists(self):
        dashboard = json.loads(DASHBOARD.read_text())
        known = {name + suffix for name, family in self.families.items() for suffix in SUFFIXES[family.type]}
        queries = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
        self.assertGreater(len(queries), 10)
        for query in queries:
            names = set(re.findall(r"\b(?:lares|gen_ai)_[a-z0-9_]+", query))
            self.assertTrue(names, query)
            self.assertLessEqual(names, known, query)
        ids = [panel["id"] for panel in dashboard["panels"]]
        self.assertEqual(len(ids), len(set(ids)))

    def test_it_answers_quickly(self):
        took = []
        for _ in range(50):
            begin = time.monotonic()
            self.server.get("/metrics")
            took.append(time.monotonic() - begin)
        self.assertLess(sorted(took)[len(took) // 2], 0.05)  # The median; 5 ms where nobody else computes.

    def test_the_parser_is_strict(self):
        good = '# HELP a_total A.\n# TYPE a_total counter\na_total{x="1\\"2"} 3\n'
        self.assertEqual(set(parse(good)), {"a_total"})
        for bad in (good[:-1], good.replace("a_total{", "b_total{"), good.replace('"1\\"2"', '"1"2"'), good + good,
                    good.replace(" 3", " three"), good.replace("counter", "gauge"), good + 'a_total{x="1\\"2"} 3\n',
                    good.replace(" 3", " -3"), "# HELP a A.\n# TYPE a gauge\n"):
            with self.assertRaises((AssertionError, AttributeError, KeyError), msg=bad):
                parse(bad)


if __name__ == "__main__":
    unittest.main()
