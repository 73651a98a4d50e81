#!/usr/bin/env python3
"""Records what carbon 1.1.10 makes of the *.conf files here, and Python's re of many patterns.

    python3 -m venv v && v/bin/pip install carbon==1.1.10 whisper==1.1.10
    v/bin/python record.py

writes recorded.tsv (file, name, answer; "-" for a skipped section, "!" for a refusal) and
patterns.tsv (pattern, refused or one digit for each name).
"""
import glob
import os
import random
import re
import sys

from carbon import log, state
from carbon.conf import settings

HERE = os.path.dirname(os.path.abspath(__file__))
settings.update(CONF_DIR=HERE, LOCAL_DATA_DIR=HERE, WHISPER_AUTOFLUSH=False, WHISPER_SPARSE_CREATE=False,
                WHISPER_FALLOCATE_CREATE=False, WHISPER_LOCK_WRITES=False, WHISPER_FADVISE_RANDOM=False,
                TAG_HASH_FILENAMES=True, ENABLE_TAGS=False, GRAPHITE_URL="", TAG_UPDATE_INTERVAL=1)
from carbon import storage  # noqa: E402  (reads CONF_DIR on import)
from carbon.database import WhisperDatabase  # noqa: E402

state.database = WhisperDatabase(settings)
log.err = log.msg = lambda *a, **k: None
NAMES = open(os.path.join(HERE, "names.txt"), encoding="utf-8").read().split("\n")[:-1]


def load(path):
    if path.endswith(".schemas.conf"):
        storage.STORAGE_SCHEMAS_CONFIG = path
        return storage.loadStorageSchemas()
    storage.STORAGE_AGGREGATION_CONFIG = path
    return storage.loadAggregationSchemas()


def answer(archives):
    if isinstance(archives, tuple):
        factor, method = archives
        return "%s %s" % (method or "average", 0.5 if factor is None else factor)
    return ",".join("%d:%d" % a.getTuple() for a in sorted(archives, key=lambda a: a.secondsPerPoint))


def record(path, out):
    name = os.path.basename(path)
    try:
        schemas = load(path)
    except (Exception, SystemExit) as error:
        out.write("%s\t!\t%s\n" % (name, type(error).__name__))
        return
    config = storage.OrderedConfigParser()
    config.read(path)
    used = [s.name for s in schemas]
    for section in config._sections:
        if section not in used:
            out.write("%s\t-\t%s\n" % (name, section))
    for metric in NAMES:
        found = next(s for s in schemas if s.matches(metric))
        out.write("%s\t%s\t%s\n" % (name, metric, answer(found.archives)))


PIECES = ["a", "b", "x", r"\.", ".", "count", "max", "^", "$", r"\w", r"\d", r"\W", r"\b", r"\Z", r"\A", "|", "*", "+", "?",
          "*?", "{2}", "{,2}", "{1,}", "{x}", "{", "}", "[a-c]", "[^.]", "[[]", "[]x]", "[a&&b]", "[+--]", "[~~]", "[\\w-]",
          "(", ")", "(?:", "(?!", "(?=", "(?<=a", "(?<!b", r"\1", "(?P<n>", "(?P=n)", "(?i)", "(?i:", "(?#c)", r"\<", r"\>",
          r"\%", r"\-", r"\_", ";", "=", "servers", "web", r"\x61", r"\056", "ß", r"\ß", "]", "&", "-", "stats", "cpu"]


def patterns(out):
    rng = random.Random(7)
    seen = set()
    while len(seen) < 4000:
        pattern = "".join(rng.choice(PIECES) for _ in range(rng.randint(1, 6)))
        if pattern in seen:
            continue
        seen.add(pattern)
        try:
            found = re.compile(pattern)
            text = "".join("1" if found.search(name) else "0" for name in NAMES)
        except Exception:
            if rng.random() > 0.1:
                continue
            text = "refused"
        out.write("%s\t%s\n" % (pattern, text))


def main():
    with open(os.path.join(HERE, "recorded.tsv"), "w", encoding="utf-8") as out:
        for path in sorted(glob.glob(os.path.join(HERE, "*.conf"))):
            record(path, out)
    with open(os.path.join(HERE, "patterns.tsv"), "w", encoding="utf-8") as out:
        patterns(out)


if __name__ == "__main__":
    sys.exit(main())
