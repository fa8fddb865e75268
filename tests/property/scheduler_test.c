/* Scheduler, KV blocks and prefix cache under random operations. Beside them a naive model keeps
 * for every entry of every block the token history it was written for; passes run late, in order,
 * and whatever a sequence sees must be of its own history. */
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/checked.h"
#include "engine_check.h"
#include "random.h"

enum { MOST_SEQS = 4096, MOST_SAMPLES = 3, N_STREAMS = 4, N_IN_FLIGHT = 2 };

typedef struct node node;
/* A sequence and its true tokens: also those the host does not know yet. */
struct node {
    di_sched_seq sched; /* first */
    int32_t *tokens;    /* [max_len] */
    uint64_t *history;  /* [max_len]: of the tokens up to and with each */
    int sample;
    bool is_ended;
    node *forks[MOST_SAMPLES];                  /* to come */
    int64_t added_at, first_token_at, ended_at; /* steps; -1 = not yet */
};

typedef struct part {
    node *seq;
    int64_t first, n;
    bool samples;
    int32_t *tables[DI_MAX_KV_GROUPS];
    int64_t *slots[DI_MAX_KV_GROUPS];
    int64_t window_floor;
} part;

typedef struct pass {
    part *parts;
    int32_t n_parts;
    di_kv_copy *copies;
    size_t n_copies;
    node *forks[MOST_SEQS];
    int32_t n_forks;
} pass;

typedef struct world {
    di_rng rng;
    di_kv_cache kv;
    di_prefix_cache prefix;
    di_scheduler scheduler;
    di_sched_item *items;
    uint64_t *content[DI_MAX_KV_GROUPS]; /* [blocks, block_len] */
    pass *in_flight[N_IN_FLIGHT];
    int n_in_flight;
    node *seqs[MOST_SEQS]; /* not ended, or in flight */
    size_t n_seqs;
    uint64_t last_order;
    int64_t step;
    int stop_one_in; /* a token ends its sequence; 0 = never */
    uint64_t n_ended;
} world;

static world w;

/* ------------------------------------------------------------------------------- life */

static const di_config *config_of(int64_t window)
{
    static di_config c;
    memset(&c, 0, sizeof c);
    c.n_layers = 6;
    c.head_dim = 64;
    c.index_head_dim = 32;
    c.sliding_window = window;
    const int ratios[] = {0, 0, 2, 2, 1, 2};
    memcpy(c.compress_ratios, ratios, sizeof ratios);
    c.is_kv_source[2] = c.is_kv_source[4] = c.is_kv_source[5] = true;
    return &c;
}

typedef struct shape {
    int64_t window, window_blocks, blocks;
    di_prefix_mode mode;
    di_sched_limits limits;
} shape;

static void open_world(const shape *s, const char *name)
{
    memset(&w, 0, sizeof w);
    w.rng = di_rng_named(name);
    const int64_t n_blocks[DI_MAX_KV_GROUPS] = {s->window_blocks, s->blocks, s->blocks};
    di_require(di_kv_cache_init_dry(config_of(s->window), false, n_blocks, &w.kv));
    di_require(di_prefix_cache_init(&w.kv, s->mode, 4, &w.prefix));
    di_require(di_scheduler_init(&w.scheduler, &w.kv, &w.prefix, &s->limits));
    w.items = calloc((size_t)s->limits.max_step_tokens, sizeof *w.items);
    for (int g = 0; g < w.kv.layout.n_groups; g++)
        w.content[g] =
            calloc((size_t)(n_blocks[g] * w.kv.layout.groups[g].block_len), sizeof *w.content[g]);
}

static void check_world(void)
{
    assert_true(di_scheduler_is_sound(&w.scheduler));
    static const di_kv_seq *seqs[MOST_SEQS];
    size_t n = 0;
    for (size_t i = 0; i < w.n_seqs; i++)
        if (w.seqs[i]->sched.has_kv)
            seqs[n++] = &w.seqs[i]->sched.kv;
    di_check_pools(&w.kv, &w.prefix, seqs, n);
}

