/* Between registry.c, which looks at operators, and registered.c, which keeps them. */
#pragma once
#include "server/api/api.h"

#define REGISTERED_MAX_EVER 1024        /* of one process: replaced operators stay in memory, since jobs may be of them */

/* Operators that are registered, and the sets made of them and the built-in ones. Guarded by its owner. */
struct registered {
    const struct op_set *built_in;
    int op_count, set_count;
    struct op *ops[REGISTERED_MAX_EVER];            /* all there ever were */
    struct op_set *sets[REGISTERED_MAX_EVER + 1];
};

/* The files of an operator, as the judge lays them too (its digest is over their bytes). */
struct op_files { struct buf op, reference, baseline_cu, baseline_json, library; };
void op_files_done(struct op_files *f);
DEFINE_CLEANUP(op_files, struct op_files, op_files_done(it))
void op_files_make(const json_t *request, struct op_files *ret);

/* Writes the files to DATA/ops/DIGEST/NAME and loads the operator from there. */
bool registered_lay(const char *data, const char *name, const char *digest, const struct op_files *f, struct op **ret, struct err *err) MUST_CHECK;
/* Keeps it: files as blobs, and the record. Durable on true. */
bool registered_store(struct store *s, const struct op *op, const struct op_files *f, const char *fingerprint, const char *caller,
                      const json_t *report, struct err *err) MUST_CHECK;
/* All that the store has, laid out where they are not yet. What cannot be is left out and logged. */
void registered_load(struct registered *r, struct store *s, const char *data);
/* Takes the operator over; the set from now on: of each name the highest version, of two alike the registered one. Lives as long as r. */
const struct op_set *registered_add(struct registered *r, struct op *op);
void registered_done(struct registered *r);
