#!/usr/bin/env python3
"""Writes src/core/unicode_tables.cc and src/core/unicode_nfc_tables.cc from Python's unicodedata.

Run again for a newer Unicode:  tools/make_unicode_tables.py
"""
import pathlib
import sys
import unicodedata

CODES = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
SRC = pathlib.Path(__file__).resolve().parent.parent / "src" / "core"


def ranges(belongs):
    out = []
    for c in CODES:
        if not belongs(c):
            continue
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def lower_ranges():
    """first, last, stride, difference: runs of letters whose lower case is equally far away."""
    out = []
    for c in CODES:
        low = chr(c).lower()
        if len(low) != 1 or ord(low) == c:
            continue
        delta = ord(low) - c
        last = out[-1] if out else None
        if last and last[3] == delta and (c - last[1] == last[2] or (last[0] == last[1] and c - last[1] <= 2)):
            last[2] = c - last[1]
            last[1] = c
        else:
            out.append([c, c, 1, delta])
    return out


def combining():
    out = []
    for c in CODES:
        k = unicodedata.combining(chr(c))
        if not k:
            continue
        if out and out[-1][1] == c - 1 and out[-1][2] == k:
            out[-1][1] = c
        else:
            out.append([c, c, k])
    return out


def decompositions():
    """code, first, second (0 if none), composes (0 or 1)."""
    out = []
    for c in CODES:
        d = unicodedata.decomposition(chr(c))
        if not d or d.startswith("<"):
            continue
        parts = [int(x, 16) for x in d.split()]
        composes = len(parts) == 2 and unicodedata.normalize("NFC", "".join(map(chr, parts))) == chr(c)
        out.append([c, parts[0], parts[1] if len(parts) > 1 else 0, int(composes)])
    return out


def table(name, rows, kind):
    lines, line = [], "   "
    for row in rows:
        text = " {" + ",".join(map(str, row)) + "},"
        if len(line) + len(text) > 100:
            lines.append(line)
            line = "   "
        line += text
    lines.append(line)
    body = "\n".join(lines).replace("    {", "    {")
    return (f"const {kind} {name}_rows[] = {{\n{body}\n}};\n"
            f"const std::span<const {kind}> {name}({name}_rows);\n")


def write(name, tables):
    text = (f"// Made by tools/make_unicode_tables.py from Unicode {unicodedata.unidata_version}.\n"
            "// clang-format off\n"
            '#include "core/unicode_tables.h"\n\nnamespace lares::unicode {\n\n'
            + "\n".join(tables) + "\n}  // namespace lares::unicode\n")
    (SRC / name).write_text(text)
    print(f"{name}: {text.count(chr(10))} lines")


def main():
    category = lambda c: unicodedata.category(chr(c))[0]
    write("unicode_tables.cc", [table("letters", ranges(lambda c: category(c) == "L"), "Range"),
                                table("numbers", ranges(lambda c: category(c) == "N"), "Range"),
                                table("lower_cases", lower_ranges(), "LowerCase"),
                                table("combining_classes", combining(), "CombiningClass")])
    write("unicode_nfc_tables.cc", [table("decompositions", decompositions(), "Decomposition")])
    return 0


if __name__ == "__main__":
    sys.exit(main())
