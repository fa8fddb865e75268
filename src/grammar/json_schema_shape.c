/* Shapes, their facts, sets of literals. */
#include <string.h>

#include "grammar/json_schema_impl.h"

di_status di_js_add_fact(di_js *js, di_js_shapes *shapes, di_js_fact fact)
{
    enum { BLOCK = 128 };
    DI_TRY(di_js_check_work(js));
    for (size_t i = 0; i < shapes->n; i++) {
        if (js->n_free_facts == 0) {
            DI_TRY(DI_ARENA_NEW(&js->scratch, BLOCK, &js->free_facts));
            js->n_free_facts = BLOCK;
        }
        di_js_fact *copy = js->free_facts++;
        js->n_free_facts--;
        *copy = fact;
        copy->before = shapes->items[i].last;
        shapes->items[i].last = copy;
    }
    return DI_OK;
}

void di_js_restrict(di_js_shapes *shapes, uint32_t types)
{
    size_t n = 0;
    for (size_t i = 0; i < shapes->n; i++) {
        di_js_shape shape = shapes->items[i];
        shape.types &= types;
        if (shape.types != 0)
            shapes->items[n++] = shape;
    }
    shapes->n = n;
}

static di_status grow(di_js *js, di_js_shapes *shapes, size_t need)
{
    if (need <= shapes->cap)
        return DI_OK;
    const size_t cap = need > 2 * shapes->cap ? need : 2 * shapes->cap;
    di_js_shape *items;
    DI_TRY(DI_ARENA_NEW(&js->scratch, cap, &items));
    if (shapes->n > 0)
        memcpy(items, shapes->items, shapes->n * sizeof *items);
    shapes->items = items;
    shapes->cap = cap;
    return DI_OK;
}

di_status di_js_shapes_copy(di_js *js, const di_js_shapes *from, di_js_shapes *out)
{
    *out = (di_js_shapes){0};
    DI_TRY(grow(js, out, from->n));
    if (from->n > 0)
        memcpy(out->items, from->items, from->n * sizeof *from->items);
    out->n = from->n;
    return DI_OK;
}

di_status di_js_shapes_append(di_js *js, di_js_shapes *to, const di_js_shapes *more)
{
    if (to->n + more->n > DI_JS_SHAPES_MOST)
        return di_fail(DI_ERR_UNSUPPORTED, "more than %d alternatives", DI_JS_SHAPES_MOST);
    DI_TRY(grow(js, to, to->n + more->n));
    if (more->n > 0)
        memcpy(to->items + to->n, more->items, more->n * sizeof *more->items);
    to->n += more->n;
    return DI_OK;
}

static bool is_about(const di_js_fact *fact, di_js_name name)
{
    return fact->name_len == name.len && memcmp(fact->name, name.text, name.len) == 0;
}

static bool says_required(const di_js_fact *fact, di_js_name name)
{
    return fact->kind == DI_JS_FACT_REQUIRED && is_about(fact, name);
}

static bool says_forbidden(const di_js_fact *fact, di_js_name name)
{
    return fact->kind == DI_JS_FACT_PROPERTY && fact->lit == DI_JS_FALSE && is_about(fact, name);
}

/* Takes the objects out of the shapes in which a fact says the opposite. */
static void drop_objects(di_js_shapes *shapes, di_js_name name,
                         bool (*says_opposite)(const di_js_fact *, di_js_name))
{
    for (size_t i = 0; i < shapes->n; i++)
        for (const di_js_fact *fact = shapes->items[i].last; fact != NULL; fact = fact->before)
            if (says_opposite(fact, name))
                shapes->items[i].types &= ~(uint32_t)DI_JS_OBJECT;
    di_js_restrict(shapes, DI_JS_ANY);
}

di_status di_js_require(di_js *js, di_js_shapes *shapes, di_js_name name)
{
    drop_objects(shapes, name, says_forbidden);
    return di_js_add_fact(js, shapes,
                          (di_js_fact){.kind = DI_JS_FACT_REQUIRED,
                                       .is_anywhere = true,
                                       .name = name.text,
                                       .name_len = name.len});
}

di_status di_js_forbid(di_js *js, di_js_shapes *shapes, di_js_name name)
{
    drop_objects(shapes, name, says_required);
    return di_js_add_fact(js, shapes,
                          (di_js_fact){.kind = DI_JS_FACT_PROPERTY,
                                       .lit = DI_JS_FALSE,
                                       .name = name.text,
                                       .name_len = name.len});
}

di_status di_js_facts(di_js *js, const di_js_shape *shape, const di_js_fact *const **facts,
                      size_t *n)
{
    size_t count = 0;
    for (const di_js_fact *fact = shape->last; fact != NULL; fact = fact->before)
        count++;
    const di_js_fact **list;
    DI_TRY(DI_ARENA_NEW(&js->scratch, count, &list));
    *n = count;
    for (const di_js_fact *fact = shape->last; fact != NULL; fact = fact->before)
        list[--count] = fact;
    *facts = list;
    return DI_OK;
}

di_status di_js_lits_add(di_js *js, di_js_lits *lits, di_js_lit lit)
{
    for (size_t i = 0; i < lits->n; i++)
        if (lits->items[i] == lit)
            return DI_OK;
    if (lits->n == lits->cap) {
        const size_t cap = lits->cap == 0 ? 8 : 2 * lits->cap;
        di_js_lit *items;
        DI_TRY(DI_ARENA_NEW(&js->scratch, cap, &items));
        if (lits->n > 0)
            memcpy(items, lits->items, lits->n * sizeof *items);
        lits->items = items;
        lits->cap = cap;
    }
    lits->items[lits->n++] = lit;
    return DI_OK;
}

bool di_js_has_false(const di_js *js, const di_js_lits *lits)
{
    for (size_t i = 0; i < lits->n; i++) {
        const di_js_lit lit = lits->items[i];
        if (lit == DI_JS_FALSE)
            return true;
        if (lit != DI_JS_TRUE && (lit & 1) == 0 && di_js_schema_of(js, lit)->type == DI_SJ_FALSE)
            return true;
    }
    return false;
}
