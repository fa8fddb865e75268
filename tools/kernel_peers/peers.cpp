// Times this engine's linears beside ggml's MXFP4 and OpenBLAS's sgemm on the same logical
// products, call after call in turn, and prints one table (tools/peers/compare.sh builds and runs
// it).
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"

extern "C" {
#include "base/threads.h"
#include "deepinfer/deepinfer.h"
#include "kernels/gemm/gemm.h"
#include "kernels/grouped_gemm/grouped_gemm.h"
#include "kernels/kernel.h"
}

namespace
{

constexpr size_t rotate_bytes = 640u << 20; // weights go through so much memory

clockid_t used_clock = CLOCK_MONOTONIC;

double now_us(clockid_t clock = CLOCK_MONOTONIC)
{
    timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

uint32_t random32()
{
    static uint64_t s = 88172645463325252u;
    s ^= s << 13, s ^= s >> 7, s ^= s << 17;
    return (uint32_t)(s >> 16);
}

uint8_t *large(size_t n)
{
    const size_t page = 2u << 20;
    n = (n + page - 1) / page * page;
    void *p = mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    madvise(p, n, MADV_HUGEPAGE);
    return (uint8_t *)p;
}

struct shape {
    const char *name;
    int64_t n, k, m, experts; // experts 0: one weight; else m tokens by 6 of them
};

struct entry {
    std::string name;
    std::function<void()> call;
    std::vector<double> us;
};

struct context {
    int n_threads;
    di_pool *pool;
    ggml_backend_t backend;
    di_kernel_mask mask;
    void (*sgemm)(int, int, int, int, int, int, float, const float *, int, const float *, int,
                  float, float *, int);
};

// ------------------------------------------------------------------------------- this engine

std::vector<int32_t> route(int64_t tokens, int64_t experts) // [tokens, 6]
{
    std::vector<int32_t> ids;
    for (int64_t t = 0; t < tokens; t++) {
        for (int j = 0; j < 6;) {
            const int32_t e = (int32_t)(random32() % (uint32_t)experts);
            if (std::find(ids.end() - j, ids.end(), e) != ids.end())
                continue;
            ids.push_back(e);
            j++;
        }
    }
    return ids;
}

entry own(const context &c, const shape &s, di_op op, const std::vector<int32_t> &ids)
{
    const bool is_f4 = op == DI_OP_grouped_gemm_f4;
    const di_kernel *kernel = di_kernel_select(op, DI_WIDTH_ANY, true, &c.mask);
    const size_t codes = (size_t)(is_f4 ? s.n * s.k / 2 : s.n * s.k);
    const size_t scales = (size_t)(is_f4 ? s.n * s.k / 32 : (s.n + 31) / 32 * (s.k / 32));
    const size_t one = (codes + scales + 63) / 64 * 64;
    const int64_t n_weights = s.experts ? s.experts : (int64_t)(rotate_bytes / one) + 1;
    uint8_t *w = large(one * (size_t)n_weights);
    for (size_t i = 0; i < one * (size_t)n_weights; i += 4) {
        const uint32_t r = is_f4 ? random32() : random32() & 0xbfbfbfbfu;
        memcpy(w + i, &r, 4);
    }
    for (int64_t i = 0; i < n_weights; i++)
        for (size_t j = 0; j < scales; j++)
            w[(size_t)i * one + codes + j] = (uint8_t)(118 + random32() % 4);
    auto *x = (di_bf16 *)large((size_t)(s.m * s.k) * 2);
    for (int64_t i = 0; i < s.m * s.k; i++)
        x[i] = (di_bf16)((random32() & 0x80ff) | 0x3f00);
    const int64_t rows = s.experts ? 6 * s.m : s.m;
    void *y = large((size_t)(rows * s.n) * 2);
    uint8_t *scratch = large((size_t)c.n_threads * DI_GEMM_SCRATCH_BYTES);
    entry e;
    e.name = std::string(is_f4 ? "F4 " : "F8 ") + kernel->name;
    di_pool *pool = c.pool;
    auto *turn = new int64_t(0);
    if (!is_f4) {
        e.call = [=] {
            const uint8_t *at = w + (size_t)((*turn)++ % n_weights) * one;
            di_gemm_args a = {};
            a.x = x, a.x_stride = s.k, a.w = at, a.scales = at + codes;
            a.y = y, a.y_stride = s.n, a.m = s.m, a.n = s.n, a.k = s.k;
            a.scratch = scratch, a.scratch_stride = DI_GEMM_SCRATCH_BYTES;
            di_pool_run(pool, kernel->fn, &a, s.n);
        };
        return e;
    }
    auto *weights = new std::vector<di_qweight>((size_t)n_weights);
    auto *active = new std::vector<const di_qweight *>;
    auto *begin = new std::vector<int32_t>{0};
    auto *rows_of = new std::vector<int32_t>;
    for (int64_t i = 0; i < n_weights; i++) {
        di_qweight q = {};
        q.codes = w + (size_t)i * one, q.scales = q.codes + codes, q.n_out = s.n, q.n_in = s.k;
        (*weights)[(size_t)i] = q;
    }
    for (int64_t i = 0; s.experts && i < n_weights; i++) {
        for (size_t j = 0; j < ids.size(); j++)
            if (ids[j] == i)
                rows_of->push_back((int32_t)(j / 6));
        if ((int32_t)rows_of->size() == begin->back())
            continue;
        begin->push_back((int32_t)rows_of->size());
        active->push_back(&(*weights)[(size_t)i]);
    }
    if (!s.experts) {
        begin->push_back((int32_t)s.m);
        active->push_back(nullptr);
    }
    e.call = [=] {
        if (!s.experts)
            (*active)[0] = &(*weights)[(size_t)((*turn)++ % n_weights)];
        di_grouped_gemm_args a = {};
        a.x = x, a.x_stride = s.k, a.rows = s.experts ? rows_of->data() : nullptr;
        a.weights = active->data(), a.expert_begin = begin->data(), a.y = (di_bf16 *)y;
        a.n_active = (int64_t)active->size(), a.n = s.n, a.k = s.k;
        a.scratch = scratch, a.scratch_stride = DI_GEMM_SCRATCH_BYTES;
        di_pool_run(pool, kernel->fn, &a, s.n * a.n_active);
    };
    return e;
}

// ------------------------------------------------------------------------------- ggml

ggml_backend_buffer_type_t repack_type()
{
    ggml_backend_dev_t cpu = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    auto get = (ggml_backend_dev_get_extra_bufts_t)ggml_backend_reg_get_proc_address(
        ggml_backend_dev_backend_reg(cpu), "ggml_backend_dev_get_extra_bufts");
    for (auto *b = get ? get(cpu) : nullptr; b && *b; b++)
        if (strcmp(ggml_backend_buft_name(*b), "CPU_REPACK") == 0)
            return *b;
    return nullptr;
}

entry ggml(const context &c, const shape &s, bool is_repack, const std::vector<int32_t> &ids)
{
    const size_t one = (size_t)(s.n * s.k / 32 * 17) * (size_t)(s.experts ? s.experts : 1);
    const int64_t n_weights = s.experts ? 1 : (int64_t)(rotate_bytes / one) + 1;
    ggml_init_params p = {ggml_tensor_overhead() * (size_t)(n_weights * 4 + 16) +
                              (size_t)n_weights * ggml_graph_overhead(),
                          nullptr, true};
    ggml_context *wc = ggml_init(p), *xc = ggml_init(p);
    std::vector<ggml_tensor *> w;
    for (int64_t i = 0; i < n_weights; i++)
        w.push_back(s.experts ? ggml_new_tensor_3d(wc, GGML_TYPE_MXFP4, s.k, s.n, s.experts)
                              : ggml_new_tensor_2d(wc, GGML_TYPE_MXFP4, s.k, s.n));
    ggml_backend_alloc_ctx_tensors_from_buft(wc, is_repack ? repack_type()
                                                           : ggml_backend_cpu_buffer_type());
    std::vector<uint8_t> bytes(one);
    for (size_t i = 0; i < one; i++)
        bytes[i] = (uint8_t)(i % 17 ? random32() : 118 + random32() % 4);
    for (ggml_tensor *t : w)
        ggml_backend_tensor_set(t, bytes.data(), 0, one);
    ggml_tensor *x = s.experts ? ggml_new_tensor_3d(xc, GGML_TYPE_F32, s.k, 1, s.m)
                               : ggml_new_tensor_2d(xc, GGML_TYPE_F32, s.k, s.m);
    ggml_tensor *id = ggml_new_tensor_2d(xc, GGML_TYPE_I32, 6, s.m);
    auto *graphs = new std::vector<ggml_cgraph *>;
    for (ggml_tensor *t : w) {
        ggml_cgraph *g = ggml_new_graph_custom(xc, 8, false);
        ggml_build_forward_expand(g, s.experts ? ggml_mul_mat_id(xc, t, x, id)
                                               : ggml_mul_mat(xc, t, x));
        graphs->push_back(g);
    }
    ggml_backend_alloc_ctx_tensors(xc, c.backend);
    std::vector<float> values((size_t)(s.m * s.k));
    for (float &v : values)
        v = (float)(int32_t)random32() * 0x1p-31f;
    ggml_backend_tensor_set(x, values.data(), 0, values.size() * sizeof(float));
    if (s.experts)
        ggml_backend_tensor_set(id, ids.data(), 0, ids.size() * sizeof(int32_t));
    ggml_backend_t backend = c.backend;
    auto *turn = new size_t(0);
    return {is_repack ? "ggml MXFP4 repack" : "ggml MXFP4",
            [=] { ggml_backend_graph_compute(backend, (*graphs)[(*turn)++ % graphs->size()]); },
            {}};
}

// ------------------------------------------------------------------------------- OpenBLAS

entry blas(const context &c, const shape &s)
{
    const size_t one = (size_t)(s.n * s.k);
    const size_t n_weights = rotate_bytes / 4 / one + 1;
    auto *w = (float *)large(one * n_weights * 4), *x = (float *)large((size_t)(s.m * s.k) * 4);
    auto *y = (float *)large((size_t)(s.m * s.n) * 4);
    for (size_t i = 0; i < one * n_weights; i++)
        w[i] = (float)(int32_t)random32() * 0x1p-31f;
    for (int64_t i = 0; i < s.m * s.k; i++)
        x[i] = (float)(int32_t)random32() * 0x1p-31f;
    auto *turn = new size_t(0);
    auto sgemm = c.sgemm;
    return {"OpenBLAS sgemm",
            [=] { // y [m, n] = x [m, k] w [n, k]^T, row-major
                sgemm(101, 111, 112, (int)s.m, (int)s.n, (int)s.k, 1.0f, x, (int)s.k,
                      w + (*turn)++ % n_weights * one, (int)s.k, 0.0f, y, (int)s.n);
            },
            {}};
}

// ------------------------------------------------------------------------------- a shape

void measure(const context &c, const shape &s, double seconds)
{
    const std::vector<int32_t> ids = s.experts ? route(s.m, s.experts) : std::vector<int32_t>();
    std::vector<entry> all;
    all.push_back(own(c, s, DI_OP_grouped_gemm_f4, ids));
    if (!s.experts)
        all.push_back(own(c, s, DI_OP_gemm_f8, ids));
    all.push_back(ggml(c, s, false, ids));
    if (repack_type())
        all.push_back(ggml(c, s, true, ids));
    if (!s.experts && c.sgemm)
        all.push_back(blas(c, s));
    for (entry &e : all) // caches and threads are warm
        e.call();
    const double begun = now_us();
    for (int i = 0; i < 5 || (now_us() - begun < seconds * 1e6 && i < 2000); i++) {
        for (entry &e : all) {
            const double at = now_us(used_clock);
            e.call();
            e.us.push_back(now_us(used_clock) - at);
        }
    }
    const double flops = 2.0 * (double)(s.m * (s.experts ? 6 : 1) * s.n * s.k);
    double first = 0;
    for (entry &e : all) {
        std::sort(e.us.begin(), e.us.end());
        const double median = e.us[e.us.size() / 2];
        first = first > 0 ? first : median;
        printf("%-22s m=%-4d T=%d  %-18s %11.1f %11.1f %9.1f %7.2f\n", s.name, (int)s.m,
               c.n_threads, e.name.c_str(), median, e.us[0], flops / median * 1e-3, median / first);
    }
    fflush(stdout);
}

// In a process of its own, whose memory goes with it.
int run(const shape &s, int n_threads, double seconds)
{
    fflush(stdout);
    const pid_t child = fork();
    if (child != 0) {
        int status = 0;
        return child > 0 && waitpid(child, &status, 0) == child ? status : 1;
    }
    if (n_threads == 1) // what else runs on the machine counts less
        used_clock = CLOCK_THREAD_CPUTIME_ID;
    context c = {};
    c.n_threads = n_threads;
    if (di_kernel_mask_parse(nullptr, nullptr, &c.mask) != DI_OK ||
        di_pool_create(n_threads, &c.pool) != DI_OK) {
        fprintf(stderr, "peers: %s\n", di_last_error());
        _exit(1);
    }
    c.backend = ggml_backend_cpu_init();
    ggml_backend_cpu_set_n_threads(c.backend, n_threads);
    if (void *lib = dlopen("libopenblas.so.0", RTLD_NOW)) {
        c.sgemm = (decltype(c.sgemm))dlsym(lib, "cblas_sgemm");
        ((void (*)(int))dlsym(lib, "openblas_set_num_threads"))(n_threads);
    }
    measure(c, s, seconds);
    fflush(stdout);
    _exit(0);
}

} // namespace

int main(int argc, char **argv)
{
    const int n_threads = argc > 1 ? atoi(argv[1]) : 1;
    const double seconds = argc > 2 ? atof(argv[2]) : 2.0;
    printf("%-22s %-10s  %-18s %11s %11s %9s %7s\n", "product", "", "who", "median us", "min us",
           "GFLOP/s", "x first");
    const shape shapes[] = {{"4608 x 5120", 4608, 5120, 0, 0},
                            {"5120 x 2304", 5120, 2304, 0, 0},
                            {"32768 x 1280", 32768, 1280, 0, 0},
                            {"5120 x 8192", 5120, 8192, 0, 0}};
    int failed = run({"2304 x 5120, 6 of 64", 2304, 5120, 64, 64}, n_threads, seconds);
    for (const shape &s : shapes)
        for (int64_t m : {1, 8, 16, 64, 256})
            failed |= run({s.name, s.n, s.k, m, 0}, n_threads, seconds);
    return failed ? 1 : 0;
}
