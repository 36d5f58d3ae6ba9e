#!/usr/bin/env python3
"""Manual pages from what the commands say of themselves: make_man.py BINARY FOLDER

lares.1 and one page a command, gzipped, the same bytes each time.
"""
import gzip
import pathlib
import re
import subprocess
import sys


def said(binary, *words):
    return subprocess.run([binary, *words], capture_output=True, text=True, check=True).stdout


def roff(text):
    """A line as troff takes it as it is."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text.startswith((".", "'")) else text


def page(name, title, about, text, version):
    lines = [f'.TH {name.upper()} 1 "" "lares {version}" "Lares"', ".SH NAME", roff(f"{title} - {about}"),
             ".SH DESCRIPTION", ".nf", *map(roff, text.splitlines()), ".fi"]
    if name != "lares":
        lines += [".SH SEE ALSO", "lares(1)"]
    return "\n".join(lines) + "\n"


def main():
    binary, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    version = said(binary, "version").split()[1]
    everything = said(binary, "help")
    about = everything.splitlines()[0].split(" - ", 1)[1]
    pages = {"lares": page("lares", "lares", about, everything, version)}
    for line in everything.splitlines():
        verb, what = re.match(r"  lares (\w+)|", line).group(1), line[25:]  # In two columns.
        if verb is None:
            continue
        if verb in ("help", "version"):
            continue
        pages[f"lares-{verb}"] = page(f"lares-{verb}", f"lares {verb}", what.split(":")[0],
                                      said(binary, verb, "--help"), version)
    for name, text in pages.items():
        with open(folder / f"{name}.1.gz", "wb") as out, gzip.GzipFile("", "wb", 9, out, 0) as packed:
            packed.write(text.encode())


if __name__ == "__main__":
    main()
