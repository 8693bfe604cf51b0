/*
 * The table of instructions by itself: every row expands, every variant is found again, in any order of its modifiers; what no row has
 * is refused. `test_ptx_isa list` prints a line a variant: row, opcode, a statement with registers of the declared kinds.
 */
#include "gpu/ptx/isa.h"
#include "tests/test.h"

#include <stdio.h>
#include <string.h>

/* "add.f32 %r0, %r1, %r2;": results first; immediates are their largest value. */
static void statement(struct buf *to, const struct ptx_isa_variant *v)
{
    static const struct { const char *kind, *name; } names[] = {{"pred", "p"}, {"b8", "b"}, {"b16", "h"}, {"b32", "r"}, {"b64", "rd"}};
    buf_str(to, v->opcode);
    for (int i = 0; i < v->result_count + v->source_count; i++) {
        const struct ptx_isa_operand *o = i < v->result_count ? &v->results[i] : &v->sources[i - v->result_count];
        const char *kind = ptx_isa_register(o->type), *name = "?";
        for (size_t k = 0; k < sizeof names / sizeof *names; k++)
            if (!strcmp(names[k].kind, kind))
                name = names[k].name;
        const char *between = !i ? " " : i < v->result_count ? "|" : ", ";
        if (o->immediate)
            buf_fmt(to, "%s%lld", between, (long long)o->most);
        else
            buf_fmt(to, "%s%%%s%d", between, name, i);
    }
    buf_str(to, ";");
}

static int list(void)
{
    struct ptx_isa_variant v;
    for (int i = 0; ptx_isa_row(i); i++) {
        const struct ptx_isa_row *row = ptx_isa_row(i);
        for (int n = 0; (row->group == ISA_LANE || row->group == ISA_CARRY) && ptx_isa_expand(row, n, &v); n++) {
            printf("%d %d ", i, row->sm);
            cleanup(buf) struct buf text = {0};
            statement(&text, &v);
            printf("%s\n", buf_cstr(&text));
        }
    }
    return 0;
}

static void rows_expand_and_are_found(void)
{
    struct ptx_isa_variant v;
    int variants = 0, lanes = 0;
    for (int i = 0; ptx_isa_row(i); i++) {
        const struct ptx_isa_row *row = ptx_isa_row(i);
        const bool lane = row->group == ISA_LANE || row->group == ISA_CARRY;
        for (int n = 0; n < 4000 && ptx_isa_expand(row, n, &v); n++) {
            const int found = ptx_isa_find(v.opcode);
            const bool ok = found >= 0 && ptx_isa_matches(row, v.opcode) && (!lane || (v.result_count >= 1 && v.source_count >= 1));
            if (!ok)
                fprintf(stderr, "row %d %s: %s\n", i, row->pattern, v.opcode);
            check(ok);
            variants++;
            lanes += lane;
        }
        check(row->means && *row->means && row->operands && row->sm >= 80);
        check((row->exact == EXACT_ULP || row->exact == EXACT_RELATIVE || row->exact == EXACT_ABSOLUTE || row->exact == EXACT_EITHER) ==
              (row->bound > 0));
    }
    fprintf(stderr, "%d rows, %d forms, %d of them of lanes\n", ptx_isa_row_count, variants, lanes);
}

/* Every form of the lane rows is known to the decoders. */
static void forms_are_decoded(void)
{
    cleanup(buf) struct buf text = {0}, missing = {0};
    buf_str(&text, ".version 9.0\n.target sm_100a\n.address_size 64\n.visible .entry k() {\n.reg .pred %p<9>; .reg .b8 %b<9>; .reg .b16 %h<9>;"
                   ".reg .b32 %r<9>; .reg .b64 %rd<9>;\n");
    struct ptx_isa_variant v;
    for (int i = 0; ptx_isa_row(i); i++)
        for (int n = 0; ptx_isa_row(i)->group <= ISA_CARRY && ptx_isa_expand(ptx_isa_row(i), n, &v); n++) {
            statement(&text, &v);
            buf_str(&text, "\n");
        }
    buf_str(&text, "ret;\n}\n");
    cleanup(ptx) struct ptx_module *m = NULL;
    struct ptx_finding finding = {0};
    struct err err = {0};
    check(ptx_parse(text.data, text.size, NULL, &m, &finding, &err) && m);
    if (m)
        ptx_unsupported(m, &missing);
    else
        fprintf(stderr, "%s %s\n", finding.text, err.text);
    if (missing.size)
        fprintf(stderr, "not decoded: %s\n", buf_cstr(&missing));
    check(!missing.size);
}

static void others_are_refused(void)
{
    static const char *const good[] = {"add.sat.ftz.rn.f32", "cvt.satfinite.rn.bf16x2.f32", "fma.relu.rn.bf16x2", "min.NaN.ftz.xorsign.abs.f32",
                                       "setp.lt.and.s32", "prmt.f4e.b32", "ld.global.nc.L1::no_allocate.L2::128B.v4.f32"};
    static const char *const bad[] = {"add", "add.", "add.rn.u32", "add.f32.rn.rz", "add.f32.f32", "frob.u32", "mul.lo.f32", "mul.u32", "cvt.u32.f32",
                                      "cvt.f32.u32", "setp.lo.s32", "min.xorsign.f32", "", ".", "shf.l.b32", "selp.pred", "bfe.b32",
                                      "add.rn.rn.f32", "dp4a.u32"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        check(ptx_isa_find(good[i]) >= 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        check(ptx_isa_find(bad[i]) < 0);
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "list"))
        return list();
    rows_expand_and_are_found();
    others_are_refused();
    forms_are_decoded();
    return test_done();
}
