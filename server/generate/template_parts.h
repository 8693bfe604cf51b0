/* What the two files of templates share: template_file.c reads them, template_settings.c enumerates their settings. */
#pragma once
#include "core/expr.h"
#include "server/generate/template_file.h"

/* Names of an expression: parameters at a setting, axes of a shape, "sm"; op: of a template that is being read, without a shape. */
struct template_names { const struct template *t; const struct shape *s; const struct op *op; const struct setting *p; };
bool template_lookup(void *names, const char *name, int64_t *ret);

int template_direction(const char *word);       /* "more": 1, "less": -1, else 0 */
