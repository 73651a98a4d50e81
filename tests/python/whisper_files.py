"""Whisper files made and read by Python's whisper: commands on stdin and answers on stdout, one JSON object per line.

Commands (`cmd`): `make` makes files of all methods, factors and retentions, with gaps, wrapped rings and points
written late; `write` makes one file and updates it; `fetch` answers for each file and each archive what
whisper-fetch.py shows, with the bits of the values as hexadecimal numbers; `hash` answers the path of a tagged series
as carbon names it.
"""
import json
import os
import random
import struct
import sys

import whisper

METHODS = ["average", "sum", "last", "max", "min", "avg_zero", "absmax", "absmin"]
FACTORS = [0.0, 0.1, 0.3, 0.5, 0.9, 1.0]
RETENTIONS = [
    [(10, 360), (60, 240), (600, 200)],
    [(60, 1440), (900, 2880)],
    [(1, 300), (60, 120)],
    [(60, 500)],
    [(10, 60), (30, 100), (300, 100), (3600, 100)],
]


def value(chance):
    kind = chance.randrange(6)
    if kind == 0:
        return float(chance.randrange(-1000, 1000))
    if kind == 1:
        return chance.randrange(-10**6, 10**6) / 1000.0
    if kind == 2:
        return chance.gauss(0, 1e6)
    if kind == 3:
        return chance.choice([0.0, -0.0, 5e-324, -1e-310, 1e300, 0.1, 1 / 3])
    return chance.random()


def make(path, chance, now):
    """Makes a file and updates it in steps, so that its rings wrap."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    kind = int(os.path.basename(os.path.dirname(path))[1:])
    archives = list(RETENTIONS[kind])
    whisper.create(path, archives, chance.choice(FACTORS), chance.choice(METHODS))
    step, slots = archives[0]
    if chance.random() < 0.02:
        return
    density = chance.choice([1.0, 1.0, 0.9, 0.5, 0.1])
    time = now - int(step * slots * chance.choice([0.5, 1.5, 3.2]))
    end = now if chance.random() < 0.8 else now - chance.randrange(step * slots)
    while time < end:
        length = chance.randrange(1, 60) * step
        until = min(time + length, end)
        if chance.random() < 0.8:
            points = [(t, value(chance)) for t in range(time, until, step) if chance.random() < density]
            if points:
                # The newest first, as carbon does.
                whisper.update_many(path, points[::-1], until)
        time = until
    longest = max(s * p for s, p in archives)
    for _ in range(chance.randrange(4)):
        old = now - chance.randrange(longest)
        whisper.update(path, value(chance), old, now)


def fetch(path, now):
    archives = whisper.info(path)["archives"]
    answers = []
    for archive in archives:
        (start, end, step), values = whisper.fetch(path, now - archive["retention"], now, now)
        bits = [None if v is None else struct.pack(">d", v).hex() for v in values]
        answers.append([start, step, bits])
    return answers


def answer(question):
    command = question["cmd"]
    if command == "make":
        for i in question["files"]:
            chance = random.Random("%s %s" % (question["seed"], i))
            kind = chance.randrange(len(RETENTIONS))
            make(os.path.join(question["root"], "gen", "k%d" % kind, "f%d.wsp" % i), chance, question["now"])
        return {"retentions": RETENTIONS}
    if command == "write":
        path = question["path"]
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if not os.path.exists(path):
            archives = [tuple(a) for a in question["archives"]]
            whisper.create(path, archives, question["factor"], question["method"])
        points = [(t, v) for t, v in question["points"]]
        if points:
            whisper.update_many(path, points[::-1], question["now"])
        return {}
    if command == "fetch":
        return {"files": [fetch(path, question["now"]) for path in question["paths"]]}
    if command == "hash":
        import hashlib
        digest = hashlib.sha256(question["name"].encode("utf8")).hexdigest()
        return {"path": "_tagged/%s/%s/%s.wsp" % (digest[:3], digest[3:6], digest)}
    raise ValueError(command)


answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
for line in sys.stdin:
    try:
        result = answer(json.loads(line))
    except Exception as error:
        result = {"error": "%s: %s" % (type(error).__name__, error)}
    answers.write(json.dumps(result) + "\n")
    answers.flush()
