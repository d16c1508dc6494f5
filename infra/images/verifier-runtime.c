/* Starts the interpreter that judges, with an environment and arguments that nobody else has a say in.

   Statically linked, so that no loader and no library of the judged file system runs before it. Usage: launch
   It finds itself in /proc/self/exe: the runtime lies wherever its folder is mounted. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What programs under test need to know about their machine; the runner hands it on and reads none of it. */
static const char *const KEPT[] = {"PATH=", "HOSTNAME="};
enum { KEPT_COUNT = sizeof KEPT / sizeof *KEPT };

static char *below(const char *root, const char *name) {
    char *path = malloc(strlen(root) + strlen(name) + 1);
    if (path == NULL) _exit(125);
    return strcat(strcpy(path, root), name);
}

int main(int count, char **given, char **environment) {
    char root[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", root, sizeof root - 1);
    const char own[] = "/bin/launch";
    size_t own_length = sizeof own - 1;
    (void)given;
    if (count != 1 || length < (ssize_t)own_length) return 125;
    root[length] = '\0';
    if (strcmp(root + length - own_length, own) != 0) return 125;
    root[length - own_length] = '\0';

    char *loader = below(root, "/lib/ld.so"), *libraries = below(root, "/lib");
    char *interpreter = below(root, "/bin/python3"), *runner = below(root, "/runner.py");
    char *arguments[] = {loader, "--inhibit-cache", "--library-path", libraries, interpreter,
                         "-I", "-S", "-B", "-X", "utf8", runner, NULL};
    /* LC_ALL=C keeps the interpreter from loading a locale, which would be a file of the judged file system. */
    char *clean[KEPT_COUNT + 3] = {"LC_ALL=C", below("OPENSSL_CONF=", below(root, "/empty"))};
    size_t used = 2;
    for (; *environment != NULL; environment++)
        for (size_t i = 0; i < KEPT_COUNT; i++)
            if (used < KEPT_COUNT + 2 && strncmp(*environment, KEPT[i], strlen(KEPT[i])) == 0) clean[used++] = *environment;
    clean[used] = NULL;
    execve(loader, arguments, clean);
    perror("the interpreter of the verifier runtime cannot be started");
    return 125;
}
