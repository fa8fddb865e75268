/* A grammar made deterministic while it is used. A parse in progress is a *set*: the places where
 * it may be, each with the chain of rules it will return to. Earley's algorithm in the form of a
 * graph-structured stack (Scott and Johnstone, GLL parsing), with every set and every stack node
 * kept once: a text that comes to the same situation again comes to the same set, so reading a byte
 * is a table look-up once the step was taken before, and going back is going back to a number. Tail
 * calls leave nothing on the stack. Internal to the folder; not thread-safe: the matcher holds the
 * lock. */
#ifndef DI_GRAMMAR_ACCEPTOR_H
#define DI_GRAMMAR_ACCEPTOR_H

#include <pthread.h>

#include "grammar/automaton.h"
#include "grammar/matcher.h"

/* A place: automaton state, stack node to return to, register. */
typedef struct di_item {
    uint32_t state, node, reg;
} di_item;

/* Sets by number. DI_SET_UNKNOWN is no set; nothing follows DI_SET_DEAD. */
#define DI_SET_UNKNOWN 0u
#define DI_SET_DEAD    1u

/* Nodes without a caller. Texts that return to DI_NODE_ROOT are complete. Returns to a bottom node
 * leave an item with the state DI_STATE_POP: how far a token goes without knowing the callers. From
 * DI_NODE_RELATIVE counts start at any number and know no bounds. */
#define DI_NODE_ROOT     0u
#define DI_NODE_BOTTOM   1u
#define DI_NODE_RELATIVE 2u
#define DI_STATE_POP     (UINT32_MAX - 1)
#define DI_STATE_ACCEPT  UINT32_MAX

typedef struct di_mask_list di_mask_list; /* grammar/mask.c */

typedef struct di_set {
    uint32_t first_item, n_items;
    uint32_t hash;
    uint32_t next;  /* where its table of steps begins; 0: none yet */
    uint64_t bytes; /* bit b % 64 for each byte b that an item reads; 0: not yet computed */
    bool accepts;   /* the text may end here */
    di_mask_list *mask;
} di_set;

typedef struct di_node {
    uint32_t first_entry, n_entries; /* where to go on after returning */
    uint32_t hash;
    uint32_t n_group;  /* nodes that refer to each other are made together, in a row: how many */
    uint32_t returned; /* the set after a return to it; DI_SET_UNKNOWN */
} di_node;

/* Register of a rule that writes members of an object: which, and how many in all. */
typedef struct di_member_set {
    uint32_t rule, count, first_word;
} di_member_set;

typedef struct di_id_table {
    uint32_t *ids; /* open addressing; 0: free */
    size_t cap, n;
} di_id_table;

typedef struct di_plain_match di_plain_match; /* grammar/plain.h */
typedef struct di_closure_work di_closure_work;

struct di_acceptor {
    atomic_int n_refs;
    pthread_mutex_t lock;
    di_grammar *grammar;
    di_vocab *vocab; /* NULL: no masks */
    di_set *sets;
    di_item *items;
    di_node *nodes;
    di_item *entries;
    uint32_t *steps;
    di_member_set *member_sets;
    uint64_t *words;
    size_t n_sets, n_items, n_nodes, n_entries, n_steps, n_member_sets, n_words;
    size_t cap_sets, cap_items, cap_nodes, cap_entries, cap_steps, cap_member_sets, cap_words;
    di_id_table set_table, node_table, member_table;
    di_closure_work *work;
    di_token_static **statics; /* [2 * n_states] by state and register kind */
    di_plain_match *plain;
    size_t mask_bytes, most_bytes;
    uint32_t start;
};

/* A step that was not taken before, or from DI_SET_DEAD. */
DI_WARN_UNUSED di_status di_acceptor_new_step(di_acceptor *a, uint32_t set, uint8_t byte,
                                              uint32_t *out);

/* The set after one more byte. DI_ERR_UNSUPPORTED if the grammar is too ambiguous to go on. */
DI_WARN_UNUSED static inline di_status di_acceptor_step(di_acceptor *a, uint32_t set, uint8_t byte,
                                                        uint32_t *out)
{
    const uint32_t table = a->sets[set].next;
    const uint32_t next =
        table == 0 ? DI_SET_UNKNOWN : a->steps[table + a->grammar->byte_class[byte]];
    if (next == DI_SET_UNKNOWN)
        return di_acceptor_new_step(a, set, byte, out);
    *out = next;
    return DI_OK;
}

/* Whether the text may have returned to a bottom node. Items are sorted, and a return is the last
 * of all states. */
static inline bool di_acceptor_has_returned(const di_acceptor *a, uint32_t set)
{
    const di_set *s = &a->sets[set];
    return s->n_items > 0 && a->items[s->first_item + s->n_items - 1].state == DI_STATE_POP;
}

/* Bit b % 64 for each byte b that may follow; 0 if none can. */
uint64_t di_acceptor_bytes(di_acceptor *a, uint32_t set);
/* The set of exactly these items, without what they call. */
DI_WARN_UNUSED di_status di_acceptor_place(di_acceptor *a, di_item item, uint32_t *out);
/* The set after a return to a node. */
DI_WARN_UNUSED di_status di_acceptor_returned(di_acceptor *a, uint32_t node, uint32_t *out);

/* grammar/closure.c */
DI_WARN_UNUSED di_status di_closure_create(const di_grammar *grammar, di_closure_work **out);
void di_closure_destroy(di_closure_work *work);
/* Begins a set; items are entered, then the set is completed. */
void di_closure_begin(di_acceptor *a);
DI_WARN_UNUSED di_status di_closure_enter(di_acceptor *a, di_item item);
DI_WARN_UNUSED di_status di_closure_finish(di_acceptor *a, uint32_t *set);

/* grammar/intern.c: each is kept once. Items and entries must be sorted by di_item_compare. */
int di_item_compare(const void *a, const void *b);
DI_WARN_UNUSED di_status di_intern_set(di_acceptor *a, const di_item *items, size_t n, bool accepts,
                                       uint32_t *set);
/* n nodes that may refer to each other: an entry's node DI_NODE_IN_GROUP + k is the k-th of them.
 */
#define DI_NODE_IN_GROUP 0x80000000u
typedef struct di_node_entries {
    const di_item *entries;
    uint32_t n;
} di_node_entries;
DI_WARN_UNUSED di_status di_intern_nodes(di_acceptor *a, const di_node_entries *nodes, uint32_t n,
                                         uint32_t *first);
/* Registers of member sets. *out is the register after writing `member` (n_members: another one);
 * *fits false if that may not be. */
DI_WARN_UNUSED di_status di_member_add(di_acceptor *a, uint32_t rule, uint32_t reg, uint32_t member,
                                       bool *fits, uint32_t *out);
bool di_member_complete(const di_acceptor *a, uint32_t rule, uint32_t reg);
bool di_member_more(const di_acceptor *a, uint32_t rule, uint32_t reg);

#endif
