"""deepinfer, xgrammar and llguidance on the same grammars: see tools/bench_structured_peers.sh."""
import argparse
import collections
import importlib.metadata
import json
import os
import select
import subprocess
import sys
import tempfile

import cases

PEERS = ("xgrammar", "llguidance")
TIERS = ("core", "extended", "beyond")


class Engine:
    """What an engine said: answers by grammar, the shortest time of each call over the rounds."""

    def __init__(self, name, version, n):
        self.name, self.version = name, version
        self.answers = [None] * n
        self.setup = self.call = None

    def merge(self, i, answer):
        old = self.answers[i]
        if old is None or "refused" in answer or "refused" in old:
            self.answers[i] = old if old and "refused" in old else answer
            return
        old["compile"] = min(old["compile"], answer["compile"])
        for key in ("mask", "token"):
            old[key] = [min(a, b) for a, b in zip(old[key], answer[key])]


# ----------------------------------------------------------------------------------------- deepinfer


def deepinfer(args, *words, text=None):
    done = subprocess.run([args.deepinfer, *words], input=text, capture_output=True, text=True, encoding="utf-8")
    return done.stdout, done.stderr, done.returncode


def token_ids(args, grammars):
    lines = [json.dumps({"text": r[1]}) for g in grammars for r in g["rows"]]
    out, _, _ = deepinfer(
        args, "tokenize", "--jsonl", "--no-parse-special", "--tokenizer", args.tokenizer, text="\n".join(lines) + "\n"
    )
    ids = [json.loads(line).get("ids") for line in out.splitlines()]
    if len(ids) != len(lines):
        raise SystemExit("deepinfer tokenize gave other lines than were asked")
    at = iter(ids)
    for g in grammars:
        g["ids"] = [[r[0], next(at)] for r in g["rows"]]


def deepinfer_verdicts(args, grammars, engine):
    lines = [cases.as_line(g, r) for g in grammars for r in g["rows"]]
    out, error, _ = deepinfer(args, "check", "--jsonl", "--tokenizer", args.tokenizer, text="\n".join(lines) + "\n")
    answers = iter([json.loads(line) for line in out.splitlines()])
    for i, g in enumerate(grammars):
        mine = [next(answers) for _ in g["rows"]]
        if any("error" in a for a in mine):
            engine.answers[i] = {"refused": next(a["error"] for a in mine if "error" in a)}
        else:
            engine.answers[i] = {"verdicts": [a["accepted"] for a in mine]}


def deepinfer_times(args, grammars, folder):
    """Tails of one set."""
    path, result = os.path.join(folder, "rows.jsonl"), os.path.join(folder, "times.json")
    with open(path, "w", encoding="utf-8") as f:
        for g in grammars:
            f.writelines(cases.as_line(g, r) + "\n" for r in g["rows"])
    _, error, code = deepinfer(
        args, "bench", "structured", "--jsonl", path, "--tokenizer", args.tokenizer, "--rounds", str(args.rounds),
        "--json", result,
    )
    if code != 0:
        raise SystemExit(f"deepinfer bench structured: {error.strip()}")
    with open(result, encoding="utf-8") as f:
        all_ = json.load(f)
    row = all_["rows"][-1]
    return all_["vocabulary_ns"], {"compile": row["compile_ns"], "mask": row["mask_ns"], "token": row["token_ns"]}


# --------------------------------------------------------------------------------------------- peers


def read_line(process, seconds):
    """A line, "" at the end, None if none came in time. The pipe is not buffered here."""
    line = b""
    while not line.endswith(b"\n"):
        if not select.select([process.stdout], [], [], seconds)[0]:
            return None
        part = process.stdout.readline()
        if not part:
            return ""
        line += part
    return line.decode()


