#include "hub_digest.h"

#include <openssl/evp.h>
#include <string.h>
#include <strings.h>

static const EVP_MD *algorithm(const char *etag)
{
    const size_t len = strlen(etag);
    if (strspn(etag, "0123456789abcdefABCDEF") != len)
        return NULL;
    return len == 64 ? EVP_sha256() : len == 40 ? EVP_sha1() : NULL;
}

di_status di_hub_digest_begin(di_hub_digest *digest, const di_hub_file *file, di_hub_error *error)
{
    digest->file = file;
    const EVP_MD *md = algorithm(file->etag);
    if (!md)
        return DI_OK;
    if (!digest->context)
        digest->context = EVP_MD_CTX_new();
    bool is_ready = digest->context && EVP_DigestInit_ex(digest->context, md, NULL);
    if (is_ready && EVP_MD_get_size(md) == 20) {
        char head[32];
        const int len = snprintf(head, sizeof head, "blob %lld", (long long)file->size);
        is_ready = EVP_DigestUpdate(digest->context, head, (size_t)len + 1); /* with its NUL */
    }
    return is_ready
               ? DI_OK
               : di_hub_fail(error, DI_ERR_RUNTIME, "%s: cannot start its checksum", file->name);
}

bool di_hub_digest_add(di_hub_digest *digest, const void *data, size_t len)
{
    return !digest->context || EVP_DigestUpdate(digest->context, data, len);
}

di_status di_hub_digest_check(di_hub_digest *digest, di_hub_error *error)
{
    if (!digest->context)
        return DI_OK;
    unsigned char bytes[EVP_MAX_MD_SIZE];
    unsigned int n = 0;
    if (!EVP_DigestFinal_ex(digest->context, bytes, &n))
        return di_hub_fail(error, DI_ERR_RUNTIME, "%s: cannot finish its checksum",
                           digest->file->name);
    char hex[2 * EVP_MAX_MD_SIZE + 1] = "";
    for (unsigned int i = 0; i < n; i++)
        snprintf(hex + 2 * i, 3, "%02x", bytes[i]);
    if (strcasecmp(hex, digest->file->etag))
        return di_hub_fail(error, DI_ERR_INPUT, "%s: found checksum %s, wanted %s",
                           digest->file->name, hex, digest->file->etag);
    return DI_OK;
}

void di_hub_digest_free(di_hub_digest *digest)
{
    EVP_MD_CTX_free(digest->context);
    digest->context = NULL;
}
