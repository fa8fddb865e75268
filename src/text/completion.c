#include "text/completion.h"

#include <stdlib.h>
#include <string.h>

#include "text/completion_parser.h"
#include "text/encoding_tools.h"

#define CALLS_TAG "<" DI_DSML_CALLS ">"

enum { MAX_BLANK = 2 }; /* newlines before a block that belong to it */

di_status di_completion_parser_create(bool is_thinking, di_completion_rules rules, di_delta_fn fn,
                                      void *user, di_completion_parser **out)
{
    di_completion_parser *p = calloc(1, sizeof *p);
    if (!p)
        return di_fail_memory(sizeof *p, "a completion parser");
    p->rules = rules;
    p->fn = fn;
    p->user = user;
    p->kind = is_thinking ? DI_DELTA_REASONING : DI_DELTA_CONTENT;
    p->stage = rules == DI_COMPLETION_STRICT ? DI_STAGE_TEXT : DI_STAGE_START;
    p->scratch.chunk_bytes = 4096;
    *out = p;
    return DI_OK;
}

void di_completion_parser_free(di_completion_parser *parser)
{
    if (!parser)
        return;
    di_buf_free(&parser->text);
    di_buf_free(&parser->name);
    di_buf_free(&parser->arguments);
    di_strmap_free(&parser->keys);
    di_arena_free(&parser->scratch);
    free(parser);
}

size_t di_completion_parser_work(const di_completion_parser *parser)
{
    return parser->work;
}

di_status di_completion_fail(di_completion_parser *p, size_t at, const char *what)
{
    return di_fail(DI_ERR_INPUT, "completion, byte %zu: %s", p->offset + at, what);
}

di_status di_completion_emit_text(di_completion_parser *p, size_t end)
{
    const size_t begin = p->at;
    p->at = end;
    if (end == begin || p->fn(p->user, p->kind, NULL, p->text.data + begin, end - begin))
        return DI_OK;
    return di_fail(DI_ERR_CANCELLED, "stopped by the callback");
}

di_match di_completion_match(di_completion_parser *p, size_t at, const char *s)
{
    const size_t n = strlen(s), have = p->text.len - at;
    p->work += n < have ? n : have;
    if (memcmp(p->text.data + at, s, n < have ? n : have) != 0)
        return DI_MATCH_NONE;
    return have < n ? DI_MATCH_PARTIAL : DI_MATCH_FULL;
}

/* The start tag of a block with the newlines before it; strictly, there are two. */
static di_match match_block(di_completion_parser *p, size_t at, size_t *end)
{
    size_t tag = at;
    while (tag < p->text.len && tag - at < MAX_BLANK && p->text.data[tag] == '\n')
        tag++;
    *end = tag + strlen(CALLS_TAG);
    if (p->rules == DI_COMPLETION_STRICT && tag - at < MAX_BLANK && tag < p->text.len)
        return DI_MATCH_NONE;
    return p->is_raw ? DI_MATCH_NONE : di_completion_match(p, tag, CALLS_TAG);
}

/* EOS counts as such only as the last thing of the text: until more comes, that is open. */
static bool may_be_end(di_completion_parser *p, size_t at)
{
    return p->text.len - at <= strlen(DI_CHAT_EOS) &&
           di_completion_match(p, at, DI_CHAT_EOS) != DI_MATCH_NONE;
}

/* Gives out text up to the next mark, and acts on the mark. */
static di_status read_text(di_completion_parser *p, di_progress *progress)
{
    *progress = DI_PROGRESS_MADE;
    for (size_t at = p->at; at < p->text.len; at++) {
        const char c = p->text.data[at];
        p->work++;
        if (c != '<' && c != '\n')
            continue;
        size_t block_end;
        const di_match block = match_block(p, at, &block_end);
        const di_match think_end = p->kind == DI_DELTA_REASONING
                                       ? di_completion_match(p, at, DI_CHAT_THINK_END)
                                       : DI_MATCH_NONE;
        if (think_end == DI_MATCH_FULL) {
            DI_TRY(di_completion_emit_text(p, at));
            p->at = at + strlen(DI_CHAT_THINK_END);
            p->kind = DI_DELTA_CONTENT;
            p->is_raw = false;
            return DI_OK;
        }
        if (block == DI_MATCH_FULL) {
            DI_TRY(di_completion_emit_text(p, at));
            di_completion_block_open(p, at, block_end);
            return DI_OK;
        }
        if (block == DI_MATCH_PARTIAL || think_end == DI_MATCH_PARTIAL || may_be_end(p, at)) {
            *progress = DI_PROGRESS_WAIT;
            return di_completion_emit_text(p, at);
        }
    }
    *progress = DI_PROGRESS_WAIT;
    return di_completion_emit_text(p, p->text.len);
}

/* A <think> that the prompt has already given is dropped; one that it has not begins a reasoning.
 */
static di_progress read_start(di_completion_parser *p)
{
    const di_match match = di_completion_match(p, p->at, DI_CHAT_THINK);
    if (match == DI_MATCH_PARTIAL)
        return DI_PROGRESS_WAIT;
    if (match == DI_MATCH_FULL) {
        p->at += strlen(DI_CHAT_THINK);
        p->kind = DI_DELTA_REASONING;
    }
    p->stage = DI_STAGE_TEXT;
    return DI_PROGRESS_MADE;
}

