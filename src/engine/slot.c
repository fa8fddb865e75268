#include "engine/slot.h"

#include "base/checked.h"

static di_status new_slot(di_slot_list *list, const di_runner *runner, di_slot **out)
{
    di_slot *slot = calloc(1, sizeof *slot);
    if (!slot)
        return di_fail_memory(sizeof *slot, "a sequence's slot");
    const di_status status = di_compressor_state_new(runner, &slot->compressor_state);
    if (status != DI_OK) {
        free(slot);
        return status;
    }
    list->n_slots++;
    *out = slot;
    return DI_OK;
}

static di_status prepare(di_slot *slot, const di_runner *runner, const di_slot_setup *setup)
{
    if (runner->model->token_map)
        DI_TRY(DI_GROW(&slot->engram_ids, &slot->engram_cap, (size_t)setup->max_len));
    const size_t n_blocks = (size_t)di_ceil_div(setup->max_len, DI_KV_BLOCK_TOKENS);
    for (int g = 0; g < runner->kv.layout.n_groups; g++)
        DI_TRY(DI_GROW(&slot->tables[g], &slot->table_caps[g], n_blocks));
    if (setup->rejects) {
        slot->drawn = malloc(DI_MAX_DRAFTS * sizeof *slot->drawn);
        if (!slot->drawn)
            return di_fail_memory(DI_MAX_DRAFTS * sizeof *slot->drawn, "a sequence's drafts");
    }
    DI_TRY(di_sampler_state_init(&slot->sampler, &setup->sampler));
    slot->has_sampler = true;
    return DI_OK;
}

di_status di_slot_take(di_slot_list *list, const di_runner *runner, const di_slot_setup *setup,
                       di_slot **out)
{
    di_slot *slot = list->free;
    if (slot) {
        list->free = slot->next;
        list->n_free--;
    } else {
        DI_TRY(new_slot(list, runner, &slot));
    }
    slot->next = NULL;
    slot->generation++;
    slot->last_token = -1;
    slot->n_drafts = 0;
    slot->draft_floor = 0;
    const di_status status = prepare(slot, runner, setup);
    if (status != DI_OK) {
        di_slot_give_back(list, slot);
        return status;
    }
    *out = slot;
    return DI_OK;
}

void di_slot_give_back(di_slot_list *list, di_slot *slot)
{
    if (slot->has_sampler)
        di_sampler_state_free(&slot->sampler);
    slot->has_sampler = false;
    free(slot->drawn);
    slot->drawn = NULL;
    slot->generation++;
    slot->next = list->free;
    list->free = slot;
    list->n_free++;
}

void di_slot_list_free(di_slot_list *list)
{
    for (di_slot *slot = list->free, *next; slot; slot = next) {
        next = slot->next;
        free(slot->engram_ids);
        for (int g = 0; g < DI_MAX_KV_GROUPS; g++)
            free(slot->tables[g]);
        free(slot->compressor_state);
        free(slot);
    }
    *list = (di_slot_list){.free = NULL};
}
