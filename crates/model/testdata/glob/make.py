#!/usr/bin/env python3
"""Writes fnmatch.txt: what Graphite's own code says about patterns, for tests/glob_table.rs.

    pip download --no-deps --no-binary :all: graphite-web==1.1.10   (and unpack it)
    python3 make.py graphite-web-1.1.10/webapp > fnmatch.txt

Braces are replaced by graphite-web's own `expand_braces`, one component is matched by Python's
fnmatch, as its standard finder does. Lines: pattern, text, 1 or 0, separated by tabs.
"""
import fnmatch
import importlib.util
import random
import sys

SEED = 20261121
# No backslash: Graphite removes it before matching, so there is nothing to compare with.
PIECES = list("aabbcxyz019-_!^*?[]{},~&|.é世") + ["[a-c]", "[!a-c]", "[0-9]", "{a,b}", "{ab,c?}", "**", "[]", "[z-a]"]
LETTERS = list("aabbcxyz019-_!^[]{},~&|é世")


def graphite(webapp):
    spec = importlib.util.spec_from_file_location("finders", webapp + "/graphite/finders/__init__.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.expand_braces


def pattern(rng):
    return "".join(rng.choice(PIECES) for _ in range(rng.randint(1, 9))).replace(".", "")


def near(rng, pattern):
    """A text with a fair chance to match: the pattern with its wildcards played out."""
    text = ""
    for character in pattern:
        if character == "*":
            text += "".join(rng.choice(LETTERS) for _ in range(rng.randint(0, 3)))
        elif character == "?" or rng.random() < 0.05:
            text += rng.choice(LETTERS)
        else:
            text += character
    return text


def texts(rng, pattern, variants):
    for _ in range(3):
        yield near(rng, rng.choice(variants))
    # One member of a class, and a character beside it.
    for start in (variant.find("[") for variant in variants):
        if start >= 0:
            variant = rng.choice(variants)
            end = variant.find("]", start + 2)
            if end > 0:
                yield near(rng, variant[:start] + rng.choice(LETTERS) + variant[end + 1:])
                yield near(rng, variant[:start] + rng.choice(variant[start + 1:end]) + variant[end + 1:])
        break
    yield "".join(rng.choice(LETTERS) for _ in range(rng.randint(1, 4)))


def main():
    expand_braces = graphite(sys.argv[1])
    rng = random.Random(SEED)
    seen = set()
    while len(seen) < 8000:
        wanted = pattern(rng)
        if not wanted or wanted == "**":
            continue
        variants = sorted(expand_braces(wanted))
        for text in texts(rng, wanted, variants):
            # A component is never empty and never has a dot.
            if not text or "." in text or (wanted, text) in seen:
                continue
            seen.add((wanted, text))
            hit = any(fnmatch.fnmatchcase(text, variant) for variant in variants)
            print(wanted, text, int(hit), sep="\t")


main()
