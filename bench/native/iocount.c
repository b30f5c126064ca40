/* Counts what a process writes to files and how often it makes them durable.
 *
 *     gcc -shared -fPIC -O2 -o iocount.so iocount.c -ldl
 *     IOCOUNT_FILE=/path/of/counts LD_PRELOAD=./iocount.so program
 *
 * The counts are four 64-bit numbers in a file that is mapped, so that a SIGKILL does not lose them
 * (bench/processes.py reads it): syncs, nanoseconds spent in them, writes, bytes written. Counted are regular
 * files, without the standard outputs: a log is not what is measured. What goes through a memory map is not
 * seen; SQLite's index of its log, which is mapped, is never synced and need not survive.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* The function of the C library behind the one that stands in its place here. */
#define REAL(name) \
    static __typeof__(&name) real; \
    if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

struct counts {
    uint64_t syncs, sync_ns, writes, bytes;
};

static struct counts unmapped, *counts = &unmapped;

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("IOCOUNT_FILE");
    int handle = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (handle < 0) return;
    if (!ftruncate(handle, sizeof *counts)) {
        void *map = mmap(NULL, sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED, handle, 0);
        if (map != MAP_FAILED) counts = map;
    }
    close(handle);
}

static void add(uint64_t *count, uint64_t more)
{
    __atomic_fetch_add(count, more, __ATOMIC_RELAXED);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static ssize_t wrote(int handle, ssize_t length)
{
    struct stat about;
    if (length > 0 && handle > STDERR_FILENO && !fstat(handle, &about) && S_ISREG(about.st_mode)) {
        add(&counts->writes, 1);
        add(&counts->bytes, length);
    }
    return length;
}

static int synced(int (*sync)(int), int handle)
{
    uint64_t began = now_ns();
    int result = sync(handle);
    add(&counts->sync_ns, now_ns() - began);
    add(&counts->syncs, 1);
    return result;
}

int fsync(int handle)
{
    REAL(fsync);
    return synced(real, handle);
}

int fdatasync(int handle)
{
    REAL(fdatasync);
    return synced(real, handle);
}

ssize_t write(int handle, const void *data, size_t length)
{
    REAL(write);
    return wrote(handle, real(handle, data, length));
}

ssize_t pwrite(int handle, const void *data, size_t length, off_t offset)
{
    REAL(pwrite);
    return wrote(handle, real(handle, data, length, offset));
}

ssize_t pwrite64(int handle, const void *data, size_t length, off64_t offset)
{
    REAL(pwrite64);
    return wrote(handle, real(handle, data, length, offset));
}

ssize_t writev(int handle, const struct iovec *parts, int count)
{
    REAL(writev);
    return wrote(handle, real(handle, parts, count));
}

ssize_t pwritev(int handle, const struct iovec *parts, int count, off_t offset)
{
    REAL(pwritev);
    return wrote(handle, real(handle, parts, count, offset));
}
