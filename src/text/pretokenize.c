#include "text/pretokenize.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdbool.h>
#include <stdlib.h>

#include "text/split_pattern.h"
#include "text/utf8.h"

enum {
    MAX_REGEX_BYTES = 64 * 1024,
    JIT_STACK_BYTES = 32 * 1024,
    JIT_STACK_MAX_BYTES = 16 * 1024 * 1024,
    /* A regex that backtracks more than this for one match is refused at run time: ours need a few
     * steps a character, so the limit grows with the text. */
    MATCH_LIMIT = 10 * 1000 * 1000,
    MATCH_LIMIT_PER_BYTE = 16
};

struct di_splitter {
    pcre2_code *code;
    bool has_jit;
};

struct di_split_scratch {
    pcre2_match_data *match;
    pcre2_match_context *context;
    pcre2_jit_stack *jit_stack; /* NULL until a match needs more than PCRE2's own 32 KiB */
    di_piece_fn fn;
    void *user;
};

static di_status fail_pcre2(di_status code, const char *what, int error)
{
    PCRE2_UCHAR text[256];
    if (pcre2_get_error_message(error, text, sizeof text) < 0)
        text[0] = 0;
    return di_fail(code, "%s: %s", what, (const char *)text);
}

static di_status compile(const di_buf *pattern, pcre2_code **out)
{
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (!context)
        return di_fail(DI_ERR_MEMORY, "out of memory: a regex compile context");
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    int error;
    PCRE2_SIZE offset;
    pcre2_code *code =
        pcre2_compile((PCRE2_SPTR)di_buf_str(pattern), pattern->len,
                      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &error, &offset, context);
    pcre2_compile_context_free(context);
    if (!code)
        return fail_pcre2(error == PCRE2_ERROR_HEAP_FAILED ? DI_ERR_MEMORY : DI_ERR_INPUT,
                          "regex does not compile", error);
    *out = code;
    return DI_OK;
}

di_status di_pretokenizer_add(di_pretokenizer *pretokenizer, const char *regex, size_t len)
{
    if (pretokenizer->n_splitters == DI_PRETOKENIZER_MAX_SPLITS)
        return di_fail(DI_ERR_UNSUPPORTED, "found more than %d splits", DI_PRETOKENIZER_MAX_SPLITS);
    if (len == 0 || len > MAX_REGEX_BYTES)
        return di_fail(DI_ERR_UNSUPPORTED, "found a regex of %zu bytes, wanted 1 to %d", len,
                       MAX_REGEX_BYTES);
    DI_BUF_AUTO pattern = {0};
    DI_TRY(di_split_pattern_translate(regex, len, &pattern));
    pcre2_code *code;
    DI_TRY(compile(&pattern, &code));
    di_splitter *splitter = malloc(sizeof *splitter);
    if (!splitter) {
        pcre2_code_free(code);
        return di_fail_memory(sizeof *splitter, "a pre-tokenizer split");
    }
    /* Without JIT (built out, or executable memory forbidden) the interpreter does the same. */
    *splitter = (di_splitter){
        .code = code,
        .has_jit = pcre2_jit_compile(code, PCRE2_JIT_COMPLETE) == 0,
    };
    pretokenizer->splitters[pretokenizer->n_splitters++] = splitter;
    return DI_OK;
}

void di_pretokenizer_free(di_pretokenizer *pretokenizer)
{
    for (int i = 0; i < pretokenizer->n_splitters; i++) {
        pcre2_code_free(pretokenizer->splitters[i]->code);
        free(pretokenizer->splitters[i]);
    }
    pretokenizer->n_splitters = 0;
}

di_status di_split_scratch_create(di_split_scratch **out)
{
    di_split_scratch *scratch = calloc(1, sizeof *scratch);
    if (!scratch)
        return di_fail_memory(sizeof *scratch, "regex scratch");
    scratch->match = pcre2_match_data_create(1, NULL); /* only where the whole match is */
    scratch->context = pcre2_match_context_create(NULL);
    if (!scratch->match || !scratch->context) {
        di_split_scratch_destroy(scratch);
        return di_fail(DI_ERR_MEMORY, "out of memory: regex match data");
    }
    *out = scratch;
    return DI_OK;
}

