"""Grammars with texts and verdicts, from tests/cases/structured or from a file of lines as `deepinfer check`
reads them."""
import json
import lzma
import re

FOLDER = "tests/cases/structured/"


def lines(path):
    with lzma.open(path, "rt", encoding="utf-8") as f:
        for line in f:
            yield json.loads(line)


def grammar(kind, source, name, rows, root=None, must_fail=False):
    """rows: [id, text, whether it must be accepted, tier]. name: of the set that it counts in."""
    return {"kind": kind, "source": source, "root": root, "set": name, "rows": rows, "must_fail": must_fail}


def schemas():
    for line in lines(FOLDER + "json_schema.jsonl.xz"):
        rows = [[r["id"], r["text"], r["valid"], r["tier"]] for r in line["rows"]]
        is_real = all(r[0].startswith("mb-") and r[3] == "core" for r in rows)
        name = "schemas of real software, core" if is_real else "other JSON schemas"
        yield grammar("schema", line["schema"], name, rows)


def others(kind, member, name):
    found = {}
    for r in lines(FOLDER + kind + ".jsonl.xz"):
        must_fail = bool(r.get("expect_error"))
        key = (r[member], r.get("root"))
        g = found.setdefault(key, grammar(kind, r[member], name, [], r.get("root"), must_fail))
        if not must_fail:
            g["rows"].append([r["id"], r["text"], r["match"], r.get("tier", "core")])
        elif not g["rows"]:
            g["rows"].append([r["id"], "", False, "core"])
    yield from found.values()


def of_the_tree():
    return [*schemas(), *others("regex", "pattern", "regular expressions"), *others("ebnf", "grammar", "EBNF")]


def own_text(line, value):
    """The schema as the line has it: numbers keep their digits."""
    for m in re.finditer(r'"schema"\s*:\s*', line):
        try:
            found, end = json.JSONDecoder().raw_decode(line, m.end())
        except ValueError:
            continue
        if found == value:
            return line[m.end() : end]
    return json.dumps(value, ensure_ascii=False)


def of_a_file(path):
    """Neighbouring lines with equal constraints are one grammar."""
    found = []
    for number, line in enumerate(open(path, encoding="utf-8"), 1):
        if not line.strip():
            continue
        row = json.loads(line)
        kind = next((k for k in ("schema", "regex", "ebnf") if k in row), None)
        if kind is None or "text" not in row:
            raise SystemExit(f"{path}, line {number}: wanted one of schema, regex, ebnf, and a text")
        source = own_text(line, row["schema"]) if kind == "schema" else row[kind]
        key = (kind, source, row.get("root"))
        if not found or (found[-1]["kind"], found[-1]["source"], found[-1]["root"]) != key:
            found.append(grammar(kind, source, "rows", [], row.get("root")))
        wanted = row.get("accept")
        found[-1]["rows"].append([row.get("id", str(number)), row["text"], wanted, row.get("tier", "core")])
    return found


def as_line(g, row):
    """A line for deepinfer."""
    value = g["source"] if g["kind"] == "schema" else json.dumps(g["source"])
    root = f', "root": {json.dumps(g["root"])}' if g["root"] else ""
    return f'{{"id": {json.dumps(row[0])}, "{g["kind"]}": {value}{root}, "text": {json.dumps(row[1])}}}'
