/*
 * The log that recorder.c writes: all that was done to the files of one folder, by all threads of all processes that
 * it is preloaded into, in one order; and what the clients were told.
 *
 * The log is one file that all of them map. It begins with a page of bookkeeping; the records follow. log.py reads them.
 */
#ifndef RECORDER_H
#define RECORDER_H

#include <stdint.h>

enum record_type {
    RECORD_CREATE = 1, /* file `file` was made; text: its name */
    RECORD_UNLINK = 2, /* text: the name that was removed */
    RECORD_RENAME = 3, /* text: the old name, a NUL, the new one */
    RECORD_WRITE = 4,  /* at offset `number`; text: the bytes */
    RECORD_SIZE = 5,   /* the file was cut or grown to `number` bytes */
    RECORD_SYNC = 6,   /* a sync begins: it covers what was recorded before; file 0 is the folder */
    RECORD_SYNCED = 7, /* this thread's sync is over; `number`: whether it succeeded */
    RECORD_CALL = 8,   /* a client calls; text: what */
    RECORD_ANSWER = 9, /* the call of this thread is answered; text: what */
    RECORD_TROUBLE = 10, /* something was done that the log cannot express; text: what */
    RECORD_LOST = 11 /* what was not on the disk yet never comes there, and the kernel takes it for written */
};

/* Of 8-byte alignment; `size` bytes of text follow it, and up to 7 bytes of padding. */
struct record {
    uint32_t type;
    uint32_t size;
    uint32_t process;
    uint32_t thread;
    uint64_t file;
    uint64_t number;
};

/* For the clients: weak there, because they link without the recorder. */
void recorder_call(const char *text);
void recorder_answer(const char *text);

/* A clock that all clients of a log share, and that never shows the same time twice. */
uint64_t recorder_tick(void);

/* For the harness: makes the log at `path` for what happens in `folder`. 0 on success. */
int recorder_make(const char *path, const char *folder);

#endif
