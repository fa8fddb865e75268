#include "kernels/rmsnorm/rmsnorm_vec.h"
