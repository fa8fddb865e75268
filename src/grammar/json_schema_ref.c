/* $ref and its kin: what they name. Documents other than the schema's own are not looked for. */
#include <stdlib.h>
#include <string.h>

#include "grammar/json_schema_impl.h"

di_status di_js_read_draft(di_js *js)
{
    static const struct {
        const char *name;
        int draft;
    } drafts[] = {
        {"draft-03", 4}, {"draft-04", 4}, {"draft-06", 6}, {"draft-07", 7}, {"2019-09", 2019}};
    js->draft = 2020;
    const di_sj_value *schema = di_sj_get(js->document.root, "$schema");
    if (schema != NULL && schema->type != DI_SJ_STRING)
        return di_js_malformed(schema, "a string");
    for (size_t i = 0; schema != NULL && i < sizeof drafts / sizeof *drafts; i++)
        if (strstr(schema->text, drafts[i].name) != NULL)
            js->draft = drafts[i].draft;
    return DI_OK;
}

bool di_js_is_only_ref(const di_js *js, const di_sj_value *schema)
{
    return js->draft < 2019 && schema->type == DI_SJ_OBJECT && di_sj_get(schema, "$ref") != NULL;
}

/* Values inside enum and const are no schemas. */
static bool is_data(const di_sj_value *value)
{
    for (; value->parent != NULL; value = value->parent)
        if (value->key != NULL &&
            (strcmp(value->key, "enum") == 0 || strcmp(value->key, "const") == 0))
            return true;
    return false;
}

/* The identifier of a schema that starts a resource of its own. */
static const di_sj_value *id_of(const di_js *js, const di_sj_value *schema)
{
    if (schema->type != DI_SJ_OBJECT || (schema->parent != NULL && di_js_is_only_ref(js, schema)))
        return NULL;
    const di_sj_value *id = di_sj_get(schema, js->draft == 4 ? "id" : "$id");
    if (id == NULL || id->type != DI_SJ_STRING || id->text[0] == '#' || is_data(schema))
        return NULL;
    return id;
}

static const di_sj_value *resource_of(const di_js *js, const di_sj_value *value)
{
    while (value->parent != NULL && id_of(js, value) == NULL)
        value = value->parent;
    return value;
}

/* ---- URIs (RFC 3986, section 5.2), fragments left aside */

typedef struct uri {
    const char *scheme, *authority, *path, *query; /* with their delimiters */
    size_t n_scheme, n_authority, n_path, n_query;
} uri;

static uri split_uri(const char *text, size_t len)
{
    uri u = {0};
    const char *end = memchr(text, '#', len);
    end = end != NULL ? end : text + len;
    const char *p = text;
    const size_t n_scheme = strcspn(p, ":/?#");
    if (n_scheme > 0 && p + n_scheme < end && p[n_scheme] == ':') {
        u.scheme = p;
        u.n_scheme = n_scheme + 1;
        p += u.n_scheme;
    }
    if (end - p >= 2 && p[0] == '/' && p[1] == '/') {
        u.authority = p;
        u.n_authority = 2 + strcspn(p + 2, "/?#");
        p += u.n_authority;
    }
    u.path = p;
    u.n_path = strcspn(p, "?#");
    u.query = p + u.n_path;
    u.n_query = (size_t)(end - u.query);
    return u;
}

/* Appends a path without its "." and ".." segments. */
static di_status append_path(di_buf *out, const char *path, size_t n)
{
    const size_t base = out->len;
    for (size_t at = 0; at < n;) {
        const size_t slash = path[at] == '/';
        const char *segment = path + at + slash;
        const char *next = memchr(segment, '/', n - at - slash);
        const size_t len = next != NULL ? (size_t)(next - segment) : n - at - slash;
        const bool is_dot = len == 1 && segment[0] == '.';
        const bool is_up = len == 2 && segment[0] == '.' && segment[1] == '.';
        if (is_up) {
            while (out->len > base && out->data[out->len - 1] != '/')
                out->len--;
            if (out->len > base)
                out->len--;
        }
        if (!is_dot && !is_up)
            DI_TRY(di_buf_append(out, path + at, slash + len));
        else if (next == NULL)
            DI_TRY(di_buf_puts(out, "/"));
        at += slash + len;
    }
    return DI_OK;
}

