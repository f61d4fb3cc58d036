/* A disk that fails at one of the calls that a process makes to it, or a machine that dies there: loaded before libc,
   so that SQLite's calls are met as well as Python's. See faulty_disk.py. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

enum { NO_SPACE, BROKEN, DIES_BEFORE, DIES_AFTER, TORN_DIES, TORN_NO_SPACE };

static char folder[4096];
static long number, at;
static int failure, log_to = -1;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

void faulty_disk(const char *of, long call, int how, int log) {
    number = 0, at = call, failure = how, log_to = log;
    strncpy(folder, of, sizeof folder - 1);
}

static int lies_in(const char *path) {
    return *folder && path && !strncmp(path, folder, strlen(folder)) && !strstr(path, "tensorboard");
}

static int belongs(int descriptor) {
    char name[64], path[4096];
    if (!*folder) return 0;
    snprintf(name, sizeof name, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(name, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return lies_in(path);
}

/* Whether this call is the one; every call is a byte in the log. */
static int turn(void) {
    if (log_to >= 0) REAL(write)(log_to, "x", 1);
    return __atomic_fetch_add(&number, 1, __ATOMIC_SEQ_CST) == at;
}

static int fails(void) {
    if (failure != NO_SPACE && failure != BROKEN && failure != TORN_NO_SPACE) kill(getpid(), SIGKILL);
    errno = failure == BROKEN ? EIO : ENOSPC;
    return -1;
}

#define CALL(concerned, act, torn)                                  \
    if (!(concerned) || !turn()) return act;                        \
    if (failure == TORN_DIES || failure == TORN_NO_SPACE) (void)torn; \
    if (failure == DIES_AFTER) (void)act;                           \
    return fails()

ssize_t write(int to, const void *data, size_t size) {
    CALL(belongs(to), REAL(write)(to, data, size), REAL(write)(to, data, size / 2));
}
ssize_t pwrite64(int to, const void *data, size_t size, off64_t place) {
    CALL(belongs(to), REAL(pwrite64)(to, data, size, place), REAL(pwrite64)(to, data, size / 2, place));
}
ssize_t pwrite(int to, const void *data, size_t size, off_t place) { return pwrite64(to, data, size, place); }
int fsync(int of) { CALL(belongs(of), REAL(fsync)(of), 0); }
int fdatasync(int of) { CALL(belongs(of), REAL(fdatasync)(of), 0); }
int ftruncate64(int of, off64_t size) { CALL(belongs(of), REAL(ftruncate64)(of, size), 0); }
int ftruncate(int of, off_t size) { return ftruncate64(of, size); }
int rename(const char *from, const char *to) { CALL(lies_in(to), REAL(rename)(from, to), 0); }
int link(const char *from, const char *to) { CALL(lies_in(to), REAL(link)(from, to), 0); }
int unlink(const char *path) { CALL(lies_in(path), REAL(unlink)(path), 0); }

#define OPEN(name)                                                                       \
    int name(const char *path, int flags, ...) {                                         \
        va_list more;                                                                    \
        va_start(more, flags);                                                           \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;          \
        va_end(more);                                                                    \
        int writes = flags & (O_WRONLY | O_RDWR | O_CREAT);                              \
        CALL(writes && lies_in(path), REAL(name)(path, flags, mode), 0);                 \
    }
OPEN(open)
OPEN(open64)
