"""One engine in a process of its own: reads {"engine", "tokenizer", "eos", "grammars", "first"} as JSON from a file,
answers a line a grammar on stdout. Whoever started it ends it where a grammar takes too long."""
import json
import sys
import time

import numpy

clock = time.perf_counter_ns
cpu_clock = time.process_time_ns
LONG_NS = 50_000


def own_ns(wall, cpu):
    """What a call took: of a long one, without what other processes did meanwhile. CPU time would be most of a short
    one."""
    return wall if wall < LONG_NS else min(wall, cpu)


def byte_of_char():
    """The characters that byte-level BPE writes bytes as."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    chars = {chr(b): b for b in plain}
    chars.update({chr(256 + i): b for i, b in enumerate(b for b in range(256) if b not in plain)})
    return chars


def vocabulary(path):
    """Bytes by id; b"" for ids that no text may have."""
    with open(path, encoding="utf-8") as f:
        file = json.load(f)
    chars = byte_of_char()
    vocab = file["model"]["vocab"]
    added = {t["id"] for t in file["added_tokens"]}
    tokens = [b""] * (1 + max([*vocab.values(), *added]))
    for text, i in vocab.items():
        if i not in added and all(c in chars for c in text):
            tokens[i] = bytes(chars[c] for c in text)
    return tokens


class XGrammar:
    def __init__(self, job):
        import xgrammar

        self.x = xgrammar
        tokens = vocabulary(job["tokenizer"])
        began = cpu_clock()
        info = xgrammar.TokenizerInfo(
            tokens, xgrammar.VocabType.RAW, vocab_size=len(tokens), stop_token_ids=[job["eos"]]
        )
        self.setup_ns = cpu_clock() - began
        self.compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
        self.mask = xgrammar.allocate_token_bitmask(1, len(tokens))
        self.bits = self.mask.numpy()[0]

    def compile(self, g):
        if g["kind"] == "schema":
            compiled = self.compiler.compile_json_schema(g["source"], any_whitespace=True, strict_mode=False)
        elif g["kind"] == "regex":
            compiled = self.compiler.compile_regex(g["source"])
        else:
            compiled = self.compiler.compile_grammar(g["source"], root_rule_name=g["root"] or "root")
        return compiled, self.x.GrammarMatcher(compiled)

    def begin(self, compiled):
        compiled[1].reset()
        return compiled[1]

    def fill(self, matcher):
        matcher.fill_next_token_bitmask(self.mask, 0)

    def accept(self, matcher, token):
        return matcher.accept_token(token)

    def may_end(self, matcher):
        return matcher.is_completed()

    def nothing(self, matcher):
        return matcher.is_terminated()


class LLGuidance:
    def __init__(self, job):
        import llguidance

        self.l = llguidance
        n = len(vocabulary(job["tokenizer"]))
        began = cpu_clock()
        self.tokenizer = llguidance.LLTokenizer(job["tokenizer"], n_vocab=n, eos_token=job["eos"])
        self.setup_ns = cpu_clock() - began
        self.bits = numpy.zeros((n + 31) // 32, dtype=numpy.int32)
        self.place = (self.bits.ctypes.data, self.bits.nbytes)

    def compile(self, g):
        make = self.l.LLMatcher
        if g["kind"] == "schema":
            text = make.grammar_from_json_schema(g["source"])
        elif g["kind"] == "regex":
            text = make.grammar_from_regex(g["source"])
        else:
            from llguidance.gbnf_to_lark import gbnf_to_lark

            if (g["root"] or "root") != "root":
                raise ValueError("the start rule must be root")
            text = make.grammar_from_lark(gbnf_to_lark(g["source"]))
        matcher = make(self.tokenizer, text, log_level=0)
        if matcher.is_error():
            raise ValueError(matcher.get_error())
        return matcher

    def begin(self, matcher):
        return matcher.deep_copy()  # one that refused a token stays an error

    def fill(self, matcher):
        matcher.unsafe_compute_mask_ptr(*self.place)

    def accept(self, matcher, token):
        return matcher.consume_token(token)

    def may_end(self, matcher):
        return matcher.is_accepting() or (matcher.is_stopped() and not matcher.is_error())

    def nothing(self, matcher):
        return matcher.is_stopped()


def read_text(engine, compiled, ids, masks, tokens):
    """Token by token: each must be in the mask before it."""
    matcher = engine.begin(compiled)
    bits = engine.bits
    for token in ids:
        cpu_began = cpu_clock()
        began = clock()
        engine.fill(matcher)
        filled = clock()
        cpu_filled = cpu_clock()
        allowed = bool(int(bits[token >> 5]) >> (token & 31) & 1)
        cpu_middle = cpu_clock()
        middle = clock()
        accepted = engine.accept(matcher, token)
        read = clock()
        tokens.append(own_ns(read - middle, cpu_clock() - cpu_middle))
        masks.append(own_ns(filled - began, cpu_filled - cpu_began))
        if not allowed or not accepted:
            return False, allowed != accepted
    return bool(engine.may_end(matcher)), False


def run(engine, g):
    cpu_began, began = cpu_clock(), clock()
    try:
        compiled = engine.compile(g)
    except Exception as error:  # noqa: BLE001: engines raise what they like; a refusal is an answer
        return {"refused": str(error).strip().split("\n")[0][:200]}
    compile_ns = own_ns(clock() - began, cpu_clock() - cpu_began)
    masks, tokens, verdicts = [], [], []
    for _, ids in g["ids"]:
        accepted, differ = read_text(engine, compiled, ids, masks, tokens)
        verdicts.append(accepted)
        if differ:
            sys.stderr.write("mask and reading differ\n")
    return {"compile": compile_ns, "mask": masks, "token": tokens, "verdicts": verdicts}


def call_ns(engine):
    """What a call through Python costs."""
    compiled = engine.compile({"kind": "regex", "source": "a", "root": None})
    matcher = engine.begin(compiled)
    times = []
    for _ in range(2001):
        began = clock()
        engine.nothing(matcher)
        times.append(clock() - began)
    return sorted(times)[1000]


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        job = json.load(f)
    engine = {"xgrammar": XGrammar, "llguidance": LLGuidance}[job["engine"]](job)
    print(json.dumps({"setup": engine.setup_ns, "call": call_ns(engine)}), flush=True)
    for i, g in enumerate(job["grammars"]):
        if i >= int(sys.argv[2]):
            print(json.dumps({"i": i, **run(engine, g)}), flush=True)


main()
