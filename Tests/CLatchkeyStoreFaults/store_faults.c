/* SPDX-License-Identifier: MPL-2.0 */
#include "store_faults.h"

#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

/* What the disk held before a write or a truncation that is not synced yet. */
typedef struct Undo {
    struct Undo *next;
    sqlite3_int64 offset, size_before;
    int count;
    char bytes[];
} Undo;

typedef struct File {
    sqlite3_file base;
    Undo *undo;
    struct File *next_open;
    char *path;
    sqlite3_file *real;
} File;

static sqlite3_vfs *real_vfs;
static sqlite3_vfs faults_vfs;
static int armed;
static long at_step, steps;
static unsigned state;
static File *open_files;

static unsigned next_random(void)
{
    state = state * 1664525u + 1013904223u;
    return state >> 8;
}

/* Puts back what was there, newest first, for a random choice of the writes of each file. Only a tail of the history
 * may survive in part: a disk may keep later writes and lose earlier ones. The descriptors are the shim's own; that
 * closing them drops SQLite's locks does not matter, for the process ends. */
static void cut_power(void)
{
    for (File *file = open_files; file; file = file->next_open) {
        int descriptor = file->path ? open(file->path, O_RDWR | O_CLOEXEC) : -1;
        if (descriptor < 0) continue;
        int mode = next_random() % 3;
        for (Undo *undo = file->undo; undo; undo = undo->next) {
            if (mode == 1 || (mode == 2 && next_random() % 2)) continue;
            if (undo->count > 0 && pwrite(descriptor, undo->bytes, undo->count, undo->offset) != undo->count) abort();
            if (mode == 0 && ftruncate(descriptor, undo->size_before) != 0) abort();
        }
        close(descriptor);
    }
}

static int step(int is_write)
{
    steps++;
    if (!armed || steps < at_step) return SQLITE_OK;
    switch (armed) {
    case STORE_FAULT_POWER_CUT:
        cut_power();
        /* fall through */
    case STORE_FAULT_KILL:
        kill(getpid(), SIGKILL);
        for (;;) pause();
    case STORE_FAULT_ERROR:
        return SQLITE_IOERR;
    case STORE_FAULT_ERROR_ONCE:
        return steps == at_step ? SQLITE_IOERR : SQLITE_OK;
    case STORE_FAULT_FULL:
        return is_write ? SQLITE_FULL : SQLITE_OK;
    }
    return SQLITE_OK;
}

static void forget(File *file)
{
    while (file->undo) {
        Undo *undo = file->undo;
        file->undo = undo->next;
        free(undo);
    }
}

static void remember(File *file, sqlite3_int64 offset, sqlite3_int64 count)
{
    sqlite3_int64 size = 0;
    if (armed != STORE_FAULT_POWER_CUT) return;
    file->real->pMethods->xFileSize(file->real, &size);
    sqlite3_int64 there = offset < size ? size - offset : 0;
    if (there > count) there = count;
    Undo *undo = malloc(sizeof *undo + (size_t)there);
    if (!undo) abort();
    undo->offset = offset;
    undo->size_before = size;
    undo->count = (int)there;
    if (there > 0 && file->real->pMethods->xRead(file->real, undo->bytes, (int)there, offset) != SQLITE_OK) abort();
    undo->next = file->undo;
    file->undo = undo;
}

#define REAL(file) (((File *)(file))->real)

static int faults_close(sqlite3_file *base)
{
    File *file = (File *)base;
    for (File **place = &open_files; *place; place = &(*place)->next_open)
        if (*place == file) {
            *place = file->next_open;
            break;
        }
    forget(file);
    int code = REAL(base)->pMethods->xClose(REAL(base));
    free(file->path);
    return code;
}

static int faults_read(sqlite3_file *file, void *bytes, int count, sqlite3_int64 offset)
{
    return REAL(file)->pMethods->xRead(REAL(file), bytes, count, offset);
}

