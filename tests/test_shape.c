#include "core/shape.h"
#include "tests/test.h"

#include <math.h>

static struct op_set ops;

static json_t *parse(const char *text)
{
    json_t *v = NULL;
    struct err err = {0};
    bool ok = json_parse(text, strlen(text), &v, &err);
    if (!ok)
        fprintf(stderr, "%s\n", err.text);
    check(ok);
    return v;
}

static void the_hash_is_of_the_documented_text(void)
{
    cleanup(json) json_t *doc = parse("{\"op\":\"toy\",\"axes\":{\"R\":3,\"N\":8},\"dtypes\":{\"io\":\"f16\"},\"target\":\"sm_90a\"}");
    struct shape s;
    struct faults f = {0};
    cleanup(buf) struct buf text = {0};
    check(shape_parse(&ops, doc, NULL, "", &s, &f));
    shape_canonical(&s, &text);
    check_str(buf_cstr(&text), "proteus-shape-v1\nop=toy@2\naxis.G=4\naxis.N=8\naxis.R=3\naxis.W=7\naxis.row_stride=0\n"
                               "dtype.acc=f32\ndtype.io=f16\ntarget=sm_90a\n");
    /* python3: hashlib.blake2b(text, digest_size=32).hexdigest() */
    check_str(shape_hash(&s).text, "611242a952c71d0c65c13c821caf0f5297f67405bb09dce73589072c6d9f2ec3");
    cleanup(json) json_t *again = shape_encode(&s);
    struct shape back;
    check(shape_parse(&ops, again, NULL, "", &back, &f));
    check_str(shape_hash(&back).text, shape_hash(&s).text);
    check_int(back.axes[op_axis_index(s.op, "slots")], 4);
}

static void axes_that_do_not_change_the_kernel_do_not_change_the_hash(void)
{
    cleanup(json) json_t *a = parse("{\"op\":\"toy\",\"axes\":{\"R\":3,\"N\":8}}");
    cleanup(json) json_t *b = parse("{\"op\":\"toy\",\"axes\":{\"R\":3,\"N\":8,\"slots\":100}}");
    cleanup(json) json_t *c = parse("{\"op\":\"toy\",\"axes\":{\"R\":3,\"N\":16}}");
    struct shape x, y, z;
    struct faults f = {0};
    check(shape_parse(&ops, a, "sm_90a", "", &x, &f) && shape_parse(&ops, b, "sm_90a", "", &y, &f) && shape_parse(&ops, c, "sm_90a", "", &z, &f));
    check_str(shape_hash(&x).text, shape_hash(&y).text);
    check(strcmp(shape_hash(&x).text, shape_hash(&z).text) != 0);
}

static void values_of_axes_that_are_not_keyed_are_put_back(void)
{
    cleanup(json) json_t *doc = parse("{\"op\":\"toy\",\"axes\":{\"R\":3,\"N\":8,\"G\":2,\"slots\":100}}"), *ignored = json_object();
    struct shape s;
    struct faults f = {0};
    struct err err = {0};
    check(shape_parse(&ops, doc, "sm_90a", "", &s, &f) && shape_unkey(&s, ignored, &err));
    check_int(s.axes[op_axis_index(s.op, "slots")], 4);
    check_int(s.axes[op_axis_index(s.op, "G")], 2);     /* keyed: the caller's */
    check_str(s.target, "sm_90a");
    check_int((long)json_object_size(ignored), 1);
    check_int((long)json_int(ignored, "slots", 0), 100);
    json_object_clear(ignored);
    check(shape_unkey(&s, ignored, &err) && json_object_size(ignored) == 0);
}

