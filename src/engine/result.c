#include <stdlib.h>
#include <string.h>

#include "engine/seq.h"

typedef struct result_box {
    di_result result; /* first: di_result_free gets its address */
    di_arena arena;
} result_box;

static di_status copy_ids(di_arena *arena, const int32_t *ids, size_t n, const int32_t **out)
{
    int32_t *copy;
    DI_TRY(DI_ARENA_NEW(arena, n, &copy));
    if (n)
        memcpy(copy, ids, n * sizeof *copy);
    *out = copy;
    return DI_OK;
}

/* n positions; those the list does not have (the request ended before) are empty. */
static di_status copy_logprobs(di_arena *arena, const di_logprob_list *list, size_t n_positions,
                               const di_position_logprobs **out)
{
    di_position_logprobs *copy;
    DI_TRY(DI_ARENA_ZNEW(arena, n_positions, &copy));
    for (size_t i = 0; i < list->len && i < n_positions; i++)
        DI_TRY(di_position_logprobs_copy(arena, &list->data[i], &copy[i]));
    *out = copy;
    return DI_OK;
}

static double milliseconds(int64_t from_ns, int64_t to_ns)
{
    return from_ns && to_ns ? (double)(to_ns - from_ns) / 1e6 : 0.0;
}

static void set_times(const di_seq *seq, di_result *r)
{
    const di_seq_times *t = &seq->times;
    const size_t n = di_seq_n_output(seq);
    r->ttft_ms = milliseconds(seq->entry->submitted_ns, t->first_token_ns);
    r->prefill_ms = milliseconds(t->prefill_ns, t->first_token_ns);
    r->decode_ms = n > 1 ? milliseconds(t->first_token_ns, t->last_token_ns) : 0.0;
    r->tokens_per_second = r->decode_ms > 0.0 ? (double)(n - 1) * 1e3 / r->decode_ms : 0.0;
}

static di_status fill(const di_seq *seq, di_arena *arena, di_result *r)
{
    const di_entry *e = seq->entry;
    const int32_t *ids = seq->tokens.data;
    char *text, *error = NULL;
    DI_TRY(copy_ids(arena, ids, e->n_prompt, &r->prompt_token_ids));
    DI_TRY(copy_ids(arena, ids + e->n_prompt, di_seq_n_output(seq), &r->token_ids));
    DI_TRY(DI_ARENA_NEW(arena, seq->text.len + 1, &text));
    memcpy(text, di_buf_str(&seq->text), seq->text.len + 1);
    if (e->params.n_logprobs >= 0)
        DI_TRY(copy_logprobs(arena, &seq->logprobs, di_seq_n_output(seq), &r->logprobs));
    if (e->params.prompt_logprobs)
        DI_TRY(copy_logprobs(arena, &e->seqs[0].prompt_logprobs, e->n_prompt, &r->prompt_logprobs));
    if (seq->error)
        DI_TRY(di_arena_strdup(arena, seq->error, &error));
    r->id = e->id;
    r->sample_index = seq->sample_index;
    r->n_cached_tokens = (size_t)seq->n_cached;
    r->n_prompt_token_ids = e->n_prompt;
    r->n_token_ids = di_seq_n_output(seq);
    r->text = text;
    r->text_bytes = seq->text.len;
    r->finish_reason = seq->finish_reason;
    r->seed = e->seed;
    r->is_reproducible = !e->rejects;
    r->status = seq->status;
    r->error = error ? error : "";
    set_times(seq, r);
    return DI_OK;
}

static di_status fill_all(const di_entry *entry, result_box *box)
{
    di_result *r = &box->result;
    DI_TRY(fill(&entry->seqs[0], &box->arena, r));
    for (int32_t i = 1; i < entry->n_samples; i++) {
        di_result *next;
        DI_TRY(DI_ARENA_ZNEW(&box->arena, 1, &next));
        DI_TRY(fill(&entry->seqs[i], &box->arena, next));
        r->next = next;
        r = next;
    }
    return DI_OK;
}

di_status di_entry_result(const di_entry *entry, di_result **out)
{
    result_box *box = calloc(1, sizeof *box);
    if (!box)
        return di_fail_memory(sizeof *box, "a result");
    box->arena.chunk_bytes = 4096;
    const di_status status = fill_all(entry, box);
    if (status != DI_OK) {
        di_result_free(&box->result);
        return status;
    }
    *out = &box->result;
    return DI_OK;
}

void di_result_free(di_result *result)
{
    if (!result)
        return;
    result_box *box = (result_box *)result;
    di_arena_free(&box->arena);
    free(box);
}

const char *di_finish_reason_name(di_finish_reason reason)
{
    switch (reason) {
    case DI_FINISH_NONE:
        return "none";
    case DI_FINISH_STOP:
        return "stop";
    case DI_FINISH_LENGTH:
        return "length";
    case DI_FINISH_CANCELLED:
        return "cancelled";
    case DI_FINISH_ERROR:
        return "error";
    }
    return "unknown";
}
