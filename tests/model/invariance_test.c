/* A row's logits depend on its sequence's tokens up to it and on nothing else: not on the chunking,
 * the number of threads, the other sequences of the pass, or what memory held before. All bits. */
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/checked.h"
#include "golden.h"
#include "share.h"
#include "random.h"

static void require(di_status status)
{
    if (status != DI_OK)
        fail_msg("%s", di_last_error());
}

/* ------------------------------------------------------------------- runs */

enum { MAX_ROWS = 1024 };

static di_runner open_runner(const di_golden *golden, int n_threads)
{
    const di_options options = {.n_threads = n_threads, .max_step_tokens = MAX_ROWS};
    di_runner runner;
    require(di_runner_init(golden->model, &options, &runner));
    return runner;
}

static void open_seq(di_runner *runner, const int32_t *tokens, int64_t n, di_runner_seq *seq)
{
    *seq = (di_runner_seq){.compressor_state = NULL};
    require(di_runner_seq_append(runner, seq, tokens, (size_t)n));
}

/* One pass over the sequence's next n tokens; their logits go to out [n, vocab]. */
static void advance(di_runner *runner, di_runner_seq *seq, int64_t n, float *out)
{
    const size_t vocab = (size_t)runner->model->config.vocab_size;
    const di_work work = {.seq = seq, .n_tokens = n, .wants_all_logits = true};
    float *logits;
    require(di_runner_forward(runner, &work, 1, NULL, &logits));
    memcpy(out, logits, (size_t)n * vocab * sizeof *out);
}

/* Logits [n, vocab] of tokens fed `chunk` at a time; 0 = all at once. Free with free(). */
static float *run_chunked(di_runner *runner, const int32_t *tokens, int64_t n, int64_t chunk)
{
    const int64_t vocab = runner->model->config.vocab_size;
    float *out = malloc((size_t)(n * vocab) * sizeof *out);
    assert_non_null(out);
    di_runner_seq seq;
    open_seq(runner, tokens, n, &seq);
    for (int64_t at = 0; at < n;) {
        const int64_t step = di_min_i64(chunk ? chunk : n, n - at);
        advance(runner, &seq, step, out + at * vocab);
        at += step;
    }
    di_runner_seq_free(runner, &seq);
    return out;
}

static void check_same(const float *a, const float *b, int64_t n_rows, int64_t vocab,
                       const char *what)
{
    for (int64_t row = 0; row < n_rows; row++)
        if (memcmp(a + row * vocab, b + row * vocab, (size_t)vocab * sizeof *a) != 0)
            fail_msg("%s: the logits of row %d of %d differ", what, (int)row, (int)n_rows);
    for (int64_t i = 0; i < n_rows * vocab; i++)
        if (!isfinite(a[i]))
            fail_msg("%s: logit %d is not finite", what, (int)i);
}

static const int32_t *case_tokens(const di_golden *golden, int index, int64_t *n)
{
    return di_golden_i32(golden, n, "case%d.tokens", index);
}

/* The text case with the most tokens. */
static int longest_case(const di_golden *golden)
{
    int best = 0;
    int64_t most = 0;
    for (int i = 0; i < di_golden_n_cases(golden); i++) {
        int64_t n;
        case_tokens(golden, i, &n);
        if (!di_golden_has_image(golden, i) && n > most) {
            most = n;
            best = i;
        }
    }
    return best;
}

/* ------------------------------------------------------------------- chunks and threads */

static void check_chunks(di_runner *runner, const char *name, const int32_t *tokens, int64_t n,
                         const int64_t *chunks, int n_chunks)
{
    const int64_t vocab = runner->model->config.vocab_size;
    float *whole = run_chunked(runner, tokens, n, 0);
    for (int i = 0; i < n_chunks; i++) {
        char what[64];
        snprintf(what, sizeof what, "%s, %d tokens, chunks of %d", name, (int)n, (int)chunks[i]);
        float *chunked = run_chunked(runner, tokens, n, chunks[i]);
        check_same(whole, chunked, n, vocab, what);
        free(chunked);
    }
    free(whole);
}

