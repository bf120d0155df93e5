/* SPDX-License-Identifier: MPL-2.0 */
/* An SQLite VFS named "faults" over the default one. It counts the steps that change the disk, and at a chosen one
 * fails, kills the process, or cuts the power: then what was written but not synced is undone, in part and as the seed
 * says, before the process is killed. One process uses it from one thread. */
#ifndef LATCHKEY_STORE_FAULTS_H
#define LATCHKEY_STORE_FAULTS_H

enum {
    STORE_FAULT_NONE = 0,
    STORE_FAULT_KILL = 1,
    STORE_FAULT_POWER_CUT = 2,
    /* The step fails with SQLITE_IOERR and all after it too. */
    STORE_FAULT_ERROR = 3,
    /* Writes fail with SQLITE_FULL from this step on. */
    STORE_FAULT_FULL = 4,
    /* This one step fails, those after it do not. */
    STORE_FAULT_ERROR_ONCE = 5,
};

/* Registers the VFS, once; 0 where it is there. */
int store_faults_register(void);

/* The fault comes at this step, counted from 1 from now on. */
void store_faults_arm(int fault, long step, unsigned seed);

/* Steps since `store_faults_arm`. */
long store_faults_steps(void);

/* Counts a step that is not SQLite's; the fault may kill here. */
void store_faults_step(void);

#endif
