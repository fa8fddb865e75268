/* What a program outside the tree does first: strict C99, the installed headers, one call that
 * works and one that fails. Built in the tree too, so that it does not rot; tools/check_install.sh
 * builds it through pkg-config. Prints the version. */
#include <stdio.h>
#include <string.h>

#include <deepinfer/deepinfer.h>
#include <deepinfer/tools.h>

int main(void)
{
    char version[32];
    di_model *model = NULL;
    di_status status;

    snprintf(version, sizeof version, "%d.%d.%d", DI_VERSION_MAJOR, DI_VERSION_MINOR,
             DI_VERSION_PATCH);
    if (strcmp(version, di_version()) != 0) {
        fprintf(stderr, "header %s, library %s\n", version, di_version());
        return 1;
    }
    status = di_model_open("no such checkpoint", NULL, &model);
    if (status == DI_OK || model != NULL || strstr(di_last_error(), "no such checkpoint") == NULL) {
        fprintf(stderr, "status %s, error '%s'\n", di_status_name(status), di_last_error());
        return 1;
    }
    puts(di_version());
    return 0;
}
