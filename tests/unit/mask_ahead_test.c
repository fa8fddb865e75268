/* Masks found on another thread: the same as those found at once, for many sequences of one
 * acceptor and for two devices that share it; what cannot be found concerns its sequence alone. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "grammar/compile.h"
#include "sample/mask_ahead.h"

enum { N_LETTERS = 26, N_IDS = N_LETTERS * (N_LETTERS + 1) + 1, EOS = N_IDS - 1 };
enum { N_SEQS = 12, N_STEPS = 30, N_DEVICES = 2, N_NEXT = 3 };

static char text[N_IDS][2];
static di_vocab *vocab;
static const int32_t eos_id = EOS;

/* a .. z, aa .. zz, and an end that is no text. */
static int make_vocab(void **state)
{
    (void)state;
    di_vocab_token tokens[N_IDS] = {0};
    for (uint32_t i = 0; i < EOS; i++) {
        const uint32_t pair = i - N_LETTERS;
        text[i][0] = (char)('a' + (i < N_LETTERS ? i : pair / N_LETTERS));
        text[i][1] = (char)('a' + (i < N_LETTERS ? 0 : pair % N_LETTERS));
        tokens[i] = (di_vocab_token){text[i], i < N_LETTERS ? 1 : 2};
    }
    return di_vocab_create(tokens, N_IDS, &vocab) == DI_OK ? 0 : -1;
}

static int free_vocab(void **state)
{
    (void)state;
    di_vocab_unref(vocab);
    return 0;
}

static di_acceptor *compile(di_schema_type type, const char *schema)
{
    di_so_args args = DI_SO_ARGS_INIT;
    args.schema_type = type;
    args.schema = schema;
    di_grammar *grammar;
    di_acceptor *acceptor;
    assert_int_equal(di_grammar_compile(&args, NULL, &grammar), DI_OK);
    assert_int_equal(di_acceptor_create(grammar, vocab, &acceptor), DI_OK);
    di_grammar_unref(grammar);
    return acceptor;
}

static void begin(di_acceptor *acceptor, di_constraint *constraint)
{
    const di_constraint_setup setup = {
        .acceptor = acceptor, .begins_after = -1, .eos_ids = &eos_id, .n_eos_ids = 1};
    assert_int_equal(di_constraint_init(constraint, &setup), DI_OK);
}

/* A device with sequences that it samples; each has a twin whose masks nobody prepares. */
typedef struct device {
    di_acceptor *acceptor;
    uint32_t random;
    uint64_t hash; /* of all masks */
    int n_different;
} device;

/* The scores of a sequence's next token, and one of those that can follow. */
static int32_t apply(const di_constraint *c, uint32_t random, float *scores, bool *must_end)
{
    memset(scores, 0, N_IDS * sizeof *scores);
    if (di_constraint_apply(c, scores, N_IDS, must_end) != DI_OK)
        return -1;
    for (int32_t i = 0; i < N_IDS; i++) {
        const int32_t id = (int32_t)((random + (uint32_t)i) % N_IDS);
        if (scores[id] == 0.0f && id != EOS)
            return id;
    }
    return EOS;
}

static void sample(device *d, di_constraint *seq, di_constraint *twin)
{
    float scores[N_IDS], wanted[N_IDS];
    bool must_end, must_end_wanted;
    d->random = d->random * 1664525u + 1013904223u;
    const int32_t id = apply(seq, d->random >> 8, scores, &must_end);
    const int32_t id_wanted = apply(twin, d->random >> 8, wanted, &must_end_wanted);
    d->n_different += id < 0 || id != id_wanted || must_end != must_end_wanted ||
                      memcmp(scores, wanted, sizeof scores) != 0;
    d->n_different += di_constraint_append(seq, id) != DI_OK;
    d->n_different += di_constraint_append(twin, id) != DI_OK;
    for (int32_t i = 0; i < N_IDS; i++)
        d->hash = (d->hash ^ (scores[i] == 0.0f)) * 0x100000001B3u;
}