void di_split_scratch_destroy(di_split_scratch *scratch)
{
    if (!scratch)
        return;
    pcre2_match_data_free(scratch->match);
    pcre2_match_context_free(scratch->context);
    pcre2_jit_stack_free(scratch->jit_stack);
    free(scratch);
}

static int match_with_jit(const di_splitter *splitter, di_split_scratch *scratch, const char *text,
                          size_t len, size_t at)
{
    int rc = pcre2_jit_match(splitter->code, (PCRE2_SPTR)text, len, at, 0, scratch->match,
                             scratch->context);
    if (rc != PCRE2_ERROR_JIT_STACKLIMIT || scratch->jit_stack)
        return rc;
    scratch->jit_stack = pcre2_jit_stack_create(JIT_STACK_BYTES, JIT_STACK_MAX_BYTES, NULL);
    if (!scratch->jit_stack)
        return rc;
    pcre2_jit_stack_assign(scratch->context, NULL, scratch->jit_stack);
    return pcre2_jit_match(splitter->code, (PCRE2_SPTR)text, len, at, 0, scratch->match,
                           scratch->context);
}

/* Finds the first match at or after `at`. */
static di_status find(const di_splitter *splitter, di_split_scratch *scratch, const char *text,
                      size_t len, size_t at, bool *found)
{
    int rc = splitter->has_jit ? match_with_jit(splitter, scratch, text, len, at)
                               : PCRE2_ERROR_JIT_STACKLIMIT;
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
        rc = pcre2_match(splitter->code, (PCRE2_SPTR)text, len, at,
                         PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, scratch->match, scratch->context);
    *found = rc >= 0;
    if (rc >= 0 || rc == PCRE2_ERROR_NOMATCH)
        return DI_OK;
    return fail_pcre2(
        rc == PCRE2_ERROR_NOMEMORY ? DI_ERR_MEMORY : DI_ERR_UNSUPPORTED,
        "a regex of the tokenizer's pre_tokenizer cannot be matched against this text", rc);
}

/* Cuts a piece of valid UTF-8 by the splits from `level` on. */
static di_status cut(const di_pretokenizer *pretokenizer, int level, di_split_scratch *scratch,
                     const char *text, size_t len)
{
    if (len == 0)
        return DI_OK;
    if (level == pretokenizer->n_splitters)
        return scratch->fn(scratch->user, text, len);
    size_t done = 0; /* everything before is given out */
    size_t at = 0;   /* where to look for the next match */
    while (at < len) {
        bool found;
        DI_TRY(find(pretokenizer->splitters[level], scratch, text, len, at, &found));
        if (!found)
            break;
        const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(scratch->match);
        const size_t begin = ends[0], end = ends[1];
        DI_TRY(cut(pretokenizer, level + 1, scratch, text + done, begin - done));
        DI_TRY(cut(pretokenizer, level + 1, scratch, text + begin, end - begin));
        done = at = end;
        if (begin == end && at < len) { /* an empty match cuts here; look on behind the character */
            size_t char_len;
            di_utf8_next(text + at, len - at, &char_len);
            at += char_len;
        }
    }
    return cut(pretokenizer, level + 1, scratch, text + done, len - done);
}

/* Bytes from the start that belong to no valid character. */
static size_t invalid_prefix(const char *text, size_t len)
{
    size_t at = 0, n;
    while (at < len && di_utf8_next(text + at, len - at, &n) != DI_UTF8_CHAR)
        at += n;
    return at;
}

di_status di_pretokenize(const di_pretokenizer *pretokenizer, di_split_scratch *scratch,
                         const char *text, size_t len, di_piece_fn fn, void *user)
{
    scratch->fn = fn;
    scratch->user = user;
    const uint64_t limit = MATCH_LIMIT + (uint64_t)len * MATCH_LIMIT_PER_BYTE;
    pcre2_set_match_limit(scratch->context, limit < UINT32_MAX ? (uint32_t)limit : UINT32_MAX);
    while (len) {
        const size_t valid = di_utf8_valid_prefix(text, len);
        DI_TRY(cut(pretokenizer, 0, scratch, text, valid));
        text += valid;
        len -= valid;
        const size_t invalid = invalid_prefix(text, len);
        if (invalid)
            DI_TRY(fn(user, text, invalid));
        text += invalid;
        len -= invalid;
    }
    return DI_OK;
}
