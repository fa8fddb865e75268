"""Corpus, tokenizer, encoded documents and packed training rows.

The corpus folder (--corpus) holds stories/*.txt.xz, general/*.txt.xz and tasks/ (gen_tasks.py, facts.json,
story_qa_train.jsonl.xz, test.jsonl); its SOURCES.md describes the formats. Everything here is
deterministic given the corpus and the seed.
"""
import hashlib
import json
import lzma
import os
import subprocess
import sys
import unicodedata
from concurrent.futures import ProcessPoolExecutor

import numpy as np

BOS, EOS, PAD = 0, 1, 2
BOS_TEXT, EOS_TEXT = "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"
SYSTEM, USER, ASSISTANT = "<｜System｜>", "<｜User｜>", "<｜Assistant｜>"
THINK, THINK_END = "<think>", "</think>"
# Text, special flag, normalized flag; at the end of the vocabulary, in this order.
ROLE_TOKENS = [
    (SYSTEM, False, True), (USER, False, True), (ASSISTANT, False, True),
    (THINK, False, True), (THINK_END, False, True), ("｜DSML｜", False, True),
    ("<｜latest_reminder｜>", False, True), ("<｜action｜>", False, True), ("<｜query｜>", False, True),
    ("<｜authority｜>", False, True), ("<｜domain｜>", False, True), ("<｜title｜>", False, True),
    ("<｜read_url｜>", False, True), ("<｜deepseek_image｜>", False, False),
]
SPLITS = [
    r"\p{N}{1,3}",
    r"[一-龥぀-ゟ゠-ヿ]+",
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
    "| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
]

# Kinds of documents, and the share of training tokens each gets.
KINDS = ["picture", "simple", "fairy", "novel", "adventure", "general", "chat", "retrieve", "qa"]
# "even" (the shipped model) reads each text collection about equally often; "first"
# repeats the small collections 25 to 45 times and so learns them by heart.
MIXES = {
    "even": {"picture": .01, "simple": .045, "fairy": .10, "novel": .18, "adventure": .09, "general": .03,
             "chat": .36, "retrieve": .14, "qa": .045},
    "first": {"picture": .05, "simple": .12, "fairy": .14, "novel": .10, "adventure": .05, "general": .05,
              "chat": .32, "retrieve": .12, "qa": .05},
}
STORY_KIND = {"00": "picture", "10": "simple", "11": "simple", "20": "fairy", "30": "novel", "40": "adventure"}

# Tasks whose training examples count several times: those of the asked kinds that are learnt last.
REPEATED = {"sub": 3}

# Loss classes of tokens: none, prompt of a task, plain text, text of a long passage, answer.
W_NONE, W_PROMPT, W_TEXT, W_PASSAGE, W_ANSWER = range(5)
WEIGHTS = [0.0, 0.1, 1.0, 0.3, 4.0]
POSITIONS = 8192


def held_out(first_paragraph):
    """The corpus' own held-out rule for documents (about 4 %)."""
    key = "doc:" + first_paragraph[:200]
    return int(hashlib.sha1(key.encode()).hexdigest()[:8], 16) % 25 == 0


def read_documents(path):
    with lzma.open(path, "rt", encoding="ascii") as f:
        text = f.read()
    return [d.strip("\n") for d in text.split("%%\n") if d.strip("\n")]


def first_paragraph(doc):
    parts = doc.split("\n\n")
    if parts[0].startswith("# ") and len(parts) > 1:
        return parts[1]
    return parts[0]


def text_documents(corpus):
    """(kind, held out, text) of every story and general document."""
    out = []
    for folder in ("stories", "general"):
        root = os.path.join(corpus, folder)
        for name in sorted(os.listdir(root)):
            if not name.endswith(".txt.xz"):
                continue
            kind = STORY_KIND[name[:2]] if folder == "stories" else "general"
            for doc in read_documents(os.path.join(root, name)):
                out.append((kind, held_out(first_paragraph(doc)), doc))
    return out


# ---------------------------------------------------------------------------- tokenizer

