#!/usr/bin/env python3
"""Writes finder.txt: what graphite-web's own finder finds, for tests/finder.rs.

Needs the environment that tests/install.sh makes (graphite-web 1.1.10):

    ~/.cache/plumbago-tests/python/bin/python3 make.py > finder.txt

First the names, one a line; after an empty line the patterns, each with what was found behind a
tab: paths with L for a metric, B for a directory, LB for both.
"""
import os
import random
import tempfile

SEED = 20261121
PARTS = ["a", "b", "ab", "a-b", "a-", "a!", "a0", "c", "abc", "b1", "é", "a^b", "[x", "{y", "c,d"]
GLOBS = [
    "*", "*", "*", "a*", "*b", "?", "??", "[ab]", "[!a]", "[!a]*", "[a-c]", "[^x]", "a[-!]*", "{a,b}", "{a,{b,c}}",
    "{a*,b}", "{ab,a-b,abc}", "a{b,-b,}", "{b}", "*{b,c}", "[z-a]", "*[0-9]", "{y", "[x", "a-*", "{,a}", "{a,b}{,1}",
]


def setup(storage):
    os.makedirs(os.path.join(storage, "log", "webapp"))
    os.environ["GRAPHITE_STORAGE_DIR"] = storage
    os.environ["DJANGO_SETTINGS_MODULE"] = "graphite.settings"
    import django
    from django.conf import settings

    settings.SECRET_KEY = "not secret"
    django.setup()


def make_names(rng):
    names = set()
    while len(names) < 160:
        names.add(".".join(rng.choice(PARTS) for _ in range(rng.randint(1, 4))))
    return sorted(names)


def make_pattern(rng):
    parts = [rng.choice(PARTS + GLOBS * 2) for _ in range(rng.randint(1, 4))]
    # The finder has errors where `**` is the first, stands twice or follows an empty part.
    if rng.random() < 0.3 and "{,a}" not in parts:
        parts.insert(rng.randint(1, len(parts)), "**")
    # An empty part at the end finds paths like `a.` there.
    return ".".join(parts if parts[-1] != "{,a}" else parts + ["*"])


def main():
    rng = random.Random(SEED)
    with tempfile.TemporaryDirectory() as storage:
        setup(storage)
        root = os.path.join(storage, "names")
        from graphite.finders.standard import StandardFinder
        from graphite.storage import FindQuery

        names = make_names(rng)
        for name in names:
            path = os.path.join(root, *name.split(".")) + ".wsp"
            os.makedirs(os.path.dirname(path), exist_ok=True)
            open(path, "w").close()
        print("\n".join(names) + "\n")
        finder = StandardFinder([root])
        patterns = set()
        while len(patterns) < 2000:
            patterns.add(make_pattern(rng))
        for pattern in sorted(patterns):
            found = {}
            for node in finder.find_nodes(FindQuery(pattern, None, None)):
                found.setdefault(node.path, set()).add("L" if node.is_leaf else "B")
            kinds = {path: "L" * ("L" in kinds) + "B" * ("B" in kinds) for path, kinds in found.items()}
            print(pattern, " ".join(f"{path} {kinds[path]}" for path in sorted(kinds)), sep="\t")


main()
