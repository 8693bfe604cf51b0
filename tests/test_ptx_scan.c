/* Each rule of the scan: what it catches, what it leaves alone, what a declaration changes. And the estimate's sanity. */
#include "gpu/ptx/opcode.h"
#include "tests/ptx_gdn.h"

#include <jansson.h>

#define HEAD ".version 9.0\n.target sm_90a\n.address_size 64\n.global .align 4 .u32 table[4] = {1, 2, 3, 4};\n.global .align 4 .u32 counter;\n"

static struct ptx_scan scan(const char *before, const char *body, const struct ptx_declares *declares)
{
    char text[4096];
    snprintf(text, sizeof text, "%s%s.visible .entry k(.param .u64 x) {\n.reg .pred %%p<8>; .reg .b32 %%r<16>; .reg .b64 %%rd<16>; ld.param.u64 %%rd1, [x];\n.loc 1 7 1\n%s\nret; }\n", HEAD, before, body);
    struct ptx_finding f;
    struct err err = {0};
    struct ptx_scan ret = {0};
    cleanup(ptx) struct ptx_module *m = NULL;
    check(ptx_parse(text, strlen(text), NULL, &m, &f, &err) && m);
    if (!m)
        fprintf(stderr, "%s\n", f.text);
    else
        check(ptx_scan(m, declares, &ret, &err));
    return ret;
}
static bool flagged(const struct ptx_scan *s, const char *rule)
{
    for (int i = 0; i < s->flag_count; i++)
        if (!strcmp(s->flags[i].rule, rule))
            return true;
    return false;
}

static void rule(const char *before, const char *body, const char *name, bool refused, bool hints, bool cooperative)
{
    struct ptx_scan s = scan(before, body, NULL);
    const bool ok = flagged(&s, name) && (s.refused.kind == PTX_FORBIDDEN) == refused;
    if (!ok)
        fprintf(stderr, "%s: %s: %s\n", name, body, s.refused.text);
    check(ok);
    if (refused)
        check(!strncmp(s.refused.text, name, strlen(name)));
    const struct ptx_declares declares = {.cache_hints = hints, .cooperative = cooperative};
    if (hints || cooperative) {
        s = scan(before, body, &declares);
        check_int(s.refused.kind, PTX_CLEAN);
    }
}

static enum ptx_finding_kind with_variables(int count)
{
    cleanup(buf) struct buf text = {0};
    cleanup(ptx) struct ptx_module *m = NULL;
    struct ptx_finding f;
    struct ptx_scan ret = {.refused.kind = PTX_TRAP};
    struct err err = {0};
    buf_str(&text, ".version 9.0\n.target sm_90a\n.address_size 64\n");
    for (int i = 0; i < count; i++)
        buf_fmt(&text, i % 2 ? ".const .align 4 .u32 v%d = 1;\n" : ".global .align 4 .u32 v%d;\n", i);
    buf_str(&text, ".visible .entry k() { ret; }\n");
    check(ptx_parse(buf_cstr(&text), text.size, NULL, &m, &f, &err) && m && ptx_scan(m, NULL, &ret, &err));
    return ret.refused.kind;
}

static void many_variables(void)
{
    check_int(with_variables(PTX_MAX_VARIABLES), PTX_CLEAN);
    check_int(with_variables(PTX_MAX_VARIABLES + 1), PTX_RESOURCE);
}

