/* Sets, stack nodes and registers, each kept once. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "grammar/acceptor.h"

int di_item_compare(const void *a, const void *b)
{
    const di_item *x = a, *y = b;
    if (x->state != y->state)
        return x->state < y->state ? -1 : 1;
    if (x->node != y->node)
        return x->node < y->node ? -1 : 1;
    return (x->reg > y->reg) - (x->reg < y->reg);
}

static uint32_t mix(uint32_t hash, uint32_t value)
{
    hash = (hash ^ value) * 0x9E3779B1u;
    return hash ^ hash >> 15;
}

static uint32_t hash_items(uint32_t hash, const di_item *items, size_t n)
{
    for (size_t i = 0; i < n; i++)
        hash = mix(mix(mix(hash, items[i].state), items[i].node), items[i].reg);
    return hash;
}

/* Room for one more id; `hash_of` finds the place of those there are. */
static di_status table_reserve(di_id_table *table, const di_acceptor *a,
                               uint32_t (*hash_of)(const di_acceptor *, uint32_t))
{
    if (2 * (table->n + 1) <= table->cap)
        return DI_OK;
    const size_t cap = table->cap == 0 ? 64 : 2 * table->cap;
    uint32_t *ids = calloc(cap, sizeof *ids);
    if (ids == NULL)
        return di_fail_memory(cap * sizeof *ids, "a table of a grammar's sets");
    for (size_t i = 0; i < table->cap; i++) {
        if (table->ids[i] == 0)
            continue;
        size_t at = hash_of(a, table->ids[i]) & (cap - 1);
        while (ids[at] != 0)
            at = (at + 1) & (cap - 1);
        ids[at] = table->ids[i];
    }
    free(table->ids);
    table->ids = ids;
    table->cap = cap;
    return DI_OK;
}

static uint32_t set_hash(const di_acceptor *a, uint32_t set)
{
    return a->sets[set].hash;
}

di_status di_intern_set(di_acceptor *a, const di_item *items, size_t n, bool accepts, uint32_t *set)
{
    if (n == 0 && !accepts) {
        *set = DI_SET_DEAD;
        return DI_OK;
    }
    DI_TRY(table_reserve(&a->set_table, a, set_hash));
    const uint32_t hash = hash_items(accepts, items, n);
    size_t at = hash & (a->set_table.cap - 1);
    for (; a->set_table.ids[at] != 0; at = (at + 1) & (a->set_table.cap - 1)) {
        const di_set *s = &a->sets[a->set_table.ids[at]];
        if (s->hash == hash && s->n_items == n && s->accepts == accepts &&
            (n == 0 || memcmp(a->items + s->first_item, items, n * sizeof *items) == 0)) {
            *set = a->set_table.ids[at];
            return DI_OK;
        }
    }
    DI_TRY(DI_GROW(&a->sets, &a->cap_sets, a->n_sets + 1));
    DI_TRY(DI_GROW(&a->items, &a->cap_items, a->n_items + n));
    if (n > 0)
        memcpy(a->items + a->n_items, items, n * sizeof *items);
    a->sets[a->n_sets] = (di_set){.first_item = (uint32_t)a->n_items,
                                  .n_items = (uint32_t)n,
                                  .hash = hash,
                                  .accepts = accepts};
    a->n_items += n;
    *set = (uint32_t)a->n_sets++;
    a->set_table.ids[at] = *set;
    a->set_table.n++;
    return DI_OK;
}

/* Groups stand in the table under their first node, with the hash of all. */
static uint32_t node_hash(const di_acceptor *a, uint32_t node)
{
    return a->nodes[node].hash;
}

static uint32_t in_group(uint32_t node, uint32_t first, uint32_t n)
{
    return node >= first && node - first < n ? DI_NODE_IN_GROUP + (node - first) : node;
}

static bool same_group(const di_acceptor *a, uint32_t first, const di_node_entries *nodes,
                       uint32_t n)
{
    if (a->nodes[first].n_group != n)
        return false;
    for (uint32_t k = 0; k < n; k++) {
        const di_node *node = &a->nodes[first + k];
        if (node->n_entries != nodes[k].n)
            return false;
        for (uint32_t i = 0; i < node->n_entries; i++) {
            di_item entry = a->entries[node->first_entry + i];
            entry.node = in_group(entry.node, first, n);
            if (di_item_compare(&entry, &nodes[k].entries[i]) != 0)
                return false;
        }
    }
    return true;
}

static di_status add_group(di_acceptor *a, const di_node_entries *nodes, uint32_t n, uint32_t hash)
{
    const uint32_t first = (uint32_t)a->n_nodes;
    DI_TRY(DI_GROW(&a->nodes, &a->cap_nodes, a->n_nodes + n));
    for (uint32_t k = 0; k < n; k++) {
        DI_TRY(DI_GROW(&a->entries, &a->cap_entries, a->n_entries + nodes[k].n));
        a->nodes[first + k] = (di_node){.first_entry = (uint32_t)a->n_entries,
                                        .n_entries = nodes[k].n,
                                        .hash = hash,
                                        .n_group = n};
        for (uint32_t i = 0; i < nodes[k].n; i++) {
            di_item entry = nodes[k].entries[i];
            if (entry.node >= DI_NODE_IN_GROUP)
                entry.node = first + (entry.node - DI_NODE_IN_GROUP);
            a->entries[a->n_entries++] = entry;
        }
    }
    a->n_nodes += n;
    return DI_OK;
}

