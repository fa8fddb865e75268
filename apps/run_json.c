#include "run_json.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "json_out.h"

/* The bytes of one token; false if it has none to show. Free with di_free. */
static bool token_text(const di_model *model, int32_t id, char **text, size_t *bytes)
{
    return di_detokenize(model, &id, 1, false, text, bytes) == DI_OK;
}

/* "token": its text, or null and then "bytes" if these are no whole characters. */
static void write_token(const di_model *model, int32_t id)
{
    char *text = NULL;
    size_t bytes = 0;
    const bool is_there = token_text(model, id, &text, &bytes);
    printf("{\"token_id\": %" PRId32 ", \"token\": ", id);
    if (is_there && di_out_is_utf8(text, bytes)) {
        di_out_text(stdout, text, bytes);
    } else {
        fputs("null, \"bytes\": [", stdout);
        for (size_t i = 0; is_there && i < bytes; i++)
            printf("%s%u", i > 0 ? ", " : "", (unsigned)(unsigned char)text[i]);
        putchar(']');
    }
    di_free(text);
}

static void write_logprob(const di_model *model, const di_logprob *entry)
{
    write_token(model, entry->token_id);
    fputs(", \"logprob\": ", stdout);
    di_out_float(stdout, entry->logprob);
    printf(", \"rank\": %" PRId32, entry->rank);
}

/* The first entry is the chosen token, the others are the most likely ones. */
static void write_positions(const di_model *model, const di_position_logprobs *positions, size_t n)
{
    putchar('[');
    for (size_t i = 0; i < n; i++) {
        const di_position_logprobs *p = &positions[i];
        fputs(i > 0 ? ", " : "", stdout);
        if (p->n_entries == 0) {
            fputs("null", stdout);
            continue;
        }
        write_logprob(model, &p->entries[0]);
        fputs(", \"top_logprobs\": [", stdout);
        for (size_t k = 1; k < p->n_entries; k++) {
            fputs(k > 1 ? ", " : "", stdout);
            write_logprob(model, &p->entries[k]);
            putchar('}');
        }
        fputs("]}", stdout);
    }
    putchar(']');
}

static void write_usage(const di_result *result)
{
    const size_t n_prompt = result->n_prompt_token_ids;
    printf(", \"usage\": {\"prompt_tokens\": %zu, \"completion_tokens\": %zu, \"total_tokens\": "
           "%zu, \"cached_tokens\": %zu}",
           n_prompt, result->n_token_ids, n_prompt + result->n_token_ids, result->n_cached_tokens);
    printf(", \"timings\": {\"ttft_ms\": %.3f, \"prefill_ms\": %.3f, \"decode_ms\": %.3f, "
           "\"tokens_per_second\": %.3f}",
           result->ttft_ms, result->prefill_ms, result->decode_ms, result->tokens_per_second);
}

void di_run_write_json(const di_run_report *report)
{
    const di_result *result = report->result;
    printf("{\"index\": %zu", report->index);
    if (report->has_samples)
        printf(", \"sample_index\": %" PRId32, result->sample_index);
    if (report->echo != NULL) {
        fputs(", \"prompt\": ", stdout);
        di_out_text(stdout, report->echo, report->echo_bytes);
    }
    fputs(", \"prompt_token_ids\": ", stdout);
    di_out_ids(stdout, result->prompt_token_ids, result->n_prompt_token_ids);
    fputs(", \"token_ids\": ", stdout);
    di_out_ids(stdout, result->token_ids, result->n_token_ids);
    fputs(", \"text\": ", stdout);
    di_out_text(stdout, result->text, result->text_bytes);
    if (report->message != NULL) {
        fputs(", \"message\": ", stdout);
        json_dumpf(report->message, stdout, 0);
    }
    printf(", \"finish_reason\": \"%s\", \"seed\": %" PRIu64 ", \"reproducible\": %s",
           di_finish_reason_name(result->finish_reason), result->seed,
           result->is_reproducible ? "true" : "false");
    if (result->logprobs != NULL) {
        fputs(", \"logprobs\": ", stdout);
        write_positions(report->model, result->logprobs, result->n_token_ids);
    }
    if (result->prompt_logprobs != NULL) {
        fputs(", \"prompt_logprobs\": ", stdout);
        write_positions(report->model, result->prompt_logprobs, result->n_prompt_token_ids);
    }
    write_usage(result);
    fputs("}\n", stdout);
}

void di_run_write_json_error(size_t index, const char *error)
{
    printf("{\"index\": %zu, \"error\": ", index);
    di_out_text(stdout, error, strlen(error));
    fputs("}\n", stdout);
}

static void list_entry(const di_model *model, const di_logprob *entry)
{
    char *text = NULL;
    size_t bytes = 0;
    if (!token_text(model, entry->token_id, &text, &bytes))
        bytes = 0;
    printf("\t%" PRId32 "\t", entry->token_id);
    di_out_text(stdout, text, bytes);
    printf("\t%.6g\t%" PRId32, (double)entry->logprob, entry->rank);
    di_free(text);
}

static void list_positions(const di_model *model, const char *part,
                           const di_position_logprobs *positions, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (positions[i].n_entries == 0)
            continue;
        printf("%s\t%zu", part, i);
        for (size_t k = 0; k < positions[i].n_entries; k++)
            list_entry(model, &positions[i].entries[k]);
        putchar('\n');
    }
}

void di_run_write_logprobs(const di_run_report *report)
{
    const di_result *result = report->result;
    if (result->prompt_logprobs != NULL)
        list_positions(report->model, "prompt", result->prompt_logprobs,
                       result->n_prompt_token_ids);
    if (result->logprobs != NULL)
        list_positions(report->model, "output", result->logprobs, result->n_token_ids);
}
