#!/usr/bin/env python3
"""Writes unicode_tables.cc: which code points names are made of, and what tells whether a name is in
normalisation form C. The data is that of the Python that runs this; 3.11 has Unicode 14.

  ./make_unicode_tables.py > unicode_tables.cc
"""
import sys
import unicodedata

EVERY = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
HANGUL = range(0xAC00, 0xD7A4)


def ranges(wanted):
    found = []
    for c in EVERY:
        value = wanted(c)
        if not value:
            continue
        if found and found[-1][1] == c - 1 and found[-1][2] == value:
            found[-1][1] = c
        else:
            found.append([c, c, value])
    return found


def starts(c):
    return chr(c).isidentifier() and c != ord("_")


def continues(c):
    return ("a" + chr(c)).isidentifier() and not chr(c).isidentifier()


def compositions():
    """Pairs that normalisation form C replaces by one code point; Hangul is computed instead."""
    pairs = []
    for c in EVERY:
        parts = unicodedata.decomposition(chr(c)).split()
        if c in HANGUL or len(parts) != 2 or parts[0].startswith("<"):
            continue
        first, second = (int(p, 16) for p in parts)
        if unicodedata.normalize("NFC", chr(first) + chr(second)) == chr(c):
            pairs.append((first, second))
    return sorted(pairs)


def never(c):
    """Replaced wherever it stands, so never in normalisation form C."""
    return unicodedata.normalize("NFC", chr(c)) != chr(c)


def table(kind, name, rows, form):
    print(f"const {kind} {name}[] = {{")
    line = "   "
    for row in rows:
        text = " {" + ",".join(f.format(v) for f, v in zip(form, row)) + "},"
        if len(line) + len(text) > 100:
            print(line)
            line = "   "
        line += text
    print(line)
    print("};")
    print(f"const std::size_t {name}Count = {len(rows)};\n")


def main():
    print('#include "sketch/unicode_tables.h"\n')
    print(f"// Unicode {unicodedata.unidata_version}, written by make_unicode_tables.py.")
    print("// clang-format off")
    print("namespace lares::sketch {\n")
    two = ("{:#x}", "{:#x}")
    table("CodeRange", "kNameStart", ranges(starts), two)
    table("CodeRange", "kNameContinue", ranges(continues), two)
    table("CodeRange", "kNeverComposed", ranges(never), two)
    table("CodeRange", "kComposition", compositions(), two)
    table("ClassRange", "kCombiningClass", ranges(lambda c: unicodedata.combining(chr(c))),
          ("{:#x}", "{:#x}", "{}"))
    print("}  // namespace lares::sketch")


if __name__ == "__main__":
    sys.exit(main())
