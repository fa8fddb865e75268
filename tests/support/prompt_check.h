/* Chat requests rendered and compared, or refused with a given error. */
#ifndef DI_TEST_PROMPT_CHECK_H
#define DI_TEST_PROMPT_CHECK_H

#include "text/encoding.h"

/* The template's own text: every content span replaced by a #. */
void di_prompt_template(const di_chat_prompt *prompt, di_buf *out);
void di_prompt_render(const char *request, di_chat_prompt *out);
void di_assert_prompt(const char *request, const char *wanted);
void di_assert_prompt_template(const char *request, const char *wanted);
void di_assert_prompt_refused(const char *request, const char *error);

#endif