static void rules(void)
{
    many_variables();
    rule("", "mov.u64 %rd2, %current_graph_exec;", "placement", false, false, false);
    struct ptx_scan s = scan("", "ld.global.nc.L1::no_allocate.u32 %r1, [%rd1]; ld.global.L1::evict_first.u32 %r1, [%rd1]; st.global.cs.u32 [%rd1], %r1; ld.global.u32 %r2, [table+4];", NULL);
    check_int(s.refused.kind, PTX_CLEAN);
    check_int(s.flag_count, 0);
    rule("", "st.global.u32 [counter], 1;", "module_store", true, false, false);
    rule("", "mov.u64 %rd2, table; cvta.global.u64 %rd3, %rd2; add.s64 %rd4, %rd3, 4; st.u32 [%rd4], 1;", "module_store", true, false, false);
    rule("", "mov.u64 %rd2, counter; atom.global.add.u32 %r1, [%rd2], 1;", "module_store", true, false, false);
    rule("", "bra B; A: st.global.u32 [%rd5], 1; ret; B: mov.u64 %rd4, counter; selp.b64 %rd5, %rd4, %rd1, %p1; bra A;", "module_store", true, false, false);
    rule("", "mov.u64 %rd2, counter; st.global.u64 [%rd1], %rd2;", "module_escape", false, false, false);
    rule(".visible .global .u32 shown;\n", "", "module_export", false, false, false);
    rule(".extern .global .u32 elsewhere;\n", "", "managed", true, false, false);
    rule(".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n", "", "printf", true, false, false);
    rule(".extern .func (.param .b64 r) malloc(.param .b64 a);\n", "", "heap", true, false, false);
    rule(".extern .func (.param .b32 r) cudaLaunchDeviceV2(.param .b64 a);\n", "", "device_launch", true, false, false);
    rule(".extern .func mystery();\n", "call mystery;", "extern_function", true, false, false);
    s = scan(".func later();\n.func later() { ret; }\n", "call later;", NULL);
    check_int(s.refused.kind, PTX_CLEAN);
    rule("", "P: .callprototype _ (); call %rd1, P;", "indirect_call", false, false, false);
    rule("", "mov.u32 %r1, %clock;", "clock", false, false, false);
    rule("", "mov.u64 %rd2, %globaltimer;", "clock", false, false, false);
    rule("", "mov.b64 %rd2, {%clock, %clock_hi};", "clock", false, false, false);
    static const char *const places[] = {"%smid", "%nsmid", "%warpid", "%nwarpid"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char body[64];
        snprintf(body, sizeof body, "mov.u32 %%r1, %s;", places[i]);
        rule("", body, "placement", false, false, false);
    }
    rule("", "mov.u64 %rd2, %gridid;", "placement", false, false, false);
    rule("", "mov.b64 %rd2, {%r1, %smid};", "placement", false, false, false);
    s = scan("", "mov.u32 %r1, %tid.x; mov.u32 %r2, %laneid; mov.u32 %r3, %ctaid.x;", NULL);
    check_int(s.flag_count, 0);
    rule("", "nanosleep.u32 20;", "nanosleep", false, false, false);
    rule("", "createpolicy.fractional.L2::evict_last.b64 %rd2, 1.0;", "createpolicy", true, true, false);
    rule("", "ld.global.L2::cache_hint.u32 %r1, [%rd1], %rd2;", "createpolicy", true, true, false);
    rule("", "ld.global.L1::evict_last.u32 %r1, [%rd1];", "evict_last", true, true, false);
    rule("", "prefetch.global.L2 [%rd1];", "prefetch", true, true, false);
    rule("", "cp.async.bulk.prefetch.L2.global [%rd1], 64;", "prefetch", true, true, false);
    rule("", "discard.global.L2 [%rd1], 128;", "discard", true, true, false);
    rule("", "ld.global.L2::128B.u32 %r1, [%rd1];", "prefetch_size", false, false, false);
    rule("", "mov.u32 %r1, %envreg1;", "grid_barrier", true, false, true);
    rule("", "griddepcontrol.wait;", "grid_dependency", false, false, false);
    rule("", "red.global.add.u32 [%rd1], 1;", "atomics", false, false, false);
    rule("", "brkpt;", "breakpoint", false, false, false);
    rule("", "trap;", "trap", false, false, false);
    rule("", "suld.b.1d.b32.trap %r1, [%rd1, {%r2}];", "texture", true, false, false);
    s = scan("", "atom.global.add.u32 %r1, [%rd1], 1; mov.u64 %rd2, %clock64; mov.u32 %r1, %envreg1; prefetch.global.L1 [%rd1];", NULL);
    check(s.uses_atomics && s.uses_clock && s.uses_grid_barrier && s.uses_cache_hints);
    check_int(s.refused.source_line, 7);
    check(strstr(s.refused.text, "(line 7)") != NULL);
}

