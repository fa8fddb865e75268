/* An opened checkpoint: what di_model points to. Constant after di_model_open. */
#ifndef DI_ENGINE_MODEL_H
#define DI_ENGINE_MODEL_H

#include "grammar/compile.h"
#include "model/network.h"
#include "text/tokenizer.h"
#include "weights/placed.h"

struct di_model {
    di_buf dir_buf;
    const char *dir; /* resolved checkpoint directory, in dir_buf */
    di_config config;
    di_generation_config generation;
    di_weights *weights;
    di_placed_weights *placed; /* NULL: all weights are mapped */
    di_tokenizer *tokenizer;
    int32_t *token_map; /* [vocab_size], NULL without engram layers */
    di_network network;
    di_grammar_cache *grammars; /* compiled constraints of all its engines' requests */
};

#endif