/* What looked like a block goes out as text. A start tag that no invoke follows is a mere mention;
 * after a malformed call no block is recognised any more (but in the answer after a reasoning),
 * which bounds the work to reading everything twice. */
static di_status give_up_block(di_completion_parser *p)
{
    p->stage = DI_STAGE_TEXT;
    if (p->step == DI_BLOCK_BETWEEN && p->n_block_calls == 0)
        return di_completion_emit_text(p, p->marker_end);
    p->is_raw = true;
    return DI_OK;
}

static di_status read_block(di_completion_parser *p, di_progress *progress)
{
    const char *why = NULL;
    DI_TRY(di_completion_block_read(p, progress, &why));
    if (*progress != DI_PROGRESS_MALFORMED)
        return DI_OK;
    if (p->rules == DI_COMPLETION_STRICT)
        return di_completion_fail(p, p->cursor, why);
    *progress = DI_PROGRESS_MADE;
    return give_up_block(p);
}

static di_status read_all(di_completion_parser *p)
{
    di_progress progress = DI_PROGRESS_MADE;
    while (progress == DI_PROGRESS_MADE) {
        switch (p->stage) {
        case DI_STAGE_START:
            progress = read_start(p);
            break;
        case DI_STAGE_TEXT:
            if (p->rules == DI_COMPLETION_STRICT && p->had_block && p->at < p->text.len &&
                !may_be_end(p, p->at))
                return di_completion_fail(p, p->at, "found text after the tool calls");
            DI_TRY(read_text(p, &progress));
            break;
        case DI_STAGE_BLOCK:
            if (p->rules == DI_COMPLETION_STRICT && p->kind == DI_DELTA_REASONING)
                return di_completion_fail(p, p->at, "found tool calls before " DI_CHAT_THINK_END);
            DI_TRY(read_block(p, &progress));
            break;
        }
    }
    return DI_OK;
}

static void drop_consumed(di_completion_parser *p)
{
    const size_t n = p->at;
    if (n == 0)
        return;
    memmove(p->text.data, p->text.data + n, p->text.len - n);
    p->text.len -= n;
    p->text.data[p->text.len] = 0;
    p->offset += n;
    p->at = 0;
    if (p->stage == DI_STAGE_BLOCK) {
        p->cursor -= n;
        p->marker_end -= p->marker_end < n ? p->marker_end : n;
        p->scanned -= p->scanned < n ? p->scanned : n;
    }
}

di_status di_completion_parser_push(di_completion_parser *parser, const char *text, size_t len)
{
    if (parser->failed != DI_OK)
        return di_fail(parser->failed, "completion: an earlier part of it failed");
    if (len == 0)
        return DI_OK;
    parser->failed = di_buf_append(&parser->text, text, len);
    if (parser->failed == DI_OK)
        parser->failed = read_all(parser);
    if (parser->failed == DI_OK)
        drop_consumed(parser);
    return parser->failed;
}

/* Strict: whether the text may end here. is_end: EOS was the last thing. */
static di_status check_end(di_completion_parser *p, bool is_end)
{
    if (p->rules == DI_COMPLETION_LENIENT)
        return DI_OK;
    if (p->stage == DI_STAGE_BLOCK)
        return di_completion_fail(p, p->text.len, "found the end within the tool calls");
    if (p->kind == DI_DELTA_REASONING)
        return di_completion_fail(p, p->text.len, "found the end, wanted " DI_CHAT_THINK_END);
    if (!is_end && (!p->had_block || p->at < p->text.len))
        return di_completion_fail(p, p->text.len, "found the end, wanted " DI_CHAT_EOS);
    return DI_OK;
}

static di_status finish(di_completion_parser *p)
{
    const bool is_lenient = p->rules == DI_COMPLETION_LENIENT;
    while (p->stage == DI_STAGE_BLOCK && is_lenient) {
        if (p->step == DI_BLOCK_BETWEEN && p->n_block_calls > 0) {
            p->stage = DI_STAGE_TEXT; /* only the block's own end tag is missing */
            p->at = p->text.len;
        } else {
            DI_TRY(give_up_block(p));
            DI_TRY(read_all(p));
        }
    }
    const bool is_end = p->stage == DI_STAGE_TEXT && p->text.len - p->at == strlen(DI_CHAT_EOS) &&
                        di_completion_match(p, p->at, DI_CHAT_EOS) == DI_MATCH_FULL;
    DI_TRY(check_end(p, is_end));
    if (is_end)
        p->at = p->text.len;
    return di_completion_emit_text(p, p->text.len);
}

di_status di_completion_parser_finish(di_completion_parser *parser)
{
    if (parser->failed != DI_OK)
        return di_fail(parser->failed, "completion: an earlier part of it failed");
    const di_status status = finish(parser);
    parser->failed = status == DI_OK ? DI_ERR_ARGUMENT : status; /* nothing may follow */
    return status;
}