static int faults_write(sqlite3_file *file, const void *bytes, int count, sqlite3_int64 offset)
{
    int code = step(1);
    if (code != SQLITE_OK) return code == SQLITE_FULL ? code : SQLITE_IOERR_WRITE;
    remember((File *)file, offset, count);
    return REAL(file)->pMethods->xWrite(REAL(file), bytes, count, offset);
}

static int faults_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    if (step(0) != SQLITE_OK) return SQLITE_IOERR_TRUNCATE;
    sqlite3_int64 now = 0;
    REAL(file)->pMethods->xFileSize(REAL(file), &now);
    if (now > size) remember((File *)file, size, now - size);
    return REAL(file)->pMethods->xTruncate(REAL(file), size);
}

static int faults_sync(sqlite3_file *file, int flags)
{
    if (step(0) != SQLITE_OK) return SQLITE_IOERR_FSYNC;
    int code = REAL(file)->pMethods->xSync(REAL(file), flags);
    if (code == SQLITE_OK) forget((File *)file);
    return code;
}

static int faults_file_size(sqlite3_file *file, sqlite3_int64 *size)
{
    return REAL(file)->pMethods->xFileSize(REAL(file), size);
}

static int faults_lock(sqlite3_file *file, int level) { return REAL(file)->pMethods->xLock(REAL(file), level); }
static int faults_unlock(sqlite3_file *file, int level) { return REAL(file)->pMethods->xUnlock(REAL(file), level); }

static int faults_check_lock(sqlite3_file *file, int *result)
{
    return REAL(file)->pMethods->xCheckReservedLock(REAL(file), result);
}

static int faults_control(sqlite3_file *file, int operation, void *argument)
{
    return REAL(file)->pMethods->xFileControl(REAL(file), operation, argument);
}

static int faults_sector(sqlite3_file *file) { return REAL(file)->pMethods->xSectorSize(REAL(file)); }

/* No promise of the real device counts: writes may be torn and come in any order. */
static int faults_device(sqlite3_file *file)
{
    (void)file;
    return 0;
}

static const sqlite3_io_methods methods = {
    1, faults_close, faults_read, faults_write, faults_truncate, faults_sync, faults_file_size, faults_lock,
    faults_unlock, faults_check_lock, faults_control, faults_sector, faults_device,
    0, 0, 0, 0, 0, 0,
};

static int faults_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *base, int flags, int *out)
{
    (void)vfs;
    File *file = (File *)base;
    memset(file, 0, sizeof *file);
    file->real = (sqlite3_file *)(file + 1);
    int code = real_vfs->xOpen(real_vfs, name, file->real, flags, out);
    if (code != SQLITE_OK) return code;
    file->base.pMethods = &methods;
    if (name) {
        file->path = strdup(name);
        file->next_open = open_files;
        open_files = file;
    }
    return SQLITE_OK;
}

static int faults_delete(sqlite3_vfs *vfs, const char *name, int sync)
{
    (void)vfs;
    if (step(0) != SQLITE_OK) return SQLITE_IOERR_DELETE;
    return real_vfs->xDelete(real_vfs, name, sync);
}

int store_faults_register(void)
{
    if (real_vfs) return 0;
    if (sqlite3_initialize() != SQLITE_OK) return 1;
    sqlite3_vfs *found = sqlite3_vfs_find(NULL);
    if (!found) return 1;
    faults_vfs = *found;
    faults_vfs.zName = "faults";
    faults_vfs.szOsFile = (int)sizeof(File) + found->szOsFile;
    faults_vfs.xOpen = faults_open;
    faults_vfs.xDelete = faults_delete;
    faults_vfs.pNext = NULL;
    real_vfs = found;
    return sqlite3_vfs_register(&faults_vfs, 0) == SQLITE_OK ? 0 : 1;
}

void store_faults_arm(int fault, long where, unsigned seed)
{
    armed = fault;
    at_step = where;
    steps = 0;
    state = seed;
}

long store_faults_steps(void) { return steps; }

void store_faults_step(void) { step(0); }
