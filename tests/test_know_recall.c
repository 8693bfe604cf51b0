/* The bound on retrieval over the labelled set, and that each part earns its place. Usage: test_know_recall FOLDER THESAURUS */
#include "tests/know_set.h"

#include "tests/test.h"

#define BOUND 0.85

int main(int argc, char **argv)
{
    struct set s;
    int seen, unseen, all;
    if (argc != 3)
        return 2;
    hash_init();
    set_open(&s, argv[1], argv[2]);
    double a = set_recall(&s, argv[1], "queries.json", 0, false, &seen), b = set_recall(&s, argv[1], "queries_unseen.json", 0, false, &unseen);
    printf("recall@%d: %.3f over %d queries, %.3f over %d unseen\n", SET_TOP, a, seen, b, unseen);
    check(seen >= 100 && a >= BOUND);
    check(!unseen || b >= BOUND);
    check(set_recall(&s, argv[1], "queries.json", LESSON_PART_THESAURUS, false, &all) < a);
    check(set_recall(&s, argv[1], "queries.json", LESSON_PART_BM25, false, &all) < a);
    check(set_recall(&s, argv[1], "queries.json", LESSON_PART_TAGS, false, &all) <= a);
    set_close(&s);
    return test_done();
}
