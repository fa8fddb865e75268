#include "kernels/swiglu/swiglu_vec.h"
