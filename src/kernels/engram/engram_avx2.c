#include "kernels/engram/engram_vec.h"