static void close_world(void)
{
    check_world();
    assert_int_equal(w.n_seqs, 0);
    for (int g = 0; g < w.kv.layout.n_groups; g++) {
        assert_int_equal(di_block_pool_available(&w.kv.pools[g]), w.kv.pools[g].n_blocks);
        free(w.content[g]);
    }
    free(w.items);
    di_scheduler_free(&w.scheduler);
    di_prefix_cache_free(&w.prefix);
    di_kv_cache_free(&w.kv);
}

static void set_token(node *s, int64_t position, int32_t token)
{
    s->tokens[position] = token;
    s->history[position] =
        di_null_history(position ? s->history[position - 1] : DI_NULL_HISTORY, token);
}

static node *new_node(int64_t n_prompt, int64_t max_len, int priority, int sample)
{
    node *s = calloc(1, sizeof *s);
    assert_non_null(s);
    s->tokens = calloc((size_t)max_len, sizeof *s->tokens);
    s->history = calloc((size_t)max_len, sizeof *s->history);
    s->sample = sample;
    s->added_at = w.step;
    s->first_token_at = s->ended_at = -1;
    s->sched = (di_sched_seq){
        .priority = priority,
        .tokens = s->tokens,
        .n_known = n_prompt,
        .n_tokens = n_prompt,
        .n_prompt = n_prompt,
        .max_len = max_len,
        .n_samples = 1,
    };
    return s;
}

static void free_node(node *s)
{
    free(s->tokens);
    free(s->history);
    free(s);
}

/* The first n_shared tokens are a stream's; the rest is random. */
static node *add_seq(int64_t n_prompt, int64_t n_shared, int64_t n_new, int n_samples)
{
    const int priority = (int)di_rng_below(&w.rng, 2);
    const uint64_t stream = (uint64_t)di_rng_below(&w.rng, N_STREAMS);
    node *s = new_node(n_prompt, n_prompt + n_new, priority, 0);
    for (int64_t i = 0; i < n_prompt; i++)
        set_token(s, i,
                  i < n_shared ? (int32_t)((stream * 31 + (uint64_t)i * 17) % 97)
                               : (int32_t)di_rng_below(&w.rng, 1000));
    s->sched.n_samples = n_samples;
    s->sched.order = ++w.last_order;
    for (int i = 1; i < n_samples; i++)
        s->forks[i] = new_node(n_prompt, n_prompt + n_new, priority, i);
    assert_true(w.n_seqs < MOST_SEQS);
    w.seqs[w.n_seqs++] = s;
    di_scheduler_add(&w.scheduler, &s->sched);
    return s;
}

static void end_seq(node *s)
{
    di_scheduler_remove(&w.scheduler, &s->sched);
    assert_false(s->sched.has_kv);
    s->is_ended = true;
    s->ended_at = w.step;
    w.n_ended++;
    for (int i = 1; i < MOST_SAMPLES; i++) {
        if (s->forks[i])
            free_node(s->forks[i]);
        s->forks[i] = NULL;
    }
}

/* Sequences that ended and are in no pass. Those in `kept` belong to the test. */
static void sweep(const node *kept)
{
    size_t n = 0;
    for (size_t i = 0; i < w.n_seqs; i++) {
        node *s = w.seqs[i];
        if (!s->is_ended || s->sched.n_in_flight > 0)
            w.seqs[n++] = s;
        else if (s != kept)
            free_node(s);
    }
    w.n_seqs = n;
}

/* ------------------------------------------------------------------------------- scheduling */

static void *copy_of(const void *from, size_t bytes)
{
    void *to = malloc(bytes ? bytes : 1);
    assert_non_null(to);
    if (bytes)
        memcpy(to, from, bytes);
    return to;
}

