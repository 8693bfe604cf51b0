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

int main(void)
{
    static void (*const tests[])(void) = {test_honest};
    return scene_main(tests, sizeof tests / sizeof *tests);
}