static di_status resolve_uri(const char *base_text, size_t base_len, const char *text, size_t len,
                             di_buf *out)
{
    const uri base = split_uri(base_text, base_len), ref = split_uri(text, len);
    const bool is_absolute = ref.n_scheme > 0, has_authority = is_absolute || ref.n_authority > 0;
    const uri *from = is_absolute ? &ref : &base;
    if (from->n_scheme > 0)
        DI_TRY(di_buf_append(out, from->scheme, from->n_scheme));
    from = has_authority ? &ref : &base;
    if (from->n_authority > 0)
        DI_TRY(di_buf_append(out, from->authority, from->n_authority));
    if (has_authority || (ref.n_path > 0 && ref.path[0] == '/')) {
        DI_TRY(append_path(out, ref.path, ref.n_path));
    } else if (ref.n_path == 0) {
        DI_TRY(di_buf_append(out, base.path, base.n_path));
        if (ref.n_query == 0)
            return di_buf_append(out, base.query, base.n_query);
    } else {
        DI_BUF_AUTO merged = {0};
        size_t keep = base.n_path;
        while (keep > 0 && base.path[keep - 1] != '/')
            keep--;
        if (keep == 0 && base.n_authority > 0)
            DI_TRY(di_buf_puts(&merged, "/"));
        DI_TRY(di_buf_append(&merged, base.path, keep));
        DI_TRY(di_buf_append(&merged, ref.path, ref.n_path));
        DI_TRY(append_path(out, di_buf_str(&merged), merged.len));
    }
    return di_buf_append(out, ref.query, ref.n_query);
}

/* The absolute identifier of a resource. */
static di_status base_uri(const di_js *js, const di_sj_value *resource, di_buf *out)
{
    const di_sj_value *id = id_of(js, resource);
    if (resource->parent == NULL)
        return id == NULL ? DI_OK : resolve_uri("", 0, id->text, id->len, out);
    DI_BUF_AUTO base = {0};
    DI_TRY(base_uri(js, resource_of(js, resource->parent), &base));
    return resolve_uri(di_buf_str(&base), base.len, id->text, id->len, out);
}

/* The resource that `ref` names without its fragment, NULL if it is elsewhere. */
static di_status find_resource(di_js *js, const di_sj_value *ref, const di_sj_value **out)
{
    const di_sj_value *here = resource_of(js, ref->parent);
    const size_t n_uri = strcspn(ref->text, "#");
    *out = here;
    if (n_uri == 0)
        return DI_OK;
    DI_BUF_AUTO base = {0};
    DI_BUF_AUTO wanted = {0};
    DI_TRY(base_uri(js, here, &base));
    DI_TRY(resolve_uri(di_buf_str(&base), base.len, ref->text, n_uri, &wanted));
    *out = NULL;
    for (uint32_t i = 0; i < js->document.n_values && *out == NULL; i++) {
        const di_sj_value *value = js->document.values[i];
        if (value->parent != NULL && id_of(js, value) == NULL)
            continue;
        DI_BUF_AUTO found = {0};
        DI_TRY(base_uri(js, value, &found));
        if (found.len == wanted.len &&
            memcmp(di_buf_str(&found), di_buf_str(&wanted), found.len) == 0)
            *out = value;
    }
    return DI_OK;
}

/* ---- fragments */

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    const char lower = (char)(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

static di_status percent_decode(const char *text, size_t len, di_buf *out)
{
    DI_TRY(di_buf_reserve(out, len + 1));
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (c == '%' && i + 2 < len && hex_value(text[i + 1]) >= 0 && hex_value(text[i + 2]) >= 0) {
            c = (char)(hex_value(text[i + 1]) * 16 + hex_value(text[i + 2]));
            i += 2;
        }
        DI_TRY(di_buf_append(out, &c, 1));
    }
    return DI_OK;
}

static const di_sj_value *step(const di_sj_value *value, const char *token, size_t len)
{
    if (value->type == DI_SJ_OBJECT)
        return di_sj_member(value, token, len);
    if (value->type != DI_SJ_ARRAY || len == 0 || len > 9 || (len > 1 && token[0] == '0'))
        return NULL;
    uint32_t index = 0;
    for (size_t i = 0; i < len; i++) {
        if (token[i] < '0' || token[i] > '9')
            return NULL;
        index = index * 10 + (uint32_t)(token[i] - '0');
    }
    return index < value->n ? &value->items[index] : NULL;
}

