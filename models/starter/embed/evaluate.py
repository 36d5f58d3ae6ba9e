#!/usr/bin/env python3
"""Retrieval with Lares Starter Embed, through a running server, beside a bag of words.

  lares serve --models models/starter --listen 127.0.0.1:8080
  evaluate.py --url http://127.0.0.1:8080 --model starter-embed --md EVAL.md [--words words.json --tokenize BIN --gguf FILE]

Each task: a query, and how often the right text comes first among all (and the mean of 1 / its place).
The bag of words is TF-IDF over lower-case words without accents, cosine, weighted on the same texts.
"""
import argparse
import json
import math
import random
import subprocess
import urllib.request

import pairs
import words

# Written by hand, after the generator was: none of these sentences can come from it.
NOTES = [
    ("The spare key hangs behind the boiler.", ["where do I find the extra key?", "wo ist der Ersatzschlüssel?"]),
    ("Grandma's birthday is on the twelfth of May; she likes tulips.", ["when was grandma born and what flowers does she like", "was schenken wir Oma?"]),
    ("The plumber's number is on the fridge door.", ["who do I call when the sink leaks", "un grifo pierde agua, a quién llamo"]),
    ("Feed the fish once a day, a small pinch is enough.", ["how much food do the fish get", "wie oft füttere ich die Fische"]),
    ("The wifi password for guests is on the back of the router.", ["visitors want to go online", "Gäste wollen ins Internet"]),
    ("Rubbish is collected on Tuesdays, paper every second Friday.", ["when do I put the bins out", "wann kommt die Müllabfuhr"]),
    ("The car is due for its inspection in September.", ["when does the vehicle have to be checked", "cuándo toca la revisión del coche"]),
    ("Turn the heating down to sixteen degrees before we go on holiday.", ["what to do with the radiators while we travel", "Heizung im Urlaub"]),
    ("Max is allergic to peanuts and hazelnuts.", ["what must Max not eat", "qué no puede comer Max"]),
    ("The washing machine rattles if it is loaded with more than five kilos.", ["why does the laundry make so much noise", "Waschmaschine laut"]),
    ("Swimming lessons are on Thursday at four, bring goggles.", ["when do the kids go to the pool", "wann ist Schwimmkurs"]),
    ("The neighbours water our plants while we are away; they have a key.", ["who looks after the flowers when we are gone", "wer gießt die Blumen"]),
    ("Dough for pizza: flour, water, salt, a little yeast, a night in the fridge.", ["recipe for a pizza base", "cómo hago masa para pizza"]),
    ("The smoke detector in the hall needs a new battery every autumn.", ["the alarm on the ceiling beeps", "Rauchmelder piept"]),
    ("Dentist for Ella on the third of June at half past nine.", ["Ella has a toothache, when is her appointment", "Zahnarzttermin von Ella"]),
    ("The blue bin is for paper, the yellow one for packaging.", ["where do empty cartons go", "dónde se tira el papel"]),
    ("The garage remote is in the drawer under the phone.", ["how do I open the garage door", "wo liegt die Fernbedienung für die Garage"]),
    ("Tax papers lie in the grey folder on the top shelf.", ["where are the documents for the tax office", "wo sind die Steuerunterlagen"]),
    ("Coffee machine: descale it when the red lamp blinks.", ["the espresso maker shows a red light", "Kaffeemaschine rotes Licht"]),
    ("The cat may not go out before eight in the morning.", ["until when does the cat have to stay inside", "ab wann darf die Katze raus"]),
]


def embed(args, texts):
    rows = []
    for i in range(0, len(texts), 256):
        body = json.dumps({"model": args.model, "input": texts[i:i + 256]}).encode()
        request = urllib.request.Request(args.url + "/v1/embeddings", body, {"Content-Type": "application/json"})
        rows += [one["embedding"] for one in json.load(urllib.request.urlopen(request))["data"]]
    return rows


def bags(texts):
    counted = []
    for text in texts:
        bag = {}
        for word in words.split(text):
            bag[word] = bag.get(word, 0) + 1
        counted.append(bag)
    seen = {}
    for bag in counted:
        for word in bag:
            seen[word] = seen.get(word, 0) + 1
    rows = []
    for bag in counted:
        row = {w: n * math.log((1 + len(texts)) / seen[w]) for w, n in bag.items()}
        length = math.sqrt(sum(x * x for x in row.values())) or 1
        rows.append({w: x / length for w, x in row.items()})
    return rows


