#include "kernels/vocab/vocab_vec.h"
