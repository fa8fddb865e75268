/* The environment of the Hugging Face tools. The only place of the program that reads it. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "hub_error.h"

static const char default_endpoint[] = "https://huggingface.co";

/* NULL if unset or empty. */
static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

/* `~/` at the start of the value is the home directory, as with the Hugging Face tools. */
static di_status set_cache_dir(di_hub_options *out, const char *base, const char *below,
                               di_hub_error *error)
{
    const char *home = variable("HOME");
    const bool is_below_home = home && base[0] == '~' && (base[1] == '/' || base[1] == 0);
    return di_hub_format(error, out->cache_dir, sizeof out->cache_dir, "%s%s%s",
                         is_below_home ? home : "", is_below_home ? base + 1 : base, below);
}

static di_status read_cache_dir(di_hub_options *out, di_hub_error *error)
{
    static const struct {
        const char *name, *below;
    } places[] = {
        {"HF_HUB_CACHE", ""},
        {"HF_HOME", "/hub"},
        {"XDG_CACHE_HOME", "/huggingface/hub"},
        {"HOME", "/.cache/huggingface/hub"},
    };
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const char *base = variable(places[i].name);
        if (base)
            return set_cache_dir(out, base, places[i].below, error);
    }
    return DI_OK;
}

/* Something that can stand in a request line or header without ending it. */
static bool is_visible_ascii(const char *text)
{
    for (; *text; text++)
        if (*text <= 0x20 || *text >= 0x7f)
            return false;
    return true;
}

static di_status read_endpoint(di_hub_options *out, di_hub_error *error)
{
    const char *given = variable("HF_ENDPOINT");
    const char *url = given ? given : default_endpoint;
    const bool is_http = !strncasecmp(url, "http://", 7) || !strncasecmp(url, "https://", 8);
    if (!is_http || !is_visible_ascii(url) || strpbrk(url, "?#@"))
        return di_hub_fail(error, DI_ERR_ARGUMENT,
                           "HF_ENDPOINT: found \"%.200s\", wanted http(s)://host[:port][/path]",
                           url);
    DI_HUB_TRY(di_hub_format(error, out->endpoint, sizeof out->endpoint, "%s", url));
    size_t len = strlen(out->endpoint);
    while (len > 0 && out->endpoint[len - 1] == '/')
        out->endpoint[--len] = 0;
    return DI_OK;
}

/* The text of the error never holds the token. */
static di_status read_token(di_hub_options *out, di_hub_error *error)
{
    const char *token = variable("HF_TOKEN");
    if (!token)
        return DI_OK;
    if (!is_visible_ascii(token) || strlen(token) >= sizeof out->token)
        return di_hub_fail(error, DI_ERR_ARGUMENT,
                           "HF_TOKEN: found %zu bytes that are no token, wanted under %zu "
                           "characters without blanks",
                           strlen(token), sizeof out->token);
    return di_hub_format(error, out->token, sizeof out->token, "%s", token);
}

static di_status read_offline(di_hub_options *out, di_hub_error *error)
{
    static const char *const on[] = {"1", "on", "yes", "true"};
    static const char *const off[] = {"0", "off", "no", "false"};
    const char *value = variable("HF_HUB_OFFLINE");
    if (!value)
        return DI_OK;
    for (size_t i = 0; i < sizeof on / sizeof *on; i++) {
        out->is_offline = !strcasecmp(value, on[i]);
        if (out->is_offline || !strcasecmp(value, off[i]))
            return DI_OK;
    }
    return di_hub_fail(error, DI_ERR_ARGUMENT, "HF_HUB_OFFLINE: found \"%.64s\", wanted 1 or 0",
                       value);
}

di_status di_hub_options_read(di_hub_options *out, di_hub_error *error)
{
    di_hub_options options = {.n_parallel = 4, .retry_delay_ms = 500, .free_bytes = -1};
    DI_HUB_TRY(read_cache_dir(&options, error));
    DI_HUB_TRY(read_endpoint(&options, error));
    DI_HUB_TRY(read_token(&options, error));
    DI_HUB_TRY(read_offline(&options, error));
    *out = options;
    return DI_OK;
}