def byte_alphabet():
    """GPT-2's byte to character table."""
    keep = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    table, extra = {}, 0
    for b in range(256):
        table[b] = chr(b) if b in keep else chr(256 + extra)
        extra += b not in keep
    return table


def train_tokenizer(corpus, vocab_size, path, max_bytes=24 << 20):
    """Byte-level BPE over a sample of the corpus; digits get no merges, so numbers are digit by digit."""
    import re
    import random
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

    docs = [d for kind, out, d in text_documents(corpus) if not out]
    random.Random(1).shuffle(docs)
    sample, n = [], 0
    for d in docs:
        if n >= max_bytes:
            break
        sample.append(re.sub(r"[0-9]", "", d))
        n += len(d)
    tasks = generate_tasks(corpus, 12000, 77, 150)
    sample += [re.sub(r"[0-9]", "", m["content"]) for t in tasks for m in t["messages"]]
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(p), "isolated") for p in SPLITS]
        + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    n_bpe = vocab_size - 3 - len(ROLE_TOKENS)
    trainer = trainers.BpeTrainer(vocab_size=n_bpe, show_progress=False, max_token_length=20,
                                  initial_alphabet=list(byte_alphabet().values()))
    tok.train_from_iterator(sample, trainer)
    model = json.loads(tok.to_str())["model"]
    write_tokenizer(path, model["vocab"], model["merges"])


