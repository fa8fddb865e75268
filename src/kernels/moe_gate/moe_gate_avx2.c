#include "kernels/moe_gate/moe_gate_vec.h"
