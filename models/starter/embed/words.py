"""WordPiece as llama.cpp's "bert" tokenizer reads it: without accents, in lower case, a mark before each word."""
import collections
import heapq
import unicodedata

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PAD, UNK, CLS, SEP, MASK = range(5)
MARK = "\u2581"


def split(text):
    words, word = [], ""
    for c in unicodedata.normalize("NFD", text):
        kind = unicodedata.category(c)
        if c.isspace() or kind in ("Mn", "Mc", "Me", "Cc") or c == "\ufffd":
            if c.isspace() and word:
                words.append(word)
                word = ""
            continue
        if kind[0] == "P" or (ord(c) < 0x7F and kind[0] == "S"):
            words += [word, c] if word else [c]
            word = ""
        else:
            word += c.lower()
    return words + [word] if word else words


class Words:
    def __init__(self, tokens):
        self.tokens = tokens
        self.ids = {t: i for i, t in enumerate(tokens)}
        self.longest = max(len(t) for t in tokens)
        self.seen = {}

    def word(self, word):
        if word not in self.seen:
            text, out, i = MARK + word, [], 0
            while i < len(text):
                end = next((j for j in range(min(len(text), i + self.longest), i, -1) if text[i:j] in self.ids), None)
                if end is None:
                    out = [UNK]
                    break
                out.append(self.ids[text[i:end]])
                i = end
            self.seen[word] = out
        return self.seen[word]

    def encode(self, text, most=64):
        ids = [i for word in split(text) for i in self.word(word)]
        return [CLS] + ids[:most - 2] + [SEP]


def learn(texts, size):
    """Joins the most frequent neighbours until there are so many tokens."""
    counts = collections.Counter(w for t in texts for w in split(t))
    words = sorted(counts)
    seqs = [list(MARK + w) for w in words]
    for s in seqs:
        s[:2] = [s[0] + s[1]]
    letters = collections.Counter()
    for w, s in zip(words, seqs):
        for c in s:
            letters[c] += counts[w]
    keep = {c for c, n in letters.items() if n >= 20}
    tokens = sorted(keep | {MARK + c for c in keep if not c.startswith(MARK)} | {c[1:] for c in keep if c.startswith(MARK)})
    pairs, where = collections.Counter(), collections.defaultdict(set)
    for i, s in enumerate(seqs):
        for p in zip(s, s[1:]):
            pairs[p] += counts[words[i]]
            where[p].add(i)
    heap = [(-n, p) for p, n in pairs.items()]
    heapq.heapify(heap)
    known = set(tokens)
    while len(tokens) + len(SPECIAL) < size and heap:
        n, p = heapq.heappop(heap)
        if pairs.get(p, 0) != -n or n == 0:
            continue
        if p[0] + p[1] not in known:
            known.add(p[0] + p[1])
            tokens.append(p[0] + p[1])
        touched = set()
        for i in sorted(where[p]):
            s, t, j = seqs[i], [], 0
            for q in zip(s, s[1:]):
                pairs[q] -= counts[words[i]]
                touched.add(q)
            while j < len(s):
                joined = j + 1 < len(s) and (s[j], s[j + 1]) == p
                t.append(s[j] + s[j + 1] if joined else s[j])
                j += 2 if joined else 1
            seqs[i] = t
            for q in zip(t, t[1:]):
                pairs[q] += counts[words[i]]
                where[q].add(i)
                touched.add(q)
        for q in touched:
            if pairs[q] > 0:
                heapq.heappush(heap, (-pairs[q], q))
    return SPECIAL + tokens