def write_tokenizer(path, bpe_vocab, merges):
    """tokenizer.json in the release's shape: BOS EOS pad first, the role tokens last."""
    order = sorted(bpe_vocab, key=bpe_vocab.get)
    specials = [BOS_TEXT, EOS_TEXT, "<｜▁pad▁｜>"]
    names = specials + order
    vocab = {t: i for i, t in enumerate(names)}
    added = [dict(id=i, content=t, special=True, normalized=False) for i, t in enumerate(specials)]
    for i, (text, special, normalized) in enumerate(ROLE_TOKENS):
        added.append(dict(id=len(names) + i, content=text, special=special, normalized=normalized))
    added = [dict(id=a["id"], content=a["content"], single_word=False, lstrip=False, rstrip=False,
                  normalized=a["normalized"], special=a["special"]) for a in added]
    pre = [dict(type="Split", pattern=dict(Regex=p), behavior="Isolated", invert=False) for p in SPLITS]
    pre.append(dict(type="ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=False))
    out = dict(
        version="1.0", truncation=None, padding=None, added_tokens=added, normalizer=None,
        pre_tokenizer=dict(type="Sequence", pretokenizers=pre), post_processor=None,
        decoder=dict(type="ByteLevel", add_prefix_space=True, trim_offsets=True, use_regex=True),
        model=dict(type="BPE", dropout=None, unk_token=None, continuing_subword_prefix=None,
                   end_of_word_suffix=None, fuse_unk=False, byte_fallback=False, ignore_merges=False,
                   vocab=vocab, merges=[list(m) if not isinstance(m, str) else m.split(" ") for m in merges]))
    with open(path, "w", encoding="utf-8") as f:
        json.dump(out, f, ensure_ascii=False, indent=0)
        f.write("\n")


class Tokenizer:
    def __init__(self, path):
        from tokenizers import Tokenizer as HF
        self.hf = HF.from_file(path)
        with open(path, encoding="utf-8") as f:
            self.json = json.load(f)
        self.added = {a["content"]: a["id"] for a in self.json["added_tokens"]}
        self.names = {i: t for t, i in self.json["model"]["vocab"].items()}
        self.names.update({i: t for t, i in self.added.items()})
        self.vocab_size = max(self.names) + 1

    def encode(self, text):
        return self.hf.encode(text, add_special_tokens=False).ids

    def encode_batch(self, texts):
        return [e.ids for e in self.hf.encode_batch(texts, add_special_tokens=False)]

    def decode(self, ids):
        return self.hf.decode(list(ids), skip_special_tokens=False)

    def token_bytes(self, i):
        back = {c: b for b, c in byte_alphabet().items()}
        if self.names[i] in self.added:
            return self.names[i].encode()
        return bytes(back[c] for c in self.names[i])

    def token_map(self):
        """Engram's numbers of ids whose texts agree but for case, accents, width and white space."""
        keys, out = {}, []
        for i in range(self.vocab_size):
            raw = self.token_bytes(i)
            text = raw.decode("utf-8", errors="replace")
            key = self.names[i] if "\ufffd" in text else fold_text(text)
            out.append(keys.setdefault(key, len(keys)))
        return np.array(out, np.int64), len(keys)


def fold_text(text):
    import re
    s = unicodedata.normalize("NFD", unicodedata.normalize("NFKC", text))
    s = "".join(c for c in s if not unicodedata.category(c).startswith("M")).lower()
    s = re.sub(r"[ \t\r\n]+", " ", s)
    if s == " ":
        return s
    return s.strip() or text


# ---------------------------------------------------------------------------- chat format

def chat_pieces(messages, think=None):
    """[(text, is answer)] of a conversation in the release's prompt format (chat mode; with `think`, a
    reasoning text, thinking mode for the last answer)."""
    out = [(BOS_TEXT, False)]
    if think is not None:
        out.append((SYSTEM + "Reasoning Effort: 75 (range 1-100, the higher the value, the more thorough the "
                    "reasoning)\n\n", False))
    for i, m in enumerate(messages):
        last = i == len(messages) - 1
        if m["role"] == "system":
            out.append((("" if think is not None else SYSTEM) + m["content"], False))
        elif m["role"] == "user":
            out.append((USER + m["content"] + ASSISTANT + THINK_END
                        if not (think is not None and i == len(messages) - 2)
                        else USER + m["content"] + ASSISTANT + THINK, False))
        else:
            text = m["content"] + EOS_TEXT
            out.append((think + THINK_END + text if think is not None and last else text, True))
    return out


def generate_tasks(corpus, n, seed, max_words):
    """Training examples of the corpus' task generator."""
    root = os.path.join(corpus, "tasks")
    run = subprocess.run([sys.executable, os.path.join(root, "gen_tasks.py"), "train", "--n", str(n), "--seed",
                          str(seed), "--max-words", str(max_words), "--stories", os.path.join(corpus, "stories")],
                         capture_output=True, check=True)
    return [json.loads(line) for line in run.stdout.decode().splitlines()]


def story_questions(corpus):
    with lzma.open(os.path.join(corpus, "tasks", "story_qa_train.jsonl.xz"), "rt") as f:
        return [json.loads(line) for line in f]


# ---------------------------------------------------------------------------- encoded documents

class Documents:
    """tokens uint16, loss classes uint8, bounds int64 and kind of each document, prompt end of each (or -1)."""

    def __init__(self, tokens, classes, bounds, kinds, prompts):
        self.tokens, self.classes, self.bounds, self.kinds, self.prompts = tokens, classes, bounds, kinds, prompts
        self.by_kind = [np.flatnonzero(kinds == k) for k in range(len(KINDS))]

    @staticmethod
    def join(parts):
        tokens = np.concatenate([p[0] for p in parts])
        classes = np.concatenate([p[1] for p in parts])
        lengths = np.concatenate([p[2] for p in parts])
        bounds = np.concatenate([[0], np.cumsum(lengths)])
        return Documents(tokens, classes, bounds, np.concatenate([p[3] for p in parts]),
                         np.concatenate([p[4] for p in parts]))


def encode_text(args):
    tok_path, kind, texts = args
    tok = Tokenizer(tok_path)
    ids = tok.encode_batch(texts)
    ids = [[BOS] + i + [EOS] for i in ids]
    flat = np.array([t for i in ids for t in i], np.uint16)
    return (flat, np.full(len(flat), W_TEXT, np.uint8), np.array([len(i) for i in ids], np.int64),
            np.full(len(ids), KINDS.index(kind), np.uint8), np.full(len(ids), -1, np.int32))


def encode_chats(args):
    tok_path, examples, seed = args
    tok = Tokenizer(tok_path)
    rng = np.random.default_rng(seed)
    pieces, counts, kinds = [], [], []
    for e in (e for one in examples for e in [one] * REPEATED.get(one.get("task"), 1)):
        retrieve, qa = e.get("task") == "retrieve", "task" not in e or e["task"] == "story_qa"
        kind = "qa" if qa else "retrieve" if retrieve else "chat"
        think = "I will answer the question." if kind == "chat" and rng.random() < .03 else None
        p = chat_pieces(e["messages"], think)
        pieces += p
        counts.append(len(p))
        kinds.append(KINDS.index(kind))
    ids = tok.encode_batch([t for t, _ in pieces])
    tokens, classes, lengths, prompts, at = [], [], [], [], 0
    for n, kind in zip(counts, kinds):
        doc, cls, prompt = [], [], 0
        for (text, answer), i in zip(pieces[at:at + n], ids[at:at + n]):
            if answer:
                prompt = len(doc)
            asked = W_PASSAGE if KINDS[kind] in ("retrieve", "qa") else W_PROMPT
            # A long answer is a story, not the result of a task.
            told = W_TEXT if len(i) > 60 else W_ANSWER
            doc += i
            cls += [told if answer else asked] * len(i)
        at += n
        tokens += doc
        classes += cls
        lengths.append(len(doc))
        prompts.append(prompt)
    return (np.array(tokens, np.uint16), np.array(classes, np.uint8), np.array(lengths, np.int64),
            np.array(kinds, np.uint8), np.array(prompts, np.int32))


def generate_and_encode(args):
    tok_path, corpus, n, seed, max_words = args
    return encode_chats((tok_path, generate_tasks(corpus, n, seed, max_words), seed))


def prepare(corpus, tok_path, n_tasks, workers, seed=1, limit=None, max_words=1100):
    """All training documents. `limit` caps the number of story documents (toy setting)."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    docs = [(k, d) for k, out, d in text_documents(corpus) if not out]
    if limit:
        docs = docs[::max(1, len(docs) // limit)]
    jobs, chunk = [], {}
    for kind, d in docs:
        chunk.setdefault(kind, []).append(d)
    step = max(8, min(100, len(docs) // (2 * workers)))
    for kind, texts in chunk.items():
        size = step * 10 if kind == "general" else step
        jobs += [(encode_text, (tok_path, kind, texts[i:i + size])) for i in range(0, len(texts), size)]
    qa = story_questions(corpus)
    if limit:
        qa = qa[:limit]
    jobs += [(encode_chats, (tok_path, qa[i:i + 400], 5000 + i)) for i in range(0, len(qa), 400)]
    per = max(1, min(n_tasks, 12500))
    jobs += [(generate_and_encode, (tok_path, corpus, per, seed * 1000 + i, max_words))
             for i in range((n_tasks + per - 1) // per)]
    jobs.sort(key=lambda j: j[0] is not generate_and_encode)
    with ProcessPoolExecutor(workers) as pool:
        parts = [f.result() for f in [pool.submit(fn, a) for fn, a in jobs]]
    return Documents.join(parts)


def held_out_documents(corpus, tok_path, limit=400):
    """Held-out stories and general text, every k-th document, for the validation loss."""
    docs, parts = [(k, d) for k, out, d in text_documents(corpus) if out], []
    docs = docs[::max(1, len(docs) // limit)]
    for kind in sorted({k for k, _ in docs}):
        parts.append(encode_text((tok_path, kind, [d for k, d in docs if k == kind])))
    return Documents.join(parts)


# ---------------------------------------------------------------------------- packed rows

class Packer:
    """Rows of `length` tokens: documents one after the other, each at an even offset, none sees another.

    A row holds: tokens; classes (loss class of the token as a target); pos (position in the document, with
    one even jump in some long documents, so that positions up to 8k are met); first (1 at a document's
    start); seg (start of the truncated decoder windows: prompt end - window, 0 for none)."""

    def __init__(self, docs, length, window, seed, mix="even"):
        self.docs, self.length, self.window, self.seed = docs, length, window, seed
        mean = [max(1.0, np.minimum(np.diff(docs.bounds)[ids], length).mean()) if len(ids) else 1.0
                for ids in docs.by_kind]
        p = np.array([MIXES[mix][k] / m if len(ids) else 0 for k, m, ids in zip(KINDS, mean, docs.by_kind)])
        # Long texts come in pieces of a row: they are drawn by tokens, short ones by documents.
        self.p = p / p.sum()
        self.size = [np.diff(docs.bounds)[ids] for ids in docs.by_kind]
        self.cum = [np.cumsum(s) if len(s) else None for s in self.size]

    def piece(self, rng, room):
        docs, kind = self.docs, rng.choice(len(KINDS), p=self.p)
        ids = docs.by_kind[kind]
        if KINDS[kind] in ("chat", "retrieve", "qa"):
            d = ids[rng.integers(len(ids))]
            a, b = docs.bounds[d], docs.bounds[d + 1]
            return a, b, docs.prompts[d], kind
        i = np.searchsorted(self.cum[kind], rng.integers(self.cum[kind][-1]), side="right")
        a, b = docs.bounds[ids[i]], docs.bounds[ids[i] + 1]
        if b - a > self.length:                     # any piece of a long text, its start included
            n = (b - a + self.length - 1) // self.length
            k = rng.integers(n)
            a, b = a + k * self.length, min(b, a + (k + 1) * self.length)
        return a, b, -1, kind

    def row(self, rng):
        n, docs = self.length, self.docs
        tokens = np.full(n, PAD, np.uint16)
        classes = np.zeros(n, np.uint8)
        pos, seg = np.zeros(n, np.int16), np.zeros(n, np.int16)
        first = np.zeros(n, np.uint8)
        at, misses = 0, 0
        while at < n - 8 and misses < 6:
            a, b, prompt, kind = self.piece(rng, n - at)
            if b - a > n - at:
                if prompt >= 0:                     # a question is never cut off from its answer
                    misses += 1
                    continue
                b = a + (n - at)
            size = b - a
            tokens[at:at + size] = docs.tokens[a:b]
            classes[at:at + size] = docs.classes[a:b]
            classes[at] = W_NONE
            p = np.arange(size, dtype=np.int16)
            if size > 300 and rng.random() < .4:
                cut = 2 * int(rng.integers(32, size // 2))
                p[cut:] += 2 * int(rng.integers(0, (POSITIONS - size) // 2))
            pos[at:at + size] = p
            first[at] = 1
            end = prompt if prompt >= 0 else int(rng.integers(0, size + size // 2))
            if self.window < end < size:
                seg[at:at + size] = p[end - self.window]
            at += size + (size & 1)
            if at < n:
                first[at:] = 0
        if at < n:                                  # the rest is a document of padding
            first[at] = 1
            pos[at:] = np.arange(n - at, dtype=np.int16)
        return tokens, classes, pos, first, seg

    def shard(self, index, rows):
        rng = np.random.default_rng([self.seed, index])
        out = [self.row(rng) for _ in range(rows)]
        return [np.stack(c) for c in zip(*out)]


_packer = None


def _shard(args):
    return _packer.shard(*args)


class Loader:
    """Shards of packed rows made ahead by worker processes, in order; start it before CUDA is."""

    def __init__(self, packer, rows, workers, start=0, ahead=6):
        global _packer
        _packer = packer
        self.rows, self.next, self.pending, self.ahead = rows, start, [], ahead
        self.pool = ProcessPoolExecutor(workers) if workers else None
        self.fill()

    def fill(self):
        while self.pool and len(self.pending) < self.ahead:
            self.pending.append(self.pool.submit(_shard, (self.next, self.rows)))
            self.next += 1

    def shard(self):
        if not self.pool:
            self.next += 1
            return _packer.shard(self.next - 1, self.rows)
        out = self.pending.pop(0).result()
        self.fill()
        return out

    def close(self):
        if self.pool:
            self.pool.shutdown(wait=False, cancel_futures=True)
