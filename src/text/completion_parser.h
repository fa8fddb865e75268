/* Inside of the completion parser: completion.c reads reasoning and content, completion_block.c
 * reads tool calls. */
#ifndef DI_TEXT_COMPLETION_PARSER_H
#define DI_TEXT_COMPLETION_PARSER_H

#include "base/arena.h"
#include "base/strmap.h"
#include "text/completion.h"

typedef enum di_completion_stage {
    DI_STAGE_START, /* nothing was read yet: a <think> may stand here */
    DI_STAGE_TEXT,
    DI_STAGE_BLOCK,
} di_completion_stage;

typedef enum di_block_step {
    DI_BLOCK_BETWEEN,         /* wants an invoke or the end of the block */
    DI_BLOCK_HEAD,            /* reads the name of the tool */
    DI_BLOCK_PARAMETER,       /* reads name and value of a parameter */
    DI_BLOCK_PARAMETER_END,   /* wants the > of the parameter's end tag */
    DI_BLOCK_AFTER_PARAMETER, /* wants a parameter or the end of the invoke */
    DI_BLOCK_INVOKE_END,      /* wants the > of the invoke's end tag */
} di_block_step;

/* Result of a step over the buffered text. */
typedef enum di_progress {
    DI_PROGRESS_MADE,
    DI_PROGRESS_WAIT,      /* what is next depends on text to come */
    DI_PROGRESS_MALFORMED, /* block steps only */
} di_progress;

struct di_completion_parser {
    di_completion_rules rules;
    di_delta_fn fn;
    void *user;
    di_status failed; /* of an earlier call: every later one gives it again */

    di_buf text;   /* text [at, len) is neither given out nor dropped */
    size_t at;     /* start of the text or block being read */
    size_t offset; /* bytes of the completion before text.data */
    size_t work;
    di_completion_stage stage;
    di_delta_kind kind; /* of the text being read: reasoning or content */
    bool is_raw;        /* blocks are not recognised: one was malformed */
    bool had_block;

    /* DI_STAGE_BLOCK: the raw text since the last complete call is [at, len). */
    di_block_step step;
    size_t cursor;     /* where the step reads */
    size_t scanned;    /* the step's search went up to here without success */
    size_t marker_end; /* of the block's start tag */
    size_t n_block_calls;
    di_buf name;
    di_buf arguments;
    di_strmap keys;   /* parameter names of this call */
    di_arena scratch; /* one value's check */
};

/* Gives text [at, end) out and moves on. */
DI_WARN_UNUSED di_status di_completion_emit_text(di_completion_parser *p, size_t end);
/* Whether the text at `at` starts with s, or may do so when more text comes. */
typedef enum di_match { DI_MATCH_NONE, DI_MATCH_PARTIAL, DI_MATCH_FULL } di_match;
di_match di_completion_match(di_completion_parser *p, size_t at, const char *s);
DI_WARN_UNUSED di_status di_completion_fail(di_completion_parser *p, size_t at, const char *what);

/* Starts a block whose start tag is [begin, end). */
void di_completion_block_open(di_completion_parser *p, size_t begin, size_t end);
/* Reads as far as one step goes. On MALFORMED, *why says what was wrong. */
DI_WARN_UNUSED di_status di_completion_block_read(di_completion_parser *p, di_progress *progress,
                                                  const char **why);

#endif