static void make_part(const di_sched_item *item, part *out)
{
    const di_kv_seq *kv = &item->seq->kv;
    *out = (part){(node *)item->seq, item->first, item->n, item->samples, {NULL}, {NULL},
                  kv->window_floor};
    assert_int_equal(kv->len, item->first + item->n);
    for (int g = 0; g < w.kv.layout.n_groups; g++) {
        out->tables[g] = copy_of(kv->tables[g], (size_t)kv->n_blocks * sizeof(int32_t));
        out->slots[g] = malloc((size_t)item->n * sizeof(int64_t));
        for (int64_t i = 0; i < item->n; i++) {
            const int64_t slot = di_kv_seq_slot(&w.kv, kv, g, item->first + i);
            out->slots[g][i] = slot;
            if (slot >= 0) /* a block is written by its only owner */
                assert_int_equal(
                    w.kv.pools[g].blocks[slot / w.kv.layout.groups[g].block_len].n_owners, 1);
        }
    }
}

static void start_forks(pass *p, const di_sched_item *item)
{
    node *s = (node *)item->seq;
    if (item->first + item->n != item->seq->n_prompt || item->seq->n_samples == 1)
        return;
    for (int i = 1; i < MOST_SAMPLES; i++) {
        node *to = s->forks[i];
        if (!to)
            continue;
        for (int64_t t = 0; t < to->sched.n_prompt; t++)
            set_token(to, t, s->tokens[t]);
        to->sched.order = ++w.last_order;
        di_require(di_scheduler_fork(&w.scheduler, &s->sched, &to->sched));
        to->sched.n_tokens++;
        to->sched.n_in_flight++;
        s->forks[i] = NULL;
        p->forks[p->n_forks++] = w.seqs[w.n_seqs++] = to;
    }
}

static bool schedule(void)
{
    const int32_t n = di_scheduler_next(&w.scheduler, w.items);
    if (n == 0)
        return false;
    int64_t n_tokens = 0;
    pass *p = calloc(1, sizeof *p);
    assert_non_null(p);
    p->parts = calloc((size_t)n, sizeof *p->parts);
    p->n_parts = n;
    p->n_copies = w.kv.n_copies;
    p->copies = copy_of(w.kv.copies, w.kv.n_copies * sizeof *w.kv.copies);
    w.kv.n_copies = 0;
    for (int32_t i = 0; i < n; i++) {
        make_part(&w.items[i], &p->parts[i]);
        n_tokens += w.items[i].n;
        assert_true(w.items[i].n > 0);
        assert_true(w.items[i].seq->n_preemptions <= w.scheduler.limits.max_preemptions);
    }
    assert_true(n_tokens <= w.scheduler.limits.max_step_tokens);
    for (int32_t i = 0; i < n; i++)
        start_forks(p, &w.items[i]);
    w.in_flight[w.n_in_flight++] = p;
    w.step++;
    return true;
}

/* ------------------------------------------------------------------------------- running */

static uint64_t *content_at(int group, int64_t slot)
{
    return &w.content[group][slot];
}

static void check_visible(const part *p)
{
    for (int g = 0; g < w.kv.layout.n_groups; g++) {
        const di_kv_group *group = &w.kv.layout.groups[g];
        int64_t from = 0;
        if (group->is_window)
            from = di_max_i64(p->first - w.kv.window_len + 1, p->window_floor);
        for (int64_t t = di_max_i64(0, from); t < p->first; t++) {
            if ((t + 1) % group->ratio)
                continue;
            assert_true(p->tables[g][t / DI_KV_BLOCK_TOKENS] >= 0);
            const int64_t slot = di_paged_slot(p->tables[g], group->block_len, t / group->ratio);
            if (*content_at(g, slot) != p->seq->history[t])
                fail_msg("step %lld, group %d: position %lld of %lld is of another history",
                         (long long)w.step, g, (long long)t, (long long)p->first);
        }
    }
}