def run_once(args, engine, grammars, path, first):
    """From a grammar to the end, or to the one that did not end well, which is counted as refused."""
    worker = os.path.join(os.path.dirname(__file__), "worker.py")
    process = subprocess.Popen(
        [sys.executable, worker, path, str(first)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0
    )
    next_ = first
    try:
        head = read_line(process, 600)
        if not head:
            raise SystemExit(f"{engine.name}: does not start; run tools/structured_peers/worker.py {path} 0")
        head = json.loads(head)
        engine.setup = min(engine.setup or head["setup"], head["setup"])
        engine.call = min(engine.call or head["call"], head["call"])
        while next_ < len(grammars):
            line = read_line(process, args.timeout)
            if not line:
                why = "no answer in time" if line is None else "the process ended"
                engine.merge(next_, {"refused": why, "broke": True})
                return next_ + 1
            answer = json.loads(line)
            engine.merge(answer["i"], answer)
            next_ = answer["i"] + 1
    finally:
        process.kill()
        process.wait()
    return next_


def run_peer(args, engine, grammars, folder):
    path = os.path.join(folder, engine.name + ".json")
    keys = ("kind", "source", "root", "ids")
    job = {"engine": engine.name, "tokenizer": args.tokenizer, "eos": args.eos}
    with open(path, "w", encoding="utf-8") as f:
        json.dump({**job, "grammars": [{k: g[k] for k in keys} for g in grammars]}, f)
    for i in range(args.rounds):
        at = 0
        while at < len(grammars):
            at = run_once(args, engine, grammars, path, at)
        print(f"{engine.name}: round {i + 1} of {args.rounds}", file=sys.stderr, flush=True)


# ------------------------------------------------------------------------------------------- the table


def tails(values):
    """As deepinfer: the one at X % of n - 1, rounded down."""
    values = sorted(values)
    last = len(values) - 1
    if last < 0:
        return {"n": 0}
    return {"n": last + 1, "p50": values[last * 50 // 100], "p99": values[last * 99 // 100], "worst": values[last]}


def peer_tails(engine, chosen):
    answers = [a for a in (engine.answers[i] for i in chosen) if "refused" not in a]
    return {
        "compile": tails([a["compile"] for a in answers]),
        "mask": tails([t for a in answers for t in a["mask"]]),
        "token": tails([t for a in answers for t in a["token"]]),
    }


def verdicts(engine, grammars, chosen):
    """A refusal is right where no text of the grammar is to be accepted."""
    count = collections.defaultdict(collections.Counter)
    for i in chosen:
        g, answer = grammars[i], engine.answers[i]
        can_be = any(r[2] for r in g["rows"])
        for k, row in enumerate(g["rows"]):
            c = count[row[3]]
            if row[2] is None:
                continue
            c["rows"] += 1
            if "refused" in answer:
                c["broke"] += bool(answer.get("broke"))
                c["right" if not can_be else "refused"] += 1
            elif g["must_fail"]:
                c["wrong accept"] += 1
            elif answer["verdicts"][k] == row[2]:
                c["right"] += 1
            else:
                c["wrong accept" if answer["verdicts"][k] else "wrong reject"] += 1
    return count


def us(ns):
    return "-" if ns is None else f"{ns / 1e3:,.2f}" if ns < 1e5 else f"{ns / 1e3:,.0f}"


def print_times(name, rows):
    print(f"\n{name}\n")
    print("| | grammars | compile p50 | p99 | worst | masks | mask p50 | p99 | worst | token p50 | p99 | worst |")
    print("|---|" + "---:|" * 11)
    for engine, t in rows:
        c, m, k = t["compile"], t["mask"], t["token"]
        cells = [c["n"], *(us(c.get(x)) for x in ("p50", "p99", "worst"))]
        cells += [m["n"], *(us(m.get(x)) for x in ("p50", "p99", "worst"))]
        cells += [us(k.get(x)) for x in ("p50", "p99", "worst")]
        print(f"| {engine} | " + " | ".join(str(c) for c in cells) + " |")


def print_verdicts(name, grammars, chosen, engines):
    print("\n| | tier | rows | right | wrong accept | wrong reject | refused | of these: crashed or too slow |")
    print("|---|---|" + "---:|" * 6)
    for engine in engines:
        count = verdicts(engine, grammars, chosen)
        for tier in (t for t in TIERS if count[t]["rows"]):
            keys = ("rows", "right", "wrong accept", "wrong reject", "refused", "broke")
            print(f"| {engine.name} | {tier} | " + " | ".join(str(count[tier][k]) for k in keys) + " |")


def read_args():
    p = argparse.ArgumentParser(prog="bench_structured_peers.sh", description=__doc__)
    p.add_argument("--deepinfer", required=True, help=argparse.SUPPRESS)
    p.add_argument("--tokenizer", default="models/nano/tokenizer.json", help="tokenizer.json of byte-level BPE")
    p.add_argument("--eos", type=int, default=1, help="id that ends a text; default 1")
    p.add_argument("--rows", help="lines as deepinfer check reads, with accept (and tier); default: the tests' cases")
    p.add_argument("--rounds", type=int, default=3, help="of each call the shortest time counts; default 3")
    p.add_argument("--timeout", type=float, default=60, help="seconds for a grammar; default 60")
    p.add_argument("--limit", type=int, default=0, help="only every Nth grammar")
    p.add_argument("--wrong", action="store_true", help="also list what is wrong")
    return p.parse_args()


def print_wrong(grammars, engines):
    for e in engines:
        for g, a in zip(grammars, e.answers):
            can_be = any(r[2] for r in g["rows"])
            for k, row in enumerate(g["rows"]):
                if "refused" in a and can_be:
                    print(e.name, row[3], row[0], "refused:", a["refused"])
                elif "refused" not in a and row[2] is not None and (g["must_fail"] or a["verdicts"][k] != row[2]):
                    print(e.name, row[3], row[0], "accepted" if a["verdicts"][k] or g["must_fail"] else "rejected")


def main():
    args = read_args()
    grammars = cases.of_a_file(args.rows) if args.rows else cases.of_the_tree()
    grammars = [g for g in grammars if g["rows"]][:: args.limit or 1]
    token_ids(args, grammars)
    n = len(grammars)
    ours = Engine("deepinfer", deepinfer(args, "version")[0].split("\n")[0], n)
    peers = [Engine(name, importlib.metadata.version(name), n) for name in PEERS]
    sets = collections.defaultdict(list)
    for i, g in enumerate(grammars):
        sets[g["set"]].append(i)
    common = {}
    with tempfile.TemporaryDirectory() as folder:
        deepinfer_verdicts(args, grammars, ours)
        for engine in peers:
            run_peer(args, engine, grammars, folder)
        times = {}
        for name, chosen in sets.items():
            common[name] = [i for i in chosen if all("refused" not in e.answers[i] for e in [ours, *peers])]
            setup, times[name] = deepinfer_times(args, [grammars[i] for i in common[name]], folder)
            ours.setup = min(ours.setup or setup, setup)
    print(f"tokenizer {os.path.basename(args.tokenizer)}, {args.rounds} rounds, one thread; times in microseconds\n")
    print("| | version | vocabulary set up, ms | a call through Python, us |\n|---|---|---:|---:|")
    for e in [ours, *peers]:
        print(f"| {e.name} | {e.version} | {e.setup / 1e6:.1f} | {us(e.call)} |")
    for name, chosen in sets.items():
        rows = [(ours.name, times[name])] + [(e.name, peer_tails(e, common[name])) for e in peers]
        print_times(f"{name}: the {len(common[name])} of {len(chosen)} grammars that all three compile", rows)
        print_verdicts(name, grammars, chosen, [ours, *peers])
    if args.wrong:
        print()
        print_wrong(grammars, [ours, *peers])


main()