static void *run_device(void *arg)
{
    device *d = arg;
    di_constraint seqs[N_SEQS], twins[N_SEQS];
    int32_t next[N_SEQS][N_NEXT]; /* guesses, right and wrong ones */
    di_mask_ahead *ahead;
    if (di_mask_ahead_create(&ahead) != DI_OK)
        return NULL;
    for (int i = 0; i < N_SEQS; i++) {
        begin(d->acceptor, &seqs[i]);
        begin(d->acceptor, &twins[i]);
    }
    for (int step = 0; step < N_STEPS; step++) {
        for (int i = step % 3; i < N_SEQS; i++) {
            for (int k = 0; k < N_NEXT; k++)
                next[i][k] = k == 2 && step % 5 == 0 ? EOS : (step * 7 + i * 3 + k) % N_LETTERS;
            di_mask_ahead_add(ahead, &seqs[i], next[i], (step + i) % (N_NEXT + 1));
        }
        di_mask_ahead_start(ahead);
        if (step % 2 == 0) { /* the thread is far ahead, or has not begun */
            const struct timespec pause = {.tv_nsec = 200000};
            nanosleep(&pause, NULL);
        }
        di_mask_ahead_join(ahead);
        for (int i = step % 3; i < N_SEQS; i++)
            sample(d, &seqs[i], &twins[i]);
    }
    for (int i = 0; i < N_SEQS; i++) {
        di_constraint_free(&seqs[i]);
        di_constraint_free(&twins[i]);
    }
    di_mask_ahead_destroy(ahead);
    return d;
}

static void the_same_masks(void **state)
{
    (void)state;
    device devices[N_DEVICES];
    pthread_t threads[N_DEVICES];
    di_acceptor *acceptor = compile(DI_SCHEMA_EBNF, "root ::= word+\n"
                                                    "word ::= [a-m]{1,5} [n-z]{2,3} | \"x\" root");
    for (int i = 0; i < N_DEVICES; i++) {
        devices[i] = (device){.acceptor = acceptor, .random = 7};
        assert_int_equal(pthread_create(&threads[i], NULL, run_device, &devices[i]), 0);
    }
    for (int i = 0; i < N_DEVICES; i++) {
        void *result;
        pthread_join(threads[i], &result);
        assert_ptr_equal(result, &devices[i]);
        assert_int_equal(devices[i].n_different, 0);
        assert_true(devices[i].hash == devices[0].hash);
    }
    di_acceptor_unref(acceptor);
}

/* Free text, and text before a constraint begins, have no mask. */
static void nothing_to_find(void **state)
{
    (void)state;
    di_mask_ahead *ahead;
    di_acceptor *acceptor = compile(DI_SCHEMA_REGEX, "ab*");
    di_constraint free_text, later;
    begin(NULL, &free_text);
    begin(acceptor, &later);
    later.begins_after = 3;
    assert_int_equal(di_mask_ahead_create(&ahead), DI_OK);
    di_mask_ahead_add(ahead, &free_text, NULL, 0);
    di_mask_ahead_add(ahead, &later, NULL, 0);
    di_mask_ahead_start(ahead);
    di_mask_ahead_join(ahead);
    assert_false(later.mask->is_known);
    const int32_t next[] = {3, 0};
    di_mask_ahead_add(ahead, &later, next, 2);
    di_mask_ahead_start(ahead);
    di_mask_ahead_join(ahead);
    assert_int_equal(later.begins_after, 3);
    assert_false(later.mask->is_known);
    assert_int_equal(di_constraint_append(&later, 3), DI_OK);
    di_mask_ahead_add(ahead, &later, NULL, 0);
    di_mask_ahead_start(ahead);
    di_mask_ahead_join(ahead);
    float scores[N_IDS];
    bool must_end;
    assert_int_equal(apply(&later, 0, scores, &must_end), 0);
    di_mask_ahead_destroy(ahead);
    di_constraint_free(&later);
    di_constraint_free(&free_text);
    di_acceptor_unref(acceptor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_same_masks),
                                       cmocka_unit_test(nothing_to_find)};
    return cmocka_run_group_tests(tests, make_vocab, free_vocab);
}