static void write_rows(const part *p)
{
    for (int g = 0; g < w.kv.layout.n_groups; g++) {
        const di_kv_group *group = &w.kv.layout.groups[g];
        for (int64_t t = p->first; t < p->first + p->n; t++) {
            const int64_t slot = p->slots[g][t - p->first];
            if ((t + 1) % group->ratio) {
                assert_int_equal(slot, -1);
            } else if (slot >= 0) {
                *content_at(g, slot) = p->seq->history[t];
            } else { /* below the write floor */
                const int64_t kept =
                    di_paged_slot(p->tables[g], group->block_len, t / group->ratio);
                assert_false(group->is_window);
                assert_true(*content_at(g, kept) == p->seq->history[t]);
            }
        }
    }
}

static void sample(node *s, int64_t position)
{
    const uint64_t h = s->history[position - 1];
    set_token(s, position, (int32_t)((h + (uint64_t)s->sample * 7) % 997));
}

static void run_pass(const pass *p)
{
    for (size_t i = 0; i < p->n_copies; i++) {
        const di_kv_copy *c = &p->copies[i];
        const size_t n = (size_t)w.kv.layout.groups[c->group].block_len;
        memcpy(content_at(c->group, c->to * (int64_t)n), content_at(c->group, c->from * (int64_t)n),
               n * sizeof(uint64_t));
    }
    for (int32_t i = 0; i < p->n_parts; i++)
        check_visible(&p->parts[i]); /* before anything is written: a pass serves later ones */
    for (int32_t i = 0; i < p->n_parts; i++)
        write_rows(&p->parts[i]);
    for (int32_t i = 0; i < p->n_parts; i++)
        if (p->parts[i].samples)
            sample(p->parts[i].seq, p->parts[i].first + p->parts[i].n);
    for (int32_t i = 0; i < p->n_forks; i++)
        sample(p->forks[i], p->forks[i]->sched.n_prompt);
}

static void learn_token(node *s)
{
    if (s->is_ended)
        return;
    if (s->first_token_at < 0)
        s->first_token_at = w.step;
    s->sched.n_known++;
    if (s->sched.n_known >= s->sched.max_len ||
        (w.stop_one_in && di_rng_below(&w.rng, w.stop_one_in) == 0))
        end_seq(s);
}

static void free_pass(pass *p)
{
    for (int32_t i = 0; i < p->n_parts; i++) {
        for (int g = 0; g < w.kv.layout.n_groups; g++) {
            free(p->parts[i].tables[g]);
            free(p->parts[i].slots[g]);
        }
    }
    free(p->parts);
    free(p->copies);
    free(p);
}

static void collect(void)
{
    pass *p = w.in_flight[0];
    w.in_flight[0] = w.in_flight[1];
    w.n_in_flight--;
    run_pass(p);
    for (int32_t i = 0; i < p->n_parts; i++) {
        p->parts[i].seq->sched.n_in_flight--;
        if (p->parts[i].samples)
            learn_token(p->parts[i].seq);
    }
    for (int32_t i = 0; i < p->n_forks; i++) {
        p->forks[i]->sched.n_in_flight--;
        learn_token(p->forks[i]);
    }
    free_pass(p);
}

/* One step of an engine with room for so many passes in flight; false if nothing is left to do. */
static bool step_engine(int n_in_flight, const node *kept)
{
    const bool launched = schedule();
    if (w.n_in_flight == n_in_flight || (!launched && w.n_in_flight > 0))
        collect();
    else if (!launched && w.n_seqs > 0)
        fail_msg("nothing runs, nothing is in flight, %zu sequences are left", w.n_seqs);
    sweep(kept);
    return w.n_seqs > 0;
}

/* ------------------------------------------------------------------------------- random */

static void add_random(int64_t most)
{
    const int64_t n = di_rng_between(&w.rng, 1, di_rng_below(&w.rng, 4) ? most / 4 : most);
    const int64_t kind = di_rng_below(&w.rng, 3);
    add_seq(n,
            kind == 0   ? 0
            : kind == 1 ? n
                        : di_rng_below(&w.rng, n),
            di_rng_between(&w.rng, 1, 150), (int)di_rng_between(&w.rng, 1, MOST_SAMPLES));
}