static void faults_name_the_place(void)
{
    static const struct { const char *doc, *pointer, *detail; } cases[] = {
        {"{\"op\":\"none\",\"axes\":{}}", "/op", "unknown operator"},
        {"{\"axes\":{}}", "/op", "name of an operator"},
        {"[]", "", "object"},
        {"{\"op\":\"toy\",\"axes\":{\"N\":8}}", "/axes/R", "missing"},
        {"{\"op\":\"toy\",\"axes\":{\"R\":1,\"N\":8,\"Q\":1}}", "/axes/Q", "no axis Q"},
        {"{\"op\":\"toy\",\"axes\":{\"R\":-1,\"N\":8}}", "/axes/R", "at least 1"},
        {"{\"op\":\"toy\",\"axes\":{\"R\":0,\"N\":8}}", "/axes/R", "at least 1"},
        {"{\"op\":\"toy\",\"axes\":{\"R\":5000,\"N\":8}}", "/axes/R", "at most 4096"},
        {"{\"op\":\"toy\",\"axes\":{\"R\":1.5,\"N\":8}}", "/axes/R", "integer"},
        {"{\"op\":\"toy\",\"axes\":{\"R\":\"3\",\"N\":8}}", "/axes/R", "integer"},
        {"{\"op\":\"toy\",\"axes\":{\"R\":3,\"N\":9}}", "/axes/N", "constraint"},
        {"{\"op\":\"toy\",\"axes\":{\"R\":3,\"N\":8,\"W\":8}}", "/axes/W", "always 7"},
        {"{\"op\":\"toy\",\"axes\":{\"R\":3,\"N\":8},\"dtypes\":{\"io\":\"f64\"}}", "/dtypes/io", "one of bf16"},
        {"{\"op\":\"toy\",\"axes\":{\"R\":3,\"N\":8},\"dtypes\":{\"zz\":\"f32\"}}", "/dtypes/zz", "no dtype letter"},
        {"{\"op\":\"toy\",\"axes\":{\"R\":3,\"N\":8},\"target\":\"gfx90a\"}", "/target", "sm_90a"},
        {"{\"op\":\"toy\",\"axes\":{\"R\":3,\"N\":8},\"extra\":1}", "/extra", "unknown key"},
        {"{\"op\":\"toy\",\"axes\":{\"R\":3,\"N\":8,\"row_stride\":4}}", "", "stride"},
        {"{\"op\":\"toy\",\"axes\":{\"R\":4096,\"N\":65536,\"row_stride\":1099511627775}}", "", "2^40"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cleanup(json) json_t *doc = parse(cases[i].doc);
        struct shape s;
        struct faults f = {0};
        check(!shape_parse(&ops, doc, "sm_90a", "", &s, &f));
        check(f.count >= 1);
        check_str(f.list[0].pointer, cases[i].pointer);
        check(strstr(f.list[0].detail, cases[i].detail) != NULL);
        if (!strstr(f.list[0].detail, cases[i].detail))
            fprintf(stderr, "   %s\n", f.list[0].detail);
    }
}

static void tensors_get_sizes_and_strides(void)
{
    cleanup(json) json_t *doc = parse("{\"op\":\"toy\",\"axes\":{\"R\":3,\"N\":8,\"row_stride\":10}}");
    struct shape s;
    struct faults f = {0};
    struct tensor t[OP_MAX_TENSORS];
    check(shape_parse(&ops, doc, "sm_90a", "", &s, &f));
    check(shape_tensors(&s, t, NULL));
    check_int(t[0].strides[0], 10);
    check_int(t[0].elements, 24);
    check_int(t[0].span_elements, 28);
    check_int(t[0].bytes, 56);
    check_int(tensor_offset(&t[0], 9), 11);
    check_int(t[2].bytes, 4 * 4 * 8);
    int64_t bytes, flops;
    check(shape_work(&s, &bytes, &flops, NULL));
    check_int(bytes, 96);
    check_int(flops, 24);
}

static void elements_round_to_nearest_even(void)
{
    static const struct { enum dtype t; double in; uint32_t bits; } cases[] = {
        {DTYPE_BF16, 1.0, 0x3f80}, {DTYPE_BF16, 1.00390625, 0x3f80}, {DTYPE_BF16, 1.01171875, 0x3f82}, {DTYPE_BF16, -2.5, 0xc020},
        {DTYPE_BF16, 3.4e38, 0x7f80}, {DTYPE_BF16, 9.2e-41, 0x0001}, {DTYPE_BF16, 4e-41, 0x0000}, {DTYPE_F16, 65504, 0x7bff},
        {DTYPE_F16, 65520, 0x7c00}, {DTYPE_F16, 65519, 0x7bff}, {DTYPE_F16, 5.960464477539063e-08, 0x0001}, {DTYPE_F16, 0.1, 0x2e66},
        {DTYPE_F16, 6.1e-5, 0x03ff}, {DTYPE_F16, 1.0009765625 + 0.00048828125, 0x3c02}, {DTYPE_F8E4M3, 448, 0x7e}, {DTYPE_F8E4M3, 1.0, 0x38},
        {DTYPE_F8E4M3, 0.001953125, 0x01}, {DTYPE_F8E4M3, -0.0, 0x80}, {DTYPE_F8E4M3, 464, 0x7e},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t bits = 0;
        dtype_store(cases[i].t, &bits, 0, cases[i].in);
        if (bits != cases[i].bits)
            fprintf(stderr, "   %s %.17g: %x\n", dtype_name(cases[i].t), cases[i].in, bits);
        check_int(bits, cases[i].bits);
    }
    static const enum dtype sixteen[] = {DTYPE_BF16, DTYPE_F16};
    for (int k = 0; k < 2; k++)
        for (uint32_t b = 0; b < 65536; b++) {
            uint16_t in = (uint16_t)b, out = 0;
            double v = dtype_load(sixteen[k], &in, 0);
            dtype_store(sixteen[k], &out, 0, v);
            if (isnan(v) ? out != 0x7fff : out != in) {
                check_int(out, in);
                break;
            }
        }
    for (uint32_t b = 0; b < 256; b++) {
        uint8_t in = (uint8_t)b, out = 0;
        double v = dtype_load(DTYPE_F8E4M3, &in, 0);
        dtype_store(DTYPE_F8E4M3, &out, 0, v);
        check(isnan(v) || out == in);
    }
}

static void hidden_regimes_are_not_shown(void)
{
    cleanup(json) json_t *doc = op_public(ops.list[0]);
    check(json_object_get(json_object_get(doc, "regimes"), "typical") != NULL);
    check(json_object_get(json_object_get(doc, "regimes"), "secret") == NULL);
    check(json_object_get(json_object_get(ops.list[0]->doc, "regimes"), "secret") != NULL);
}

int main(void)
{
    struct err err = {0};
    hash_init();
    if (!op_set_load(TEST_DATA "/ops", &ops, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    the_hash_is_of_the_documented_text();
    axes_that_do_not_change_the_kernel_do_not_change_the_hash();
    values_of_axes_that_are_not_keyed_are_put_back();
    faults_name_the_place();
    tensors_get_sizes_and_strides();
    elements_round_to_nearest_even();
    hidden_regimes_are_not_shown();
    op_set_done(&ops);
    return test_done();
}
