/*
 * The agent: a language model that writes candidates. One attempt is one move (from scratch, mend, improve, branch, cross), one prompt
 * and one answer, with one more try where the answer cannot be used. It sees values alone, like every generator; whom it asks is handed
 * in, so that a recorded conversation can be played again without a model.
 *
 *   agent_move.c      which move, from the history
 *   agent_sections.c  what the prompt says, section by section; agent_time.c: where the time goes
 *   agent_prompt.c    how much of it: each section's share of the cap, and fences around what strangers wrote
 *   agent_answer.c    from an answer's text to a candidate, or what is wrong with it
 *
 * A model's answer can do one thing: be a candidate. There are no tools, and nothing of an answer but the candidate's known keys is used;
 * the budget, the job and the next prompt's frame are not in its reach.
 */
#pragma once
#include "server/generate/generate.h"
#include "server/llm/llm.h"

/* X(code, name, what it is for, why it was chosen) */
#define AGENT_MOVES(X)                                                                            \
    X(MOVE_SCRATCH, "scratch", LLM_GENERATION, "a structure of its own")                          \
    X(MOVE_REPAIR, "repair", LLM_REPAIR, "the last candidate failed in a way that can be mended") \
    X(MOVE_IMPROVE, "improve", LLM_GENERATION, "the best so far, one step further")               \
    X(MOVE_BRANCH, "branch", LLM_GENERATION, "another right candidate, in another direction")     \
    X(MOVE_CROSS, "cross", LLM_GENERATION, "two right candidates, what is good in each")
enum agent_move {
#define X(code, ...) code,
    AGENT_MOVES(X)
#undef X
    MOVE_COUNT
};
const char *agent_move_name(enum agent_move m);
enum llm_purpose agent_move_purpose(enum agent_move m);

/* X(code, name): how an attempt ended that was no failure of ours */
#define AGENT_OUTCOMES(X)                                                              \
    X(ATTEMPT_CANDIDATE, "candidate")            /* there is one */                    \
    X(ATTEMPT_UNUSABLE, "unusable")              /* twice no candidate in the answer */ \
    X(ATTEMPT_DUPLICATE, "duplicate")            /* twice one that was judged already */ \
    X(ATTEMPT_REFUSAL, "refusal")                /* the model would not */             \
    X(ATTEMPT_TOO_LARGE, "too_large")            /* the answer passed its limit */     \
    X(ATTEMPT_BUDGET, "budget")                  /* the tokens left are too few */     \
    X(ATTEMPT_EXHAUSTED, "exhausted")            /* replay: no more was recorded */
enum agent_outcome {
#define X(code, name) code,
    AGENT_OUTCOMES(X)
#undef X
};
const char *agent_outcome_name(enum agent_outcome o);

/* Whom it asks: llm_ask behind a context, or a recording. ERR_NOT_FOUND: a recording has no more. */
struct agent_port {
    bool (*ask)(void *ctx, const struct llm_call *call, struct llm_reply *ret, struct llm_account *account, struct err *err);
    void *ctx;
    const char *model, *protocol;
    int64_t output_tokens;
};

struct agent_input {
    const struct gen_input *in;
    const json_t *baseline;              /* its document and figures */
    const json_t *baseline_figures, *baseline_profile;
    const json_t *lessons;               /* [{"id","situation","action","trust"}], best first; may be NULL or empty */
    const json_t *notes;                 /* failures of related searches: [{"verdict","phase","text","count"}]; may be NULL or empty */
    int64_t attempt;                     /* of this shape, from 1 */
    int64_t prompt_tokens;               /* a prompt has no more, by llm_tokens_estimate */
    int64_t tokens_left;                 /* of the job's budget */
    int64_t deadline_ns;                 /* clock_mono_ns; 0: none */
    bool (*stopped)(void *ctx);
    void *stopped_ctx;
    const struct agent_port *port;
};

struct agent_account { struct llm_usage usage; int calls, tries; };
struct agent_attempt {
    enum agent_outcome outcome;
    char why[240];
    struct gen_proposal proposal;        /* where there is a candidate */
    enum agent_move move;
    struct agent_account accounts[LLM_PURPOSE_COUNT];    /* also where the attempt failed */
    json_t *prompt;                      /* {"cap","tokens","sections":[{"name","tokens","bytes","cut"?}]} of the first call */
    json_t *transcript;                  /* all of it (docs/agents.md) */
};
void agent_attempt_done(struct agent_attempt *a);
DEFINE_CLEANUP(agent_attempt, struct agent_attempt, agent_attempt_done(it))
int64_t agent_tokens(const struct agent_attempt *a);

