/* Bytes as a chat request: rendered or refused with one line, content spans well formed. */
#include <stdlib.h>
#include <string.h>

#include "text/encoding.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static void check(bool is_true)
{
    if (!is_true)
        abort();
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    char *text = malloc(size + 1); /* exact size: reads beyond it are seen */
    check(text != NULL);
    memcpy(text, data, size);
    char *request = realloc(text, size ? size : 1);
    check(request != NULL);
    di_chat_prompt prompt = {0};
    if (di_chat_render_text(request, size, &prompt) == DI_OK) {
        check(prompt.text.len >= strlen(DI_CHAT_BOS));
        check(memcmp(prompt.text.data, DI_CHAT_BOS, strlen(DI_CHAT_BOS)) == 0);
        size_t end = 0;
        for (size_t i = 0; i < prompt.n_content; i++) {
            check(prompt.content[i].begin > end && prompt.content[i].end > prompt.content[i].begin);
            end = prompt.content[i].end;
        }
        check(end <= prompt.text.len);
    } else {
        const char *error = di_last_error();
        check(error[0] && !strchr(error, '\n'));
        check(!prompt.text.data && !prompt.content);
    }
    di_chat_prompt_free(&prompt);
    free(request);
    return 0;
}
