#include "prompt_check.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <string.h>

void di_prompt_template(const di_chat_prompt *prompt, di_buf *out)
{
    size_t at = 0;
    for (size_t i = 0; i < prompt->n_content; i++) {
        const di_text_span *span = &prompt->content[i];
        assert_true(span->begin < span->end && span->end <= prompt->text.len);
        assert_true(i == 0 || span->begin > prompt->content[i - 1].end);
        assert_int_equal(di_buf_append(out, prompt->text.data + at, span->begin - at), DI_OK);
        assert_int_equal(di_buf_puts(out, "#"), DI_OK);
        at = span->end;
    }
    assert_int_equal(di_buf_append(out, prompt->text.data + at, prompt->text.len - at), DI_OK);
}

void di_prompt_render(const char *request, di_chat_prompt *out)
{
    *out = (di_chat_prompt){0};
    if (di_chat_render_text(request, strlen(request), out) != DI_OK)
        fail_msg("%s: %s", request, di_last_error());
    assert_int_equal(strlen(out->text.data), out->text.len);
}

void di_assert_prompt(const char *request, const char *wanted)
{
    di_chat_prompt prompt;
    di_prompt_render(request, &prompt);
    assert_string_equal(prompt.text.data, wanted);
    di_chat_prompt_free(&prompt);
}

void di_assert_prompt_template(const char *request, const char *wanted)
{
    di_chat_prompt prompt;
    DI_BUF_AUTO text = {0};
    di_prompt_render(request, &prompt);
    di_prompt_template(&prompt, &text);
    assert_string_equal(di_buf_str(&text), wanted);
    di_chat_prompt_free(&prompt);
}

void di_assert_prompt_refused(const char *request, const char *error)
{
    di_chat_prompt prompt = {0};
    assert_int_equal(di_chat_render_text(request, strlen(request), &prompt), DI_ERR_INPUT);
    assert_string_equal(di_last_error(), error);
    assert_null(prompt.text.data);
    assert_null(prompt.content);
}
