"""Pairs of texts that mean the same, for train.py and evaluate.py. Nothing is random but what the seed says.

Household: two wordings of one request with the same slots (also in two languages), a request and its
confirmation, a question reworded, a question and its answer; from ../chat/generate_corpus.py.
WordNet 3.0: a gloss with its words, with its example, and two words of one synset.
"""
import os
import random
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "chat"))
import generate_corpus as g  # noqa: E402

WORDNET = "/usr/share/wordnet"
# Requests whose slots are the same things in every language.
SAME_EVERYWHERE = ["light", "heat", "heatget", "timer", "alarm", "pause", "volume", "blind", "lock", "scene", "vac", "time", "calc"]
LANGS = list(g.LANGS)

_expand = g.E
_wording = random.Random(0)
g.E = lambda r, tpl, /, **kw: _expand(_wording, tpl, **kw)  # Wordings are drawn apart from slots.


def request(kind, lang, seed, wording):
    _wording.seed(wording)
    return g.REQ[kind](random.Random(seed), g.LANGS[lang])


def held_out(number):
    """One question in eight, and one synset in fifty, is kept for evaluate.py."""
    return number % 8 == 5


def household(r):
    """(one text, another, what both mean)"""
    k = r.random()
    if k < 0.25:
        return question(r)
    kind, lang, seed = r.choice(g.KINDS), r.choice(g.LANG_W), r.getrandbits(40)
    one = request(kind, lang, seed, r.getrandbits(40))
    meant = "%s %s" % (kind, sorted((a, str(b)) for a, b in one.v.items()))
    if k < 0.45:
        other = one.ok
    elif k < 0.75 or kind not in SAME_EVERYWHERE:
        other = request(kind, lang, seed, r.getrandbits(40)).text
    else:
        there = request(kind, r.choice([x for x in LANGS if x != lang]), seed, r.getrandbits(40))
        other = there.text if there.v.get("n") == one.v.get("n") else one.ok
    noise = lambda s: g.surface(r, g.LANGS[lang], s) if r.random() < 0.3 else s
    return noise(one.text), other, meant


def question(r, lang=None, number=None):
    lang = lang or r.choice(g.LANG_W)
    P = g.LANGS[lang]
    while number is None or held_out(number):
        number = r.randrange(len(P.qa))
    q, a = P.qa[number]
    _wording.seed(r.getrandbits(40))
    one = g.E(r, q)
    other = g.E(r, a) if r.random() < 0.6 else g.reword(r, P, g.E(r, q))
    return (g.reword(r, P, one) if r.random() < 0.5 else one), other, "qa %s %d" % (lang, number)


def synsets():
    """[(words, gloss, examples)], in the order of the files."""
    out = []
    for part in ("noun", "verb", "adj", "adv"):
        for line in open(os.path.join(WORDNET, "data." + part), encoding="latin-1"):
            if line.startswith("  "):
                continue
            head, _, gloss = line.partition(" | ")
            fields = head.split()
            count = int(fields[3], 16)
            words = [re.sub(r"\(\w+\)$", "", fields[4 + 2 * i]).replace("_", " ") for i in range(count)]
            examples = re.findall(r'"([^"]+)"', gloss)
            plain = re.sub(r'[;,]?\s*"[^"]*"', "", gloss).strip(" ;\n")
            if plain:
                out.append((words, plain, examples))
    return out


def meaning(r, sets):
    while True:
        n = r.randrange(len(sets))
        if n % 50 == 7:
            continue
        words, gloss, examples = sets[n]
        k = r.random()
        if k < 0.2 and examples:
            return gloss, r.choice(examples), "wn %d" % n
        if k < 0.4 and len(words) > 1:
            return (*r.sample(words, 2), "wn %d" % n)
        return gloss, ", ".join(words) if k < 0.7 else r.choice(words), "wn %d" % n
