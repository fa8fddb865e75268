#include "kernels/hyper_connection/hyper_connection_vec.h"