di_status di_intern_nodes(di_acceptor *a, const di_node_entries *nodes, uint32_t n, uint32_t *first)
{
    DI_TRY(table_reserve(&a->node_table, a, node_hash));
    uint32_t hash = n;
    for (uint32_t k = 0; k < n; k++)
        hash = mix(hash_items(hash, nodes[k].entries, nodes[k].n), nodes[k].n);
    size_t at = hash & (a->node_table.cap - 1);
    for (; a->node_table.ids[at] != 0; at = (at + 1) & (a->node_table.cap - 1)) {
        const uint32_t id = a->node_table.ids[at];
        if (a->nodes[id].hash == hash && same_group(a, id, nodes, n)) {
            *first = id;
            return DI_OK;
        }
    }
    const uint32_t id = (uint32_t)a->n_nodes;
    DI_TRY(add_group(a, nodes, n, hash));
    a->node_table.ids[at] = id;
    a->node_table.n++;
    *first = id;
    return DI_OK;
}

/* --- registers of member sets: 0 is the empty set of any rule --- */

static const uint64_t *words_of(const di_acceptor *a, uint32_t reg)
{
    return a->words + a->member_sets[reg].first_word;
}

static bool has_member(const di_acceptor *a, uint32_t reg, uint32_t member)
{
    return reg != 0 && (words_of(a, reg)[member / 64] >> (member % 64) & 1) != 0;
}

static uint32_t n_missing(const di_acceptor *a, uint32_t rule, uint32_t reg)
{
    const di_rule *r = &a->grammar->rules[rule];
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->n_members; i++)
        n += r->is_required[i] && !has_member(a, reg, i);
    return n;
}

static uint32_t count_of(const di_acceptor *a, uint32_t reg)
{
    return reg == 0 ? 0 : a->member_sets[reg].count;
}

bool di_member_complete(const di_acceptor *a, uint32_t rule, uint32_t reg)
{
    const di_rule *r = &a->grammar->rules[rule];
    return count_of(a, reg) >= r->min && n_missing(a, rule, reg) == 0;
}

bool di_member_more(const di_acceptor *a, uint32_t rule, uint32_t reg)
{
    const di_rule *r = &a->grammar->rules[rule];
    if (count_of(a, reg) >= r->max && r->max != DI_REPEAT_INF)
        return false;
    const bool only_required =
        r->max != DI_REPEAT_INF && count_of(a, reg) + n_missing(a, rule, reg) >= r->max;
    if (r->has_others && !only_required)
        return true;
    for (uint32_t i = 0; i < r->n_members; i++)
        if (!has_member(a, reg, i) && (r->is_required[i] || !only_required))
            return true;
    return false;
}

static uint32_t member_hash(const di_acceptor *a, uint32_t reg)
{
    const di_member_set *set = &a->member_sets[reg];
    uint32_t hash = mix(set->rule, set->count);
    const uint32_t n_words = a->grammar->rules[set->rule].n_members / 64 + 1;
    for (uint32_t i = 0; i < n_words; i++) {
        const uint64_t word = words_of(a, reg)[i];
        hash = mix(mix(hash, (uint32_t)word), (uint32_t)(word >> 32));
    }
    return hash;
}

/* The register at the end of the pool, or the one that equals it. */
static di_status intern_member_set(di_acceptor *a, uint32_t n_words, uint32_t *out)
{
    const uint32_t last = (uint32_t)a->n_member_sets;
    DI_TRY(table_reserve(&a->member_table, a, member_hash));
    size_t at = member_hash(a, last) & (a->member_table.cap - 1);
    for (; a->member_table.ids[at] != 0; at = (at + 1) & (a->member_table.cap - 1)) {
        const uint32_t id = a->member_table.ids[at];
        if (a->member_sets[id].rule == a->member_sets[last].rule &&
            a->member_sets[id].count == a->member_sets[last].count &&
            memcmp(words_of(a, id), words_of(a, last), n_words * 8) == 0) {
            a->n_words -= n_words;
            *out = id;
            return DI_OK;
        }
    }
    a->n_member_sets++;
    a->member_table.ids[at] = last;
    a->member_table.n++;
    *out = last;
    return DI_OK;
}

di_status di_member_add(di_acceptor *a, uint32_t rule, uint32_t reg, uint32_t member, bool *fits,
                        uint32_t *out)
{
    const di_rule *r = &a->grammar->rules[rule];
    const bool is_member = member < r->n_members;
    const uint32_t missing = n_missing(a, rule, reg) -
                             (is_member && r->is_required[member] && !has_member(a, reg, member));
    const uint32_t count = count_of(a, reg) + 1;
    *fits = !(is_member && has_member(a, reg, member)) &&
            (r->max == DI_REPEAT_INF || count + missing <= r->max);
    if (!*fits)
        return DI_OK;
    const uint32_t n_words = r->n_members / 64 + 1;
    if (a->n_member_sets == 0)
        a->n_member_sets = 1; /* register 0 has no entry of its own */
    DI_TRY(DI_GROW(&a->member_sets, &a->cap_member_sets, a->n_member_sets + 1));
    DI_TRY(DI_GROW(&a->words, &a->cap_words, a->n_words + n_words));
    uint64_t *words = a->words + a->n_words;
    memset(words, 0, n_words * sizeof *words);
    if (reg != 0)
        memcpy(words, words_of(a, reg), n_words * sizeof *words);
    if (is_member)
        words[member / 64] |= (uint64_t)1 << (member % 64);
    /* Beyond the least number only the set matters, unless there is a bound. */
    const bool saturates = r->max == DI_REPEAT_INF && count > r->min;
    a->member_sets[a->n_member_sets] = (di_member_set){
        .rule = rule, .count = saturates ? r->min : count, .first_word = (uint32_t)a->n_words};
    a->n_words += n_words;
    return intern_member_set(a, n_words, out);
}