/* Chunks of 1 are decoding one by one. */
static void tiny_chunks(void **state)
{
    (void)state;
    di_golden golden;
    di_golden_open("tiny", &golden);
    di_runner runner = open_runner(&golden, 2);
    const int64_t chunks[] = {1, 2, 3, 7, 16, 64};
    for (int i = 0; i < di_golden_n_cases(&golden); i++) {
        int64_t n;
        const int32_t *tokens = case_tokens(&golden, i, &n);
        check_chunks(&runner, "tiny", tokens, n, chunks, 6);
    }
    di_runner_free(&runner);
    di_golden_close(&golden);
}

/* Beyond the window (128), the index top-k (128 entries: 257 tokens at ratio 2) and the candidate
 * limit (64 blocks of 8: 512 entries). */
static void small_chunks(void **state)
{
    (void)state;
    di_golden golden;
    di_golden_open("small", &golden);
    const di_config *c = &golden.model->config;
    int64_t n;
    const int32_t *tokens = case_tokens(&golden, longest_case(&golden), &n);
    n = di_min_i64(n, 540);
    assert_true(n > c->sliding_window && n / 2 > c->index_topk);
    assert_true(n > c->candidate_topk_blocks * c->candidate_block_size);
    di_runner runner = open_runner(&golden, 2);
    const int64_t chunks[] = {64, 7, 1};
    check_chunks(&runner, "small", tokens, n, chunks, DI_TEST_SHARE > 1 ? 1 : 3);
    di_runner_free(&runner);
    di_golden_close(&golden);
}

/* Random cuts, decode after them. */
static void uneven_chunks(void **state)
{
    (void)state;
    di_golden golden;
    di_golden_open("tiny", &golden);
    di_rng rng = di_rng_named("uneven chunks");
    const int64_t vocab = golden.model->config.vocab_size;
    int64_t n;
    const int32_t *tokens = case_tokens(&golden, longest_case(&golden), &n);
    di_runner runner = open_runner(&golden, 2);
    float *whole = run_chunked(&runner, tokens, n, 0);
    float *out = malloc((size_t)(n * vocab) * sizeof *out);
    assert_non_null(out);
    for (int round = 0; round < 3; round++) {
        di_runner_seq seq;
        open_seq(&runner, tokens, n, &seq);
        for (int64_t at = 0; at < n;) {
            const int64_t step = di_min_i64(di_rng_between(&rng, 1, 50), n - at);
            advance(&runner, &seq, step, out + at * vocab);
            at += step;
        }
        di_runner_seq_free(&runner, &seq);
        check_same(whole, out, n, vocab, "uneven chunks");
    }
    free(out);
    free(whole);
    di_runner_free(&runner);
    di_golden_close(&golden);
}

static void check_threads(const char *name, int64_t most)
{
    di_golden golden;
    di_golden_open(name, &golden);
    const int64_t vocab = golden.model->config.vocab_size;
    int64_t n;
    const int32_t *tokens = case_tokens(&golden, longest_case(&golden), &n);
    n = di_min_i64(n, most);
    const int counts[] = {1, 2, 4};
    float *first = NULL;
    for (int i = 0; i < 3; i++) {
        di_runner runner = open_runner(&golden, counts[i]);
        float *whole = run_chunked(&runner, tokens, n, 0);
        float *chunked = run_chunked(&runner, tokens, n, 13);
        first = first ? first : whole;
        check_same(first, whole, n, vocab, "threads");
        check_same(first, chunked, n, vocab, "threads, chunks of 13");
        free(chunked);
        if (whole != first)
            free(whole);
        di_runner_free(&runner);
    }
    free(first);
    di_golden_close(&golden);
}

static void tiny_threads(void **state)
{
    (void)state;
    check_threads("tiny", 200);
}

static void small_threads(void **state)
{
    (void)state;
    check_threads("small", 150);
}

/* ------------------------------------------------------------------- several sequences */