static void rules_are_json(void)
{
    cleanup(buf) struct buf b = {0};
    ptx_scan_rules(&b);
    json_error_t error;
    json_t *rules_json = json_loadb(b.data, b.size, JSON_REJECT_DUPLICATES, &error);
    check(json_is_array(rules_json));
    check(json_array_size(rules_json) >= 20);
    for (size_t i = 0; i < json_array_size(rules_json); i++)
        check(json_is_string(json_object_get(json_array_get(rules_json, i), "why")));
    json_decref(rules_json);
}

/* The instructions' table is searched by halves: it must be in order. */
static void table_is_sorted(void)
{
    static const char *const names[] = {
#define X(name, decoder, cls) #name,
        PTX_BASE_TABLE(X)
#undef X
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct opcode o;
        ptx_opcode_parse(names[i], &o);
        check_int(o.base, i);
    }
}

static void own_kernels_pass(void)
{
    static const char *const files[] = {"divergent.ptx", "histogram.ptx", "cp_async.ptx", "rmsnorm.ptx", "gdn_decode.ptx", "math.ptx"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        cleanup(bench) struct bench b = {0};
        check(bench_file(&b, files[i], "k"));
        struct ptx_scan s;
        struct err err = {0};
        check(ptx_scan(b.m, NULL, &s, &err));
        check_int(s.refused.kind, PTX_CLEAN);
        cleanup(buf) struct buf unsupported = {0};
        ptx_unsupported(b.m, &unsupported);
        check_str(buf_cstr(&unsupported), "");
    }
}

static struct ptx_estimate gdn_estimate(int batch, int hv, const char *device)
{
    cleanup(bench) struct bench b = {0};
    struct gdn g;
    check(gdn_setup(&b, &g, batch, hv > 1 ? hv / 2 : 1, hv));
    check_int(bench_run(&b), PTX_CLEAN);
    struct ptx_estimate e;
    ptx_estimate_time(&b.counts, &b.launch, &(struct ptx_resources){.registers_thread = 64}, ptx_device_find(device), &e);
    free(g.before);
    return e;
}

static void estimates(void)
{
    check_str(ptx_device_find("H200")->name, "H200");
    check_str(ptx_device_find("NVIDIA H100 80GB")->name, "H100");
    check_str(ptx_device_find("sm_80")->name, "A100");
    check_str(ptx_device_find("sm_90a")->name, "H200");
    check(!ptx_device_find("sm_12"));
    double before = 0;
    for (int batch = 1; batch <= 16; batch *= 2) { /* more of the same takes longer */
        const struct ptx_estimate e = gdn_estimate(batch, 32, "H200");
        check(e.ns > before);
        check(e.ns > e.launch_ns && e.ns < 1e6);
        check(e.occupancy > 0 && e.occupancy <= 1 && e.blocks_per_sm >= 1);
        before = e.ns;
    }
    const struct ptx_estimate small = gdn_estimate(1, 1, "H200"), large = gdn_estimate(8, 64, "H200"), slow = gdn_estimate(8, 64, "A100");
    check_str(small.bound, "latency");
    check_str(large.bound, "dram");
    check(slow.ns > large.ns);
    /* never faster than the data sheet allows */
    const double bytes = 2.0 * 7 * 64 * GDN_V * GDN_K * 4;
    check(large.ns > bytes / ptx_device_find("H200")->datasheet_dram_bytes_per_ns);
    /* nothing at all is a launch */
    struct ptx_counts none = {0};
    struct ptx_launch launch = {.grid = {1, 1, 1}, .block = {32, 1, 1}};
    struct ptx_estimate e;
    ptx_estimate_time(&none, &launch, NULL, ptx_device_find("H200"), &e);
    check_str(e.bound, "launch");
    check(e.ns >= 500 && e.ns < 700);
}

int main(void)
{
    rules();
    rules_are_json();
    table_is_sorted();
    own_kernels_pass();
    estimates();
    return test_done();
}
