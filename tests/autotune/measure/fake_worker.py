"""A worker that misbehaves as each request says, for the tests of who reads it."""

from __future__ import annotations

import json
import os
import sys
import time


def serve(send, cores):
    return lambda request: answer(send, json.loads(request))


def answer(send, request: dict) -> bytes:
    what = request["do"]
    if what == "wait":
        send(b'{"note": "waiting", "of": 0}')
        time.sleep(request["seconds"])
        send(b'{"note": "running", "of": 0}')
        return b'{"outcomes": []}'
    if what == "hang":
        send(b'{"note": "running", "of": 3}')
        time.sleep(600)
    elif what == "nonsense":
        return request["text"].encode()
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
        os.closerange(3, 100)
        time.sleep(600)
    return json.dumps(request).encode()