/* Two sequences in one pass, at all pairs of odd and even places. */
static void sequences_of_one_pass(void **state)
{
    (void)state;
    di_golden golden;
    di_golden_open("tiny", &golden);
    const int64_t vocab = golden.model->config.vocab_size;
    int64_t n_tokens;
    const int32_t *tokens = case_tokens(&golden, longest_case(&golden), &n_tokens);
    const int32_t *tokens_b = tokens + 60;
    enum { LEN_A = 90, LEN_B = 57 };
    assert_true(n_tokens >= 60 + LEN_B);
    /* a sequence's KV pool is planned for the whole context: two short ones share it */
    di_runner runner = open_runner(&golden, 2);
    float *alone_a = run_chunked(&runner, tokens, LEN_A, 0);
    float *alone_b = run_chunked(&runner, tokens_b, LEN_B, 0);
    const int64_t cuts_a[] = {0, 1, 33, 34, 77, LEN_A}, cuts_b[] = {0, 20, 21, 40, 41, LEN_B};
    di_runner_seq a, b;
    open_seq(&runner, tokens, LEN_A, &a);
    open_seq(&runner, tokens_b, LEN_B, &b);
    for (int step = 0; step < 5; step++) {
        const int64_t n_a = cuts_a[step + 1] - cuts_a[step];
        const int64_t n_b = cuts_b[step + 1] - cuts_b[step];
        const di_work work_a = {.seq = &a, .n_tokens = n_a, .wants_all_logits = true};
        const di_work work_b = {.seq = &b, .n_tokens = n_b, .wants_all_logits = true};
        const bool a_first = step % 2 == 0;
        const di_work works[2] = {a_first ? work_a : work_b, a_first ? work_b : work_a};
        float *logits;
        require(di_runner_forward(&runner, works, 2, NULL, &logits));
        const float *rows_a = a_first ? logits : logits + n_b * vocab;
        const float *rows_b = a_first ? logits + n_a * vocab : logits;
        check_same(alone_a + cuts_a[step] * vocab, rows_a, n_a, vocab, "first sequence");
        check_same(alone_b + cuts_b[step] * vocab, rows_b, n_b, vocab, "second sequence");
    }
    di_runner_seq_free(&runner, &a);
    di_runner_seq_free(&runner, &b);
    free(alone_a);
    free(alone_b);
    di_runner_free(&runner);
    di_golden_close(&golden);
}

/* Whole prompts in one prefill, at the lengths where the selection changes: around the index top-k
 * at both ratios and around the candidate limit (cases/bugs/V10). */
static void packed_prompts(void **state)
{
    (void)state;
    di_golden golden;
    di_golden_open("tiny", &golden);
    const di_config *c = &golden.model->config;
    const int64_t vocab = c->vocab_size, k = c->index_topk;
    const int64_t limit = c->candidate_topk_blocks * c->candidate_block_size;
    enum { N = 8 };
    const int64_t lens[N] = {k - 1, k + 1, k, limit, limit + 1, 2 * k - 1, 2 * k, 2 * k + 1};
    int64_t n_tokens;
    const int32_t *tokens = case_tokens(&golden, longest_case(&golden), &n_tokens);
    assert_true(n_tokens >= 7 * N + 2 * k + 1);
    di_runner runner = open_runner(&golden, 2);
    float *alone[N];
    di_runner_seq seqs[N];
    di_work works[N];
    for (int i = 0; i < N; i++)
        alone[i] = run_chunked(&runner, tokens + 7 * i, lens[i], 0);
    for (int i = 0; i < N; i++) {
        open_seq(&runner, tokens + 7 * i, lens[i], &seqs[i]);
        works[i] = (di_work){.seq = &seqs[i], .n_tokens = lens[i], .wants_all_logits = true};
    }
    float *logits;
    require(di_runner_forward(&runner, works, N, NULL, &logits));
    for (int i = 0; i < N; i++) {
        check_same(alone[i], logits, lens[i], vocab, "packed prompt");
        logits += lens[i] * vocab;
        di_runner_seq_free(&runner, &seqs[i]);
        free(alone[i]);
    }
    di_runner_free(&runner);
    di_golden_close(&golden);
}

/* Wanting only the last row's logits gives that row's bits. */
static void wanted_rows(void **state)
{
    (void)state;
    di_golden golden;
    di_golden_open("tiny", &golden);
    const int64_t vocab = golden.model->config.vocab_size;
    int64_t n;
    const int32_t *tokens = case_tokens(&golden, longest_case(&golden), &n);
    n = di_min_i64(n, 50);
    di_runner runner = open_runner(&golden, 2);
    float *all = run_chunked(&runner, tokens, n, 0);
    di_runner_seq seq;
    open_seq(&runner, tokens, n, &seq);
    float *logits;
    const di_work silent = {.seq = &seq, .n_tokens = 20};
    require(di_runner_forward(&runner, &silent, 1, NULL, &logits));
    const di_work last = {.seq = &seq, .n_tokens = n - 20, .wants_last_logits = true};
    require(di_runner_forward(&runner, &last, 1, NULL, &logits));
    check_same(all + (n - 1) * vocab, logits, 1, vocab, "last row alone");
    di_runner_seq_free(&runner, &seq);
    free(all);
    di_runner_free(&runner);
    di_golden_close(&golden);
}

