/* Lets writes and syncs of a process below a folder fail, as a disk does that is full, worn out or read-only.
 *
 *     gcc -shared -fPIC -O2 -o faults.so faults.c -ldl
 *     FAULTS_ROOT=/path/of/state FAULTS_PLAN=/path/of/plan LD_PRELOAD=faults.so program
 *
 * The plan is a file of eight 64-bit numbers that both sides map (tests/support/faults.py writes it):
 *
 *     0  the error number; 0: all is well          3  how many such calls fail; negative: all from then on
 *     1  which calls: 1 writes, 2 syncs, 4 names   4  counted here: the calls of these kinds so far
 *     2  the first that fails, from 1              5  counted here: how many have failed
 *
 * "Names" are opening to write, removing, renaming and making folders: what a read-only file system refuses. A
 * sync that fails has thrown away nothing; what the kernel would do then is unknown, and nobody may rely on it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

enum { WRITES = 1, SYNCS = 2, NAMES = 4 };
/* The function of the C library behind the one that stands in its place here. */
#define REAL(name) \
    static __typeof__(&name) real; \
    if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

static volatile int64_t *plan;
static char root[PATH_MAX];
static size_t root_length;

__attribute__((constructor)) static void begin(void)
{
    const char *folder = getenv("FAULTS_ROOT"), *file = getenv("FAULTS_PLAN");
    if (!folder || !file || strlen(folder) >= sizeof root) return;
    strcpy(root, folder);
    root_length = strlen(root);
    int handle = open(file, O_RDWR | O_CLOEXEC);
    if (handle < 0) return;
    void *there = mmap(NULL, 8 * sizeof(int64_t), PROT_READ | PROT_WRITE, MAP_SHARED, handle, 0);
    close(handle);
    if (there != MAP_FAILED) plan = there;
}

static int is_ours(const char *path)
{
    return plan && path && !strncmp(path, root, root_length) && path[root_length] == '/';
}

static int is_open_there(int handle)
{
    char link[64], path[PATH_MAX];
    if (!plan || !plan[0]) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", handle);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return is_ours(path) || !strcmp(path, root);
}

/* Whether this call is to fail; errno says how. */
static int fails(int kind)
{
    if (!plan || !plan[0] || !(plan[1] & kind)) return 0;
    int64_t number = __atomic_add_fetch(&plan[4], 1, __ATOMIC_SEQ_CST);
    if (number < plan[2] || (plan[3] >= 0 && number >= plan[2] + plan[3])) return 0;
    __atomic_add_fetch(&plan[5], 1, __ATOMIC_SEQ_CST);
    errno = (int)plan[0];
    return 1;
}

static mode_t mode_of(int flags, va_list more) { return flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0; }

static int opened(int folder, const char *path, int flags, mode_t mode)
{
    REAL(openat);
    if ((flags & (O_WRONLY | O_RDWR | O_CREAT)) && is_ours(path) && fails(NAMES)) return -1;
    return real(folder, path, flags, mode);
}

#define OPEN(name) \
    int name(const char *path, int flags, ...) \
    { \
        va_list more; \
        va_start(more, flags); \
        mode_t mode = mode_of(flags, more); \
        va_end(more); \
        return opened(AT_FDCWD, path, flags, mode); \
    }
OPEN(open)
OPEN(open64)

int openat64(int folder, const char *path, int flags, ...)
{
    va_list more;
    va_start(more, flags);
    mode_t mode = mode_of(flags, more);
    va_end(more);
    return opened(folder, path, flags, mode);
}

int unlink(const char *path)
{
    REAL(unlink);
    return is_ours(path) && fails(NAMES) ? -1 : real(path);
}

int rename(const char *before, const char *after)
{
    REAL(rename);
    return is_ours(after) && fails(NAMES) ? -1 : real(before, after);
}

int mkdir(const char *path, mode_t mode)
{
    REAL(mkdir);
    return is_ours(path) && fails(NAMES) ? -1 : real(path, mode);
}

ssize_t pwrite64(int handle, const void *data, size_t length, off64_t offset)
{
    REAL(pwrite64);
    return is_open_there(handle) && fails(WRITES) ? -1 : real(handle, data, length, offset);
}

ssize_t pwrite(int handle, const void *data, size_t length, off_t offset)
{
    return pwrite64(handle, data, length, offset);
}

ssize_t write(int handle, const void *data, size_t length)
{
    REAL(write);
    return is_open_there(handle) && fails(WRITES) ? -1 : real(handle, data, length);
}

int ftruncate64(int handle, off64_t length)
{
    REAL(ftruncate64);
    return is_open_there(handle) && fails(WRITES) ? -1 : real(handle, length);
}

int ftruncate(int handle, off_t length) { return ftruncate64(handle, length); }

int fsync(int handle)
{
    REAL(fsync);
    return is_open_there(handle) && fails(SYNCS) ? -1 : real(handle);
}

int fdatasync(int handle)
{
    REAL(fdatasync);
    return is_open_there(handle) && fails(SYNCS) ? -1 : real(handle);
}
