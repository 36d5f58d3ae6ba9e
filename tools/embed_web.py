#!/usr/bin/env python3
"""Writes the dashboard's files as a C++ source (src/server/web_files.h says what is in it).

  embed_web.py FOLDER OUTPUT
"""
import gzip
import hashlib
import pathlib
import sys

TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
LINE = 80  # Bytes of a file to a line of source.


def literal(data):
    """The bytes as string literals: octal escapes never swallow what follows them."""
    plain = set(range(0x20, 0x7F)) - set(b'"\\?')
    lines = []
    for at in range(0, len(data), LINE):
        lines.append('"' + "".join(chr(b) if b in plain else f"\\{b:03o}" for b in data[at:at + LINE]) + '"')
    return "\n    ".join(lines) or '""'


def view(data):
    return f"std::string_view({literal(data)}, {len(data)})" if data else "std::string_view()"


def main():
    folder, output = map(pathlib.Path, sys.argv[1:])
    files = sorted((f.relative_to(folder).as_posix(), f) for f in folder.rglob("*") if f.suffix in TYPES)
    out = ['#include "server/web_files.h"\n', "#include <array>\n", "namespace lares::server {", "namespace {\n",
           f"constexpr std::array<WebFile, {len(files)}> kFiles{{{{"]
    for path, file in files:
        data = file.read_bytes()
        packed = gzip.compress(data, 9, mtime=0)
        etag = hashlib.sha256(data).hexdigest()[:16]
        out.append(f'    {{"{path}", "{TYPES[file.suffix]}", "\\"{etag}\\"",\n    {view(data)},\n    '
                   f"{view(packed if len(packed) < len(data) else b'')}}},")
    out += ["}};\n", "}  // namespace\n", "std::span<const WebFile> web_files() {", "  return kFiles;", "}\n",
            "}  // namespace lares::server\n"]
    output.write_text("\n".join(out))


if __name__ == "__main__":
    main()
