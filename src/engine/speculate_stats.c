#include "engine/engine.h"

_Static_assert((int)DI_STATS_DRAFT_SLOTS == (int)DI_MAX_DRAFTS, "slots of a block");

void di_speculation_stats(const di_speculation *s, di_engine_stats *out)
{
    di_confidence_report report;
    if (!s->is_on || !s->has_drafter)
        return;
    di_confidence_report_of(&s->confidence, &report);
    out->draft_blocks = report.n_blocks;
    out->accepted_len = report.accepted_len;
    out->draft_calibration_error = report.ece;
    out->draft_raw_error = report.raw_ece;
    out->plain_plans = s->planner.n_plain;
    for (int32_t i = 0; i < report.n_slots && i < DI_STATS_DRAFT_SLOTS; i++)
        out->draft_slots[i] = (di_draft_slot_stats){
            .reached = report.slots[i].n_reached,
            .accepted = report.slots[i].n_accepted,
        };
}
