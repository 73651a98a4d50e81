/* A disk that fails on demand and loses what was not synced.
 *
 * Preloaded into the daemon, this keeps a durable image of every file below a directory: what a power cut would leave.
 * A good fsync copies to the image the pages that the kernel would write. While a file `fail` exists in the control
 * directory, an fsync of a path that contains its text fails with EIO; as in Linux, the pages that it should have
 * written are clean from then on, so that later syncs pass over them until they are written to again.
 *
 *   PLUMBAGO_POWER_DATA     the directory whose files are tracked
 *   PLUMBAGO_POWER_CONTROL  holds `fail`, and what this library writes: `image/KEY`, one file for each synced file;
 *                           `lost/KEY`, a byte for each page, 1 when a failed sync lost it; `failed`, a line for
 *                           each failed sync. KEY is INODE-SECONDS-NANOSECONDS, with the file's time of birth.
 *
 * Directory entries are taken for durable at once: created, renamed and removed files survive as such. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define PAGE 4096

static int (*real_fsync)(int);
static int (*real_fdatasync)(int);
static ssize_t (*real_write)(int, const void *, size_t);
static ssize_t (*real_writev)(int, const struct iovec *, int);
static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);

static const char *data, *control;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
/* True once any page was lost: writes have to be looked at. */
static volatile int any_lost;

__attribute__((constructor)) static void start(void) {
    real_fsync = dlsym(RTLD_NEXT, "fsync");
    real_fdatasync = dlsym(RTLD_NEXT, "fdatasync");
    real_write = dlsym(RTLD_NEXT, "write");
    real_writev = dlsym(RTLD_NEXT, "writev");
    real_pwrite = dlsym(RTLD_NEXT, "pwrite64");
    data = getenv("PLUMBAGO_POWER_DATA");
    control = getenv("PLUMBAGO_POWER_CONTROL");
    if (control) {
        char path[4096];
        snprintf(path, sizeof path, "%s/failed", control);
        any_lost = access(path, F_OK) == 0;
    }
}

/* The path of an open file below the tracked directory, or 0. */
static int tracked(int fd, char *path, size_t size) {
    char link[64];
    if (!data || !control) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, path, size - 1);
    if (len < 0) return 0;
    path[len] = 0;
    return strncmp(path, data, strlen(data)) == 0;
}

static int open_beside(const char *kind, int fd, int flags) {
    struct statx s;
    char path[4096];
    if (statx(fd, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &s)) return -1;
    snprintf(path, sizeof path, "%s/%s/%llu-%lld-%u", control, kind, (unsigned long long)s.stx_ino,
             (long long)s.stx_btime.tv_sec, s.stx_btime.tv_nsec);
    return open(path, flags, 0600);
}

/* Marks pages as lost, or as written to again. */
static void mark(int lost, off_t from, off_t to, char value) {
    for (off_t page = from / PAGE; page * PAGE < to; page++) real_pwrite(lost, &value, 1, page);
}

static int must_fail(const char *path) {
    char name[4096], text[4096];
    snprintf(name, sizeof name, "%s/fail", control);
    int fd = open(name, O_RDONLY);
    if (fd < 0) return 0;
    ssize_t len = read(fd, text, sizeof text - 1);
    close(fd);
    text[len > 0 ? len : 0] = 0;
    return strstr(path, text) != NULL;
}

/* Brings the image up to date, or notes what a failed sync has lost. */
static int sync_file(int fd, const char *path, int fail) {
    char link[64];
    struct stat s;
    static char page[PAGE], old[PAGE];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (fstat(fd, &s)) return -1;
    if (!S_ISREG(s.st_mode)) return 0;
    int file = open(link, O_RDONLY);
    int image = open_beside("image", fd, fail ? O_RDWR : O_RDWR | O_CREAT);
    int lost = open_beside("lost", fd, fail ? O_RDWR | O_CREAT : O_RDWR);
    for (off_t at = 0; file >= 0 && at < s.st_size; at += PAGE) {
        off_t next = lseek(file, at, SEEK_DATA);
        if (next < 0) break;
        at = next / PAGE * PAGE;
        ssize_t len = pread(file, page, PAGE, at);
        if (len <= 0) break;
        ssize_t known = image < 0 ? 0 : pread(image, old, PAGE, at);
        if (known < 0) known = 0;
        memset(old + known, 0, PAGE - known);
        if (known == len && memcmp(page, old, len) == 0) continue;
        char is_lost = 0;
        if (fail) {
            mark(lost, at, at + 1, 1);
        } else if (lost < 0 || pread(lost, &is_lost, 1, at / PAGE) < 1 || !is_lost) {
            real_pwrite(image, page, len, at);
        }
    }
    if (!fail && image >= 0 && ftruncate(image, s.st_size)) perror(path);
    if (file >= 0) close(file);
    if (image >= 0) close(image);
    if (lost >= 0) close(lost);
    return 0;
}

static int sync_any(int fd, int (*real)(int)) {
    char path[4096];
    if (!tracked(fd, path, sizeof path)) return real(fd);
    pthread_mutex_lock(&mutex);
    int fail = must_fail(path);
    sync_file(fd, path, fail);
    if (fail) {
        char name[4096];
        snprintf(name, sizeof name, "%s/failed", control);
        int log = open(name, O_WRONLY | O_CREAT | O_APPEND, 0600);
        strncat(path, "\n", sizeof path - strlen(path) - 1);
        real_write(log, path, strlen(path));
        close(log);
        any_lost = 1;
    }
    pthread_mutex_unlock(&mutex);
    if (!fail) return 0;
    errno = EIO;
    return -1;
}

int fsync(int fd) { return sync_any(fd, real_fsync); }
int fdatasync(int fd) { return sync_any(fd, real_fdatasync); }

/* Pages that are written to are dirty again. */
static void written(int fd, off_t from, ssize_t len) {
    char path[4096];
    int saved = errno;
    if (len > 0 && tracked(fd, path, sizeof path)) {
        pthread_mutex_lock(&mutex);
        int lost = open_beside("lost", fd, O_RDWR);
        if (lost >= 0) {
            mark(lost, from, from + len, 0);
            close(lost);
        }
        pthread_mutex_unlock(&mutex);
    }
    errno = saved;
}

ssize_t write(int fd, const void *bytes, size_t size) {
    ssize_t len = real_write(fd, bytes, size);
    if (any_lost && len > 0) {
        off_t end = lseek(fd, 0, SEEK_CUR);
        if (end >= len) written(fd, end - len, len);
    }
    return len;
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    ssize_t len = real_writev(fd, parts, count);
    if (any_lost && len > 0) {
        off_t end = lseek(fd, 0, SEEK_CUR);
        if (end >= len) written(fd, end - len, len);
    }
    return len;
}

ssize_t pwrite64(int fd, const void *bytes, size_t size, off_t at) {
    ssize_t len = real_pwrite(fd, bytes, size, at);
    if (any_lost) written(fd, at, len);
    return len;
}

ssize_t pwrite(int fd, const void *bytes, size_t size, off_t at) { return pwrite64(fd, bytes, size, at); }