/* ------------------------------------------------------------------- what memory held before */

/* Gives the runner one chunk of step memory that every pass fits into, so that all of what a pass
 * takes can be written before it. */
static void single_chunk(di_runner *runner, size_t peak_bytes)
{
    di_arena_free(&runner->scratch);
    runner->scratch.chunk_bytes = peak_bytes + (1 << 20);
}

static void poison_step_memory(di_runner *runner)
{
    unsigned char *memory;
    const size_t n = runner->scratch.chunk_bytes;
    di_arena_reset(&runner->scratch);
    require(DI_ARENA_NEW(&runner->scratch, n, &memory));
    memset(memory, 0xff, n);
    di_arena_reset(&runner->scratch);
}

/* NaN in every byte of every block: no sequence's leftovers could be worse. */
static void poison_cache(di_runner *runner)
{
    for (int g = 0; g < runner->kv.layout.n_groups; g++)
        memset(runner->kv.data[g], 0xff,
               (size_t)(runner->kv.pools[g].n_blocks * runner->kv.layout.groups[g].block_bytes));
}

static void dirty_memory(void **state)
{
    (void)state;
    di_golden golden;
    di_golden_open("tiny", &golden);
    const int64_t vocab = golden.model->config.vocab_size;
    int64_t n;
    const int32_t *tokens = case_tokens(&golden, longest_case(&golden), &n);
    di_runner runner = open_runner(&golden, 2);
    float *clean = run_chunked(&runner, tokens, n, 0);
    float *out = malloc((size_t)(n * vocab) * sizeof *out);
    assert_non_null(out);
    const int64_t chunks[] = {n, 31, 1};
    single_chunk(&runner, runner.scratch.peak_bytes);
    for (int i = 0; i < 3; i++) {
        poison_cache(&runner);
        di_runner_seq seq;
        open_seq(&runner, tokens, n, &seq);
        for (int64_t at = 0; at < n;) {
            const int64_t step = di_min_i64(chunks[i], n - at);
            if (at % 3 == 0)
                poison_step_memory(&runner);
            advance(&runner, &seq, step, out + at * vocab);
            at += step;
        }
        di_runner_seq_free(&runner, &seq);
        assert_true(runner.scratch.peak_bytes <= runner.scratch.chunk_bytes);
        check_same(clean, out, n, vocab, "poisoned memory");
    }
    free(out);
    free(clean);
    di_runner_free(&runner);
    di_golden_close(&golden);
}

/* A sequence that reuses another one's blocks in another order. */
static void dirty_blocks(void **state)
{
    (void)state;
    di_golden golden;
    di_golden_open("tiny", &golden);
    const int64_t vocab = golden.model->config.vocab_size;
    int64_t n;
    const int32_t *tokens = case_tokens(&golden, longest_case(&golden), &n);
    enum { LEN = 100 };
    di_runner runner = open_runner(&golden, 2);
    float *fresh = run_chunked(&runner, tokens, LEN, 0);
    di_runner_seq a, b;
    float *out = malloc((size_t)(LEN * vocab) * sizeof *out);
    assert_non_null(out);
    open_seq(&runner, tokens + 50, LEN, &a);
    open_seq(&runner, tokens, LEN, &b);
    advance(&runner, &a, 70, out);
    advance(&runner, &b, 10, out);
    advance(&runner, &a, 30, out);
    di_runner_seq_free(&runner, &a);
    advance(&runner, &b, LEN - 10, out + 10 * vocab);
    check_same(fresh + 10 * vocab, out + 10 * vocab, LEN - 10, vocab, "reused blocks");
    di_runner_seq_free(&runner, &b);
    free(fresh);
    free(out);
    di_runner_free(&runner);
    di_golden_close(&golden);
}

int main(int argc, char **argv)
{
    di_rng_start(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiny_chunks),    cmocka_unit_test(small_chunks),
        cmocka_unit_test(uneven_chunks),  cmocka_unit_test(tiny_threads),
        cmocka_unit_test(small_threads),  cmocka_unit_test(sequences_of_one_pass),
        cmocka_unit_test(packed_prompts), cmocka_unit_test(wanted_rows),
        cmocka_unit_test(dirty_memory),   cmocka_unit_test(dirty_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