/* `pointer` starts with `/`; ~0 and ~1 are undone in place. */
static const di_sj_value *walk(const di_sj_value *value, char *pointer, size_t len)
{
    for (size_t at = 0; at < len && value != NULL;) {
        char *token = pointer + at + 1;
        size_t n = 0;
        for (at++; at < len && pointer[at] != '/'; at++) {
            char c = pointer[at];
            if (c == '~' && at + 1 < len && (pointer[at + 1] == '0' || pointer[at + 1] == '1'))
                c = pointer[++at] == '0' ? '~' : '/';
            token[n++] = c;
        }
        value = step(value, token, n);
    }
    return value;
}

static const di_sj_value *find_anchor(const di_js *js, const di_sj_value *resource,
                                      const char *anchor, size_t *n_dynamic)
{
    const di_sj_value *found = NULL;
    for (uint32_t i = 0; i < js->document.n_values; i++) {
        const di_sj_value *value = js->document.values[i];
        if (value->type != DI_SJ_OBJECT || is_data(value))
            continue;
        const di_sj_value *plain = di_sj_get(value, "$anchor");
        const di_sj_value *dynamic = di_sj_get(value, "$dynamicAnchor");
        const di_sj_value *id = di_sj_get(value, js->draft == 4 ? "id" : "$id");
        const bool is_dynamic = dynamic != NULL && di_sj_is_text(dynamic, anchor);
        const bool is_id = js->draft < 2019 && id != NULL && id->type == DI_SJ_STRING &&
                           id->text[0] == '#' && strcmp(id->text + 1, anchor) == 0;
        *n_dynamic += is_dynamic;
        if ((is_dynamic || is_id || (plain != NULL && di_sj_is_text(plain, anchor))) &&
            found == NULL && resource_of(js, value) == resource)
            found = value;
    }
    return found;
}

static di_status no_target(const di_sj_value *ref)
{
    DI_BUF_AUTO pointer = {0};
    DI_TRY(di_sj_pointer(ref, &pointer));
    return di_fail(DI_ERR_INPUT, "JSON schema: %s: found \"%.120s\", wanted something that exists",
                   di_buf_str(&pointer), ref->text);
}

static di_status resolve(di_js *js, const di_sj_value *ref, const di_sj_value **target)
{
    if (ref->type != DI_SJ_STRING)
        return di_js_malformed(ref, "a string");
    const di_sj_value *resource;
    DI_TRY(find_resource(js, ref, &resource));
    *target = NULL;
    if (resource == NULL)
        return di_js_refuse(js, ref, "what it names is not in this document");
    DI_BUF_AUTO fragment = {0};
    const size_t n_uri = strcspn(ref->text, "#");
    if (n_uri < ref->len)
        DI_TRY(percent_decode(ref->text + n_uri + 1, ref->len - n_uri - 1, &fragment));
    size_t n_dynamic = 0;
    if (fragment.len == 0)
        *target = resource;
    else if (fragment.data[0] == '/')
        *target = walk(resource, fragment.data, fragment.len);
    else
        *target = find_anchor(js, resource, di_buf_str(&fragment), &n_dynamic);
    if (*target == NULL)
        return no_target(ref);
    if (strcmp(ref->key, "$dynamicRef") == 0 && n_dynamic > 1)
        return di_js_refuse(js, ref, "its target depends on the way to it");
    if (strcmp(ref->key, "$recursiveRef") == 0 && di_sj_get(*target, "$recursiveAnchor") != NULL)
        return di_js_refuse(js, ref, "its target depends on the way to it");
    return DI_OK;
}

di_status di_js_resolve(di_js *js, const di_sj_value *ref, const di_sj_value **target)
{
    if (js->targets == NULL)
        DI_TRY(DI_ARENA_ZNEW(&js->scratch, js->document.n_values, &js->targets));
    *target = js->targets[ref->id];
    if (*target != NULL)
        return DI_OK;
    DI_TRY(resolve(js, ref, target));
    js->targets[ref->id] = *target;
    return DI_OK;
}
