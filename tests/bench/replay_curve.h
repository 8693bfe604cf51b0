/* Curves over the games of bench_replay: how much is reached with which part of the plain search's candidates, and how sure that is. */
#pragma once
#include "core/json.h"

enum { PLAIN, NEIGHBOURS, ESTIMATES, BOTH, ARMS };
extern const char *const arm_names[ARMS];

/* What an operator's times were used for; ALL is not a part, but the games of every part. */
enum part { UNTOUCHED, LED, FITTED, PARTS, ALL = PARTS };
extern const char *const part_names[PARTS + 1];

#define MOST_TRIES 40
#define MOST_GAMES 256

struct curve_game {
    enum part part;
    int tries[ARMS];                     /* until within 2 % of the best known; of a game where that was not found, all its settings */
    double log_above[ARMS][MOST_TRIES];  /* log of the best after 1, 2, ... candidates over the best known */
};
struct curves {
    int count;
    struct curve_game games[MOST_GAMES];
};

/* Prints the curves of a part, and returns them. */
json_t *curves_show(const struct curves *c, enum part part);

/* ---- replay_sample.c ---- */
json_t *sample_games(const json_t *games, uint64_t seed, bool (*wanted)(const char *op));