def places(queries, documents, right, like):
    """Of each query, how many documents are as close as the right one, or closer."""
    out = []
    for q, r in zip(queries, right):
        scores = [like(q, d) for d in documents]
        out.append(sum(s >= scores[r] for s in scores))
    return out


def dense(a, b):
    return sum(x * y for x, y in zip(a, b))


def sparse(a, b):
    return sum(x * b.get(w, 0.0) for w, x in a.items())


def tasks():
    r = random.Random(99)
    out = {}
    same, seen = [], set()
    while len(same) < 200:
        kind, lang, seed = r.choice(pairs.g.KINDS), r.choice(pairs.LANGS), r.getrandbits(40)
        one, other = (pairs.request(kind, lang, seed, r.getrandbits(40)) for _ in range(2))
        key = (kind, lang, str(one.v))
        if one.text != other.text and key not in seen and one.v:
            seen.add(key)
            same.append((one.text, other.text))
    out["requests, other wording"] = same
    across, seen = [], set()
    while len(across) < 200:
        kind, seed = r.choice(pairs.SAME_EVERYWHERE), r.getrandbits(40)
        a, b = r.sample(pairs.LANGS, 2)
        one, other = pairs.request(kind, a, seed, r.getrandbits(40)), pairs.request(kind, b, seed, r.getrandbits(40))
        if one.v.get("n") == other.v.get("n") and one.v and str(one.v) not in seen:
            seen.add(str(one.v))
            across.append((one.text, other.text))
    out["requests, other language"] = across
    asked = []
    for lang in pairs.LANGS:
        P = pairs.g.LANGS[lang]
        for n, (q, a) in enumerate(P.qa):
            if pairs.held_out(n):
                asked.append((pairs.g.reword(r, P, pairs.g.E(r, q)), pairs.g.E(r, a)))
    out["questions never seen, their answers"] = asked
    sets = pairs.synsets()
    kept = [s for i, s in enumerate(sets) if i % 50 == 7]
    out["glosses never seen, their words"] = [(gloss, ", ".join(w)) for w, gloss, _ in r.sample(kept, 200)]
    shown = [(gloss, e[0]) for w, gloss, e in kept if e]
    out["glosses never seen, their examples"] = r.sample(shown, 200)
    notes = [text for text, _ in NOTES]
    for name, k in (("hand-written notes, same language", 0), ("hand-written notes, other language", 1)):
        out[name] = [(asks[k], text) for text, asks in NOTES]
    assert len(set(notes)) == len(notes)
    return out


def parity(args):
    """Whether llama.cpp cuts texts as the training did."""
    vocabulary = words.Words(json.load(open(args.words)))
    r, same = random.Random(5), 0
    texts = [pairs.household(r)[0] for _ in range(100)] + [g for _, g, _ in r.sample(pairs.synsets(), 100)]
    for text in texts:
        out = subprocess.run([args.tokenize, "-m", args.gguf, "--ids", "--log-disable", "-p", text], capture_output=True, text=True)
        same += json.loads(out.stdout.strip().splitlines()[-1]) == vocabulary.encode(text, 256)
    return "%d of %d" % (same, len(texts))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--url", required=True)
    ap.add_argument("--model", default="starter-embed")
    ap.add_argument("--baseline-model", help="another model of the same server")
    ap.add_argument("--md")
    for name in ("words", "tokenize", "gguf"):
        ap.add_argument("--" + name)
    args = ap.parse_args()
    models = [args.model] + ([args.baseline_model] if args.baseline_model else [])
    lines = ["| first of all (mean of 1 / place) | texts | bag of words | " + " | ".join(models) + " |", "|---|---|---|" + "---|" * len(models)]
    for name, task in tasks().items():
        queries, documents = [q for q, _ in task], [d for _, d in task]
        right = range(len(task))
        bag = bags(queries + documents)
        results = [places(bag[:len(task)], bag[len(task):], right, sparse)]
        for args.model in models:
            rows = embed(args, queries + documents)
            results.append(places(rows[:len(task)], rows[len(task):], right, dense))
        shown = ["%d %% (%.2f)" % (round(100 * sum(p == 1 for p in ps) / len(ps)), sum(1 / p for p in ps) / len(ps)) for ps in results]
        lines.append("| %s | %d | %s |" % (name, len(task), " | ".join(shown)))
        print(lines[-1], flush=True)
    if args.tokenize:
        lines += ["", "Texts that llama.cpp cuts into the same tokens as the training: %s." % parity(args)]
    print("\n".join(lines))
    if args.md:
        open(args.md, "w").write("# Evaluation of starter-embed\n\nMeasured with `evaluate.py` through `/v1/embeddings`.\n\n" + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
