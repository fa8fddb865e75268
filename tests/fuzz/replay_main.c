/* Replays the files of a corpus folder through a fuzz target, so that every input that once failed
 * stays a unit test. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void replay(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return;
    fseek(f, 0, SEEK_END);
    const long size = ftell(f);
    rewind(f);
    uint8_t *data = malloc(size > 0 ? (size_t)size : 1);
    if (data && fread(data, 1, (size_t)size, f) == (size_t)size)
        LLVMFuzzerTestOneInput(data, (size_t)size);
    free(data);
    fclose(f);
}

int main(int argc, char **argv)
{
    int n = 0;
    for (int i = 1; i < argc; i++) {
        struct dirent **names = NULL;
        const int n_names = scandir(argv[i], &names, NULL, alphasort);
        for (int j = 0; j < n_names; j++) {
            char path[4096];
            snprintf(path, sizeof path, "%s/%s", argv[i], names[j]->d_name);
            if (names[j]->d_name[0] != '.') {
                replay(path);
                n++;
            }
            free(names[j]);
        }
        free(names);
    }
    printf("replayed %d inputs\n", n);
    return n > 0 ? 0 : 1;
}
