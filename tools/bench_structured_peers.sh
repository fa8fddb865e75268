#!/usr/bin/env bash
# bench_structured_peers [OPTION...]: xgrammar and llguidance beside deepinfer, on the same grammars,
# texts and tokenizer, one after the other on one thread.
#
# Installs the two with pip into a virtual environment of its own (build-peers/, several GB with what
# xgrammar needs; network needed the first time), then runs tools/structured_peers/compare.py. Nothing
# else needs the two, nor Python. docs/benchmarks.md says how to read the tables.
#
#   --tokenizer FILE  a tokenizer.json of byte-level BPE; default: the small model's
#   --eos ID          the id that ends a text; default 1
#   --rows FILE       lines as deepinfer check --jsonl reads, with "accept" and perhaps "tier"; default:
#                     tests/cases/structured
#   --rounds N        of each call the shortest time of N counts; default 3
#   --timeout S       a grammar may take S seconds; default 60
#   --limit N         every Nth grammar only
#   --wrong           also list each wrong verdict
. "$(dirname "$0")/check_lib.sh"

venv=build-peers/venv
need_program python3
[[ -x build/deepinfer ]] || make -s >/dev/null || cannot_run "make fails"
if [[ ! -x $venv/bin/python ]] || ! "$venv/bin/python" -c 'import llguidance, xgrammar' 2>/dev/null; then
    python3 -m venv "$venv" || cannot_run "python3 -m venv fails"
    "$venv/bin/pip" install --quiet xgrammar llguidance numpy || cannot_run "pip install xgrammar llguidance fails"
fi
exec env OMP_NUM_THREADS=1 RAYON_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false \
    "$venv/bin/python" tools/structured_peers/compare.py --deepinfer build/deepinfer "$@"
