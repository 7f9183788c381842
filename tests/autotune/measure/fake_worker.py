"""A worker that misbehaves as each request says, for the tests of who reads it."""

from __future__ import annotations

import json
import os
import sys
import time


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        what = request["do"]
        if what == "answer":
            say(request)
        elif what == "wait":
            say({"note": "waiting", "of": 0})
            time.sleep(request["seconds"])
            say({"note": "running", "of": 0})
            say({"outcomes": []})
        elif what == "hang":
            say({"note": "running", "of": 3})
            time.sleep(600)
        elif what == "nonsense":
            os.write(1, request["text"].encode())
        elif what == "eat":
            eaten = []
            while True:
                eaten.append(bytearray(b"x" * (16 << 20)))
                time.sleep(0.01)
        elif what == "end":
            print("a last word", file=sys.stderr, flush=True)
            os._exit(3)
        elif what == "kill":
            os.kill(os.getpid(), 9)
        elif what == "silence":
            os.close(1)
            time.sleep(600)


def say(message: dict) -> None:
    os.write(1, json.dumps(message).encode() + b"\n")


if __name__ == "__main__":
    main()