/* False: ours (the endpoint, a stop); then ret has the account, the prompt and the transcript, and nothing else. The caller releases ret. */
bool agent_attempt(const struct agent_input *in, struct agent_attempt *ret, struct err *err);
/* What a prompt would hold of a shape, for a person or another agent: text and the sections' sizes. New reference in *ret_sections. */
bool agent_brief(const struct agent_input *in, struct buf *to, json_t **ret_sections, struct err *err) MUST_CHECK;
/* The form that an answer, and a candidate, must have: the task as the model is told it. Static text. */
const char *agent_task_text(void);

/* Of a cap, for lessons and for notes: what is worth asking the knowledge layer for. */
int64_t agent_lesson_tokens(int64_t prompt_tokens);

/* ---- agent_move.c ---- */
struct agent_choice { enum agent_move move; int parent, other; int depth; };   /* indices into the past, -1: none; depth: of mending */
struct agent_choice agent_choose(const struct agent_input *in);
int agent_best(const struct gen_input *in);          /* the fastest right candidate; -1: none */

/* ---- agent_prompt.c ---- */
/* X(code, name, most percent of the cap): in the order in which they are read */
#define AGENT_SECTIONS(X)              \
    X(SECTION_TASK, "task", 100)       \
    X(SECTION_SHAPE, "shape", 10)      \
    X(SECTION_OPERATOR, "operator", 25) \
    X(SECTION_DEVICE, "device", 5)     \
    X(SECTION_BEST, "best", 35)        \
    X(SECTION_TIME, "time", 10)        \
    X(SECTION_FAILURES, "failures", 15) \
    X(SECTION_LESSONS, "lessons", 15)  \
    X(SECTION_MOVE, "move", 45)
enum agent_section {
#define X(code, ...) code,
    AGENT_SECTIONS(X)
#undef X
    SECTION_COUNT
};
#define SECTION_PARTS 24
struct prompt_part { bool fenced; char label[96]; struct buf text; };    /* fenced: written by strangers */
struct prompt_section { int count; struct prompt_part parts[SECTION_PARTS]; };
struct prompt {
    int64_t cap;
    struct prompt_section sections[SECTION_COUNT];
    char fence[40];                      /* drawn anew for each prompt; in none of its texts */
    struct buf system, user;             /* what prompt_build made */
    json_t *sizes;
};
void prompt_init(struct prompt *p, int64_t cap);
void prompt_done(struct prompt *p);
DEFINE_CLEANUP(prompt, struct prompt, prompt_done(it))
/* Where to append; the label is for a fence. Full sections give the last part again. */
struct buf *prompt_part(struct prompt *p, enum agent_section s, bool fenced, const char *label);
/* Each section gets what it needs, up to its share and to what the more important ones leave; the rest of it is cut and says so. */
void prompt_build(struct prompt *p);

/* ---- agent_sections.c ---- */
void sections_common(struct prompt *p, const struct agent_input *in);    /* all but the move */
void sections_move(struct prompt *p, const struct agent_input *in, const struct agent_choice *choice);
void sections_mend(struct prompt *p, const struct agent_input *in, const char *answer, const char *fault);

/* ---- agent_time.c ---- */
void section_time(struct prompt *p, const struct agent_input *a);

void sections_ideas(struct prompt *p, const struct gen_input *in);       /* what was tried, in its authors' words */

/* ---- agent_reflect.c ---- */
/* Nothing got better for a while, and nobody looked back on that yet. */
bool agent_reflection_due(const struct gen_input *in);
const char *agent_last_reflection(const struct gen_input *in);           /* borrowed; NULL: there is none */
void sections_reflect(struct prompt *p, const struct agent_input *in);
int64_t agent_reflection_tokens(void);                                   /* the most that one may have */
char *agent_take_reflection(const struct llm_reply *reply);              /* the caller frees; NULL: there is none in it */
char *agent_cut_words(const char *text, size_t most);                    /* never within a character; the caller frees */
/* One text for several lessons [{"id","situation","action"}]; the texts are the caller's. ERR_UPSTREAM: the answer holds none. Blocks. */
bool agent_summarise(const struct agent_port *port, const json_t *lessons, int64_t tokens_most, struct llm_account *account, char **ret_situation, char **ret_action,
                     struct err *err) MUST_CHECK;

/* ---- agent_answer.c ---- */
/* The candidate in an answer, without parent and lessons; false: `why` says what is missing or wrong. New reference. */
bool answer_candidate(const struct agent_input *in, const struct llm_reply *reply, json_t **ret, char *why, size_t why_size);
