/* Honest kernels pass: in every regime, of every shape, with and without a baseline's result beside them. */
#include "tests/compare_scene.h"
#include "tests/test.h"

/* In every regime, of every shape: the rounded reference and two single-precision kernels pass, each beside the other. */
static void test_honest(void)
{
    for (int i = 0; i < SCENE_SHAPES; i++) {
        cleanup(scene) struct scene probe = {0};
        scene_make(&probe, scene_shapes[i], "typical", 1);
        for (int r = 0; r < inputs_regime_count(probe.shape.op); r++)
            for (uint64_t seed = 0; seed < 2; seed++) {
                cleanup(scene) struct scene s = {0};
                scene_make(&s, scene_shapes[i], inputs_regime_name(probe.shape.op, r), seed);
                scene_run(&s, &scene_honest, s.baseline);
                for (int variant = 0; variant < 4; variant++) {
                    if (variant < 2)
                        scene_run(&s, variant ? &scene_serial : &scene_honest, s.got);
                    else
                        for (int t = 0; t < s.shape.op->tensor_count; t++)
                            if (s.right[t])
                                scene_put(&s, t, NULL);
                    struct compare_result with = scene_judge(&s, true), without = scene_judge(&s, false);
                    check(with.code == VERDICT_OK && without.code == VERDICT_OK);
                    if (with.code != VERDICT_OK || without.code != VERDICT_OK)
                        fprintf(stderr, "  %s %s seed %d variant %d: %s | %s\n", scene_shapes[i], inputs_regime_name(probe.shape.op, r), (int)seed, variant, with.text, without.text);
                    if (variant == 2)
                        scene_run(&s, &scene_serial, s.baseline);
                }
            }
    }
}

/* Many rows: what is rare among a few is there. Nothing can be nearer to the reference than it is itself, rounded. */
static void test_rounded_reference(void)
{
    static const char *const shapes[] = {
        "{\"op\":\"quant_fp8_per_token\",\"axes\":{\"R\":64,\"N\":3072}}",
        "{\"op\":\"quant_fp8_per_token\",\"axes\":{\"R\":16,\"N\":8192},\"dtypes\":{\"io\":\"f32\"}}",
        "{\"op\":\"topk_softmax\",\"axes\":{\"R\":256,\"E\":256,\"k\":8}}",
        "{\"op\":\"silu_and_mul\",\"axes\":{\"R\":256,\"N\":128}}",
        "{\"op\":\"gated_rmsnorm\",\"axes\":{\"R\":512,\"N\":128}}",
        "{\"op\":\"fused_add_rmsnorm\",\"axes\":{\"R\":64,\"N\":3072}}",
        "{\"op\":\"rope_neox\",\"axes\":{\"B\":64,\"HQ\":4,\"HK\":1,\"d\":256,\"rot\":64}}",
        "{\"op\":\"causal_conv1d_update\",\"axes\":{\"B\":64,\"C\":1536,\"W\":4}}",
        "{\"op\":\"gemm_nt\",\"axes\":{\"M\":16,\"N\":512,\"K\":256}}",
        "{\"op\":\"gqa_decode\",\"axes\":{\"B\":8,\"HQ\":8,\"HK\":2,\"d\":128,\"T\":256}}",
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        cleanup(scene) struct scene probe = {0};
        scene_make(&probe, shapes[i], "typical", 1);
        for (int r = 0; r < inputs_regime_count(probe.shape.op); r++)
            for (uint64_t seed = 0; seed < 3; seed++) {
                cleanup(scene) struct scene s = {0};
                scene_make(&s, shapes[i], inputs_regime_name(probe.shape.op, r), seed);
                for (int t = 0; t < s.shape.op->tensor_count; t++)
                    if (s.right[t])
                        scene_put(&s, t, NULL);
                struct compare_result result = scene_judge(&s, false);
                check(result.code == VERDICT_OK);
                if (result.code != VERDICT_OK)
                    fprintf(stderr, "  %s %s seed %d: %s\n", shapes[i], inputs_regime_name(probe.shape.op, r), (int)seed, result.text);
            }
    }
}

int main(void)
{
    static void (*const tests[])(void) = {test_honest, test_rounded_reference};
    return scene_main(tests, sizeof tests / sizeof *tests);
}
