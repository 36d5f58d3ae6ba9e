#!/usr/bin/env python3
"""A conversation as it is written, with Python's standard library: chat.py [QUESTION ...]

LARES_URL and LARES_KEY say where and who. Shows how to read a stream and how to wait when asked to.
"""
import json
import os
import sys
import time
import urllib.error
import urllib.request

URL = os.environ.get("LARES_URL", "http://127.0.0.1:8080")
HEADERS = {"Content-Type": "application/json"}
if "LARES_KEY" in os.environ:
    HEADERS["Authorization"] = f"Bearer {os.environ['LARES_KEY']}"


def post(body):
    request = urllib.request.Request(URL + "/v1/chat/completions", json.dumps(body).encode(), HEADERS)
    while True:
        try:
            return urllib.request.urlopen(request)
        except urllib.error.HTTPError as error:
            wait = error.headers.get("Retry-After")
            if error.code not in (429, 503) or wait is None:
                sys.exit(json.load(error)["error"]["message"])
            time.sleep(int(wait))


def stream(messages):
    """Pieces of the answer, as they come."""
    with post({"messages": messages, "max_tokens": 200, "stream": True}) as answer:
        for line in answer:
            if not line.startswith(b"data: {"):
                continue
            event = json.loads(line[6:])
            if "error" in event:
                sys.exit(event["error"]["message"])
            for choice in event["choices"]:
                yield choice["delta"].get("content") or ""


messages = []
for question in sys.argv[1:] or ["How many grams are in 3 kilograms?", "And in 2?"]:
    messages.append({"role": "user", "content": question})
    print(f"> {question}")
    text = ""
    for piece in stream(messages):
        print(piece, end="", flush=True)
        text += piece
    print()
    messages.append({"role": "assistant", "content": text})