static void cancel_random(void)
{
    if (w.n_seqs == 0)
        return;
    node *s = w.seqs[di_rng_below(&w.rng, (int64_t)w.n_seqs)];
    if (!s->is_ended)
        end_seq(s);
    sweep(NULL);
}

static void run_random(const shape *s, int n_ops, const char *name)
{
    open_world(s, name);
    w.stop_one_in = 60;
    const int n_in_flight = 1 + (int)di_rng_below(&w.rng, 2);
    const int64_t most = s->blocks * DI_KV_BLOCK_TOKENS - 160;
    for (int op = 0; op < n_ops; op++) {
        const int64_t kind = di_rng_below(&w.rng, 100);
        if (kind < 12 && w.n_seqs < 40)
            add_random(most);
        else if (kind < 14)
            cancel_random();
        else if (w.n_seqs > 0)
            step_engine(n_in_flight, NULL);
        if (op % 4 == 0)
            check_world();
    }
    for (int64_t last = w.step + 30000; w.n_seqs > 0;) {
        step_engine(n_in_flight, NULL);
        assert_true(w.step < last);
    }
    const di_sched_stats *stats = &w.scheduler.stats;
    print_message(
        "%s: %llu ended in %lld steps, %llu preemptions, %llu of %llu tokens cached, "
        "%llu replayed\n",
        name, (unsigned long long)w.n_ended, (long long)w.step,
        (unsigned long long)stats->n_preemptions, (unsigned long long)stats->cached_tokens,
        (unsigned long long)stats->admitted_tokens, (unsigned long long)stats->replayed_tokens);
    assert_true(stats->n_preemptions > 0);
    assert_int_equal(stats->cached_tokens > 0, s->mode != DI_PREFIX_OFF);
    assert_int_equal(stats->replayed_tokens > 0, s->mode == DI_PREFIX_REPLAY);
    close_world();
}

static void random_operations(void **state)
{
    (void)state;
    const shape shapes[] = {
        {70, 30, 20, DI_PREFIX_OFF, {100, 10, 3}},    {70, 30, 20, DI_PREFIX_EXACT, {100, 10, 3}},
        {130, 40, 24, DI_PREFIX_EXACT, {64, 16, 3}},  {16, 24, 40, DI_PREFIX_EXACT, {300, 12, 2}},
        {70, 30, 20, DI_PREFIX_REPLAY, {100, 10, 3}}, {1, 16, 14, DI_PREFIX_EXACT, {33, 8, 1}},
        {200, 16, 30, DI_PREFIX_REPLAY, {128, 8, 3}},
    };
    const int n = (int)(sizeof shapes / sizeof shapes[0]);
    for (int i = 0; i < n; i++) {
        char name[64];
        snprintf(name, sizeof name, "random operations %d", i);
        run_random(&shapes[i], 100000 / DI_TEST_SHARE / n, name);
    }
}

/* ------------------------------------------------------------------------------- fairness */

static const shape large = {128, 35 + 66 * 3, 32768 / 64 + 1, DI_PREFIX_EXACT, {2048, 64, 3}};

