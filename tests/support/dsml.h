/* Pieces of completions with tool calls. */
#ifndef DI_TEST_DSML_H
#define DI_TEST_DSML_H

#include "text/encoding.h"

#define CALLS      "<｜DSML｜ calls>"
#define CALLS_END  "</｜DSML｜ calls>"
#define INVOKE(f)  "<｜DSML｜ invoke name=\"" f "\">\n"
#define INVOKE_END "</｜DSML｜ invoke>"
#define PARAMETER(key, is_string, value)                                                           \
    "<｜DSML｜ parameter name=\"" key "\" string=\"" is_string "\">" value "</｜DSML｜ parameter>"
#define ONE_CALL                                                                                   \
    "\n\n" CALLS "\n" INVOKE("f") PARAMETER("q", "true", "x") "\n" INVOKE_END "\n" CALLS_END
#define EOS DI_CHAT_EOS

#endif
