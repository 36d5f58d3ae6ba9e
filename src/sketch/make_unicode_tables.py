#!/usr/bin/env python3
"""Writes unicode_tables.cc: which code points names are made of. The data is that of the Python that runs this; 3.11 has Unicode 14.

  ./make_unicode_tables.py > unicode_tables.cc
"""
import sys
import unicodedata

EVERY = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]


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
    print("}  // namespace lares::sketch")


if __name__ == "__main__":
    sys.exit(main())