/* K04: a prompt of 30k tokens and 50 short ones, room for 32k tokens, steps of 2k. */
static void a_long_prompt_and_many_short_ones(void **state)
{
    (void)state;
    for (int long_at = 0; long_at <= 50; long_at += 25) {
        open_world(&large, "long and short");
        node *slow = NULL, *fast[50];
        for (int i = 0; i <= 50; i++) {
            if (i == long_at)
                slow = add_seq(30000, 0, 50, 1);
            if (i < 50)
                fast[i] = add_seq(di_rng_between(&w.rng, 50, 300), 0, 40, 1);
        }
        slow->sched.is_cold = true;
        int64_t before = 0, standing = 0, most_standing = 0, last_first_token = 0;
        while (step_engine(2, slow)) {
            const int64_t len = slow->is_ended ? 30000 : slow->sched.kv.len;
            standing = len > before || len >= 30000 ? 0 : standing + 1;
            most_standing = di_max_i64(most_standing, standing);
            before = len;
            for (size_t i = 0; i < w.n_seqs; i++)
                if (w.seqs[i] != slow)
                    last_first_token = di_max_i64(last_first_token, w.seqs[i]->first_token_at);
            assert_true(w.step < 1000);
        }
        (void)fast;
        print_message("long one at %d: last short one's first token at step %lld, long one's at "
                      "%lld, it stood still %lld steps, %d preemptions\n",
                      long_at, (long long)last_first_token, (long long)slow->first_token_at,
                      (long long)most_standing, slow->sched.n_preemptions);
        assert_true(slow->is_ended && slow->sched.n_known == slow->sched.max_len);
        assert_true(slow->first_token_at < 150);
        assert_true(most_standing < 60);
        assert_true(last_first_token < (long_at == 0 ? 70 : 140)); /* those before it do not wait */
        free_node(slow);
        close_world();
    }
}

/* Short prompts that never cease to come do not keep a long one from its blocks. */
static void an_endless_stream_does_not_starve(void **state)
{
    (void)state;
    shape tight = large;
    tight.blocks = 24 * 1024 / 64;
    open_world(&tight, "endless");
    for (int i = 0; i < 60; i++) {
        add_seq(di_rng_between(&w.rng, 100, 600), 0, 60, 1)->sched.priority = 0;
        step_engine(2, NULL);
    }
    node *slow = add_seq(20000, 0, 50, 1);
    slow->sched.priority = 0;
    while (!slow->is_ended) {
        for (int i = 0; i < 3 && w.scheduler.waiting.n < 50; i++)
            add_seq(di_rng_between(&w.rng, 100, 600), 0, 60, 1)->sched.priority = 0;
        step_engine(2, slow);
        assert_true(w.step - slow->added_at < 2000);
    }
    print_message("the long one took %lld steps\n", (long long)(w.step - slow->added_at));
    while (w.n_seqs > 0)
        step_engine(2, slow);
    free_node(slow);
    close_world();
}

/* K12: a prompt twice: all full blocks before its last token are there. */
static void the_same_prompt_again(void **state)
{
    (void)state;
    const int64_t lengths[] = {64, 65, 128, 129, 1000, 2048};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        open_world(&large, "again");
        for (int turn = 0; turn < 3; turn++) {
            w.rng = di_rng_named("again"); /* the same stream */
            node *s = add_seq(lengths[i], lengths[i], 3, 1);
            while (step_engine(1, s))
                continue;
            assert_int_equal(s->sched.n_cached, turn ? (lengths[i] - 1) / 64 * 64 : 0);
            free_node(s);
        }
        close_world();
    }
}

/* A block that a decode completes is for passes after the one that writes it. */
static void blocks_of_this_pass_are_not_hits(void **state)
{
    (void)state;
    open_world(&large, "this pass");
    node *a = add_seq(250, 250, 30, 1); /* windows are kept before every 256th token */
    while (a->sched.n_known < 256)
        step_engine(1, a);
    assert_int_equal(a->sched.kv.len, 255);
    node *b = new_node(270, 280, 0, 0); /* a's first 256 tokens, all known, and more */
    for (int64_t i = 0; i < 270; i++)
        set_token(b, i, i < 256 ? a->tokens[i] : 5);
    b->sched.order = ++w.last_order;
    w.seqs[w.n_seqs++] = b;
    di_scheduler_add(&w.scheduler, &b->sched);
    while (step_engine(1, a))
        continue;
    assert_int_equal(w.scheduler.stats.cached_tokens, 192); /* those before */
    free_node(a);
    close_world();
}

int main(int argc, char **argv)
{
    di_rng_start(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_operations),
        cmocka_unit_test(a_long_prompt_and_many_short_ones),
        cmocka_unit_test(an_endless_stream_does_not_starve),
        cmocka_unit_test(the_same_prompt_again),
        cmocka_unit_test(blocks_of_this_pass_are_not_hits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
