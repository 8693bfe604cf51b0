/*
 * Language triton through the whole judge on sim, with a stand-in for Triton in a virtual environment of its own: the python is real, so
 * are the driver, the sandbox, the PTX's way. Honest sources must pass; each hostile one must end as its row says, and none as a failure
 * of ours. Skipped on a host without python or toolkit. Usage: test_triton OPS_DIR FOLDER (tests/triton)
 */
#include "core/clock.h"
#include "gpu/judge/judge.h"
#include "gpu/judge/python.h"
#include "tests/test.h"

#include <math.h>
#include <sys/stat.h>
#include <sys/wait.h>

static struct op_set ops;
static struct judge_config config = {.ops = &ops, .device = "sim", .threads = 2, .compile_cpu_seconds = 3};
static char *source;

/* ---- a virtual environment: a link, a file, and the stand-in where packages go ---- */

static bool make_environment(const char *stand_in, char *dir, char *program, size_t size)
{
    char line[512] = "", real[400] = "", version[32] = "";
    FILE *p = popen("python3 -I -c 'import os,sys;print(os.path.realpath(sys.executable),\"python%d.%d\"%sys.version_info[:2])' 2>/dev/null", "re");
    bool told = p && fgets(line, sizeof line, p) && sscanf(line, "%399s %31s", real, version) == 2;
    if (p)
        pclose(p);
    if (!told || *real != '/' || !mkdtemp(dir) || chmod(dir, 0755) != 0)
        return false;
    cleanup(str) char *site = xfmt("%s/lib/%s/site-packages", dir, version), *bin = xfmt("%s/bin", dir), *cfg = xfmt("%s/pyvenv.cfg", dir);
    char home[400];
    struct err err = {0};
    snprintf(program, size, "%s/python3", bin);
    snprintf(home, sizeof home, "%.*s", (int)(strrchr(real, '/') - real), real);
    cleanup(str) char *text = xfmt("home = %s\ninclude-system-site-packages = false\n", home);
    cleanup(str) char *copy = xfmt("cp -r '%s/site/.' '%s' && chmod -R a+rX '%s'", stand_in, site, dir);
    return dir_make(site, 0755, &err) && dir_make(bin, 0755, &err) && symlink(real, program) == 0 && file_write(cfg, text, strlen(text), 0644, &err)
           && system(copy) == 0;
}

/* ---- candidates ---- */

#define PLAN "{'steps':[{'kernel':'rms','grid':['R'],'block':[128],'args':['x','weight','y','eps']}]}"
#define TRITON "{'signature':{'x':'*DTYPE_io:16','weight':'*fp32','y':'*fp32','eps':'fp32'},'constexprs':{'N':'N'},'num_warps':4}"

static json_t *json_of(const char *text)
{
    cleanup(str) char *copy = xstrdup(text);
    for (char *c = copy; *c; c++)
        *c = *c == '\'' ? '"' : *c;
    json_t *doc = json_loads(copy, 0, NULL);
    if (!doc)
        fprintf(stderr, "not JSON: %s\n", text);
    return doc;
}

static json_t *candidate_of(const char *text, const char *plan, const char *triton)
{
    json_t *doc = json_object();
    json_put_str(doc, "language", "triton");
    json_put_str(doc, "source", text);
    json_put(doc, "plan", json_of(plan ? plan : PLAN));
    json_put(doc, "triton", json_of(triton ? triton : TRITON));
    return doc;
}

static bool judge(json_t *candidate, json_t *baseline, struct judge_result *r, struct err *err)
{
    cleanup(json) json_t *task = json_of("{'shape':{'op':'rmsnorm','axes':{'R':3,'N':256},'dtypes':{'io':'f32'},'target':'sm_90a'},'mode':'triage'}");
    json_put(task, "candidate", candidate);
    json_put(task, "baseline", baseline ? baseline : json_null());
    *r = (struct judge_result){.gpu_ns = 0};
    *err = (struct err){0};
    return judge_run(&config, task, NULL, NULL, NULL, r, err);
}

static void expect(const char *what, json_t *candidate, enum verdict_code code, const char *phase, const char *says)
{
    struct judge_result r;
    struct err err;
    int64_t from_ns = clock_mono_ns();
    bool ok = judge(candidate, NULL, &r, &err);
    bool as_wanted = ok && r.verdict.code == code && (!phase || !strcmp(r.verdict.phase, phase)) && (!says || strstr(r.verdict.text, says));
    if (!as_wanted)
        fprintf(stderr, "%s: %s [%s] %s\n", what, ok ? verdict_name(r.verdict.code) : err.text, ok ? r.verdict.phase : "", ok ? r.verdict.text : "");
    if (!as_wanted && ok && r.verdict.detail)
        fprintf(stderr, "  log: %s\n", json_str(r.verdict.detail, "log", ""));
    check(as_wanted);
    check(clock_mono_ns() - from_ns < (int64_t)60 * 1000000000);
    if (ok)
        judge_result_done(&r);
}

static void test_honest(void)
{
    struct judge_result r;
    struct err err;
    bool ok = judge(candidate_of(source, NULL, NULL), NULL, &r, &err);
    if (!ok || r.verdict.code != VERDICT_OK)
        fprintf(stderr, "honest: %s\n  %s\n", ok ? r.verdict.text : err.text, ok ? json_str(r.verdict.detail, "log", "") : "");
    check(ok);
    if (!ok)
        return;
    check_str(verdict_name(r.verdict.code), "ok");
    const json_t *step = json_array_get(json_object_get(json_object_get(r.certificate, "plan"), "steps"), 0), *args = json_object_get(step, "args");
    check_int(json_int(step, "shared_bytes", -1), 16);
    check_int((int)json_array_size(args), 6);
    check_str(json_string_value(json_array_get(args, 5)), "$null");
    check_int(json_int(json_object_get(r.certificate, "triton"), "hidden", -1), 2);
    check_int(json_int(json_object_get(r.figures, "triton"), "num_warps", -1), 4);
    check_str(json_str(json_object_get(r.certificate, "triton"), "version", ""), "3.6.0");
    check(r.blob_count == 2 && !strstr(buf_cstr(&r.blobs[0].bytes), "/usr/lib/python3"));
    /* As the other side: first compiled for itself, then with the PTX that is known. */
    for (int known = 0; known < 2; known++) {
        struct judge_result other;
        cleanup(json) json_t *task = json_of("{'shape':{'op':'rmsnorm','axes':{'R':3,'N':256},'dtypes':{'io':'f32'},'target':'sm_90a'},'mode':'triage'}");
        json_put(task, "candidate", candidate_of(source, NULL, NULL));
        json_put(task, "baseline", candidate_of(source, NULL, NULL));
        if (known) {
            json_put_str(task, "baseline_ptx", r.blobs[0].bytes.data);
            json_put(task, "baseline_triton", json_incref(json_object_get(r.figures, "triton")));
        }
        ok = judge_run(&config, task, NULL, NULL, NULL, &other, &err);
        if (!ok)
            fprintf(stderr, "as a baseline: %s\n", err.text);
        check(ok);
        if (!ok)
            continue;
        check(verdict_is_correct(other.verdict.code));
        check(fabs(json_num(other.figures, "time_ns", 1) - json_num(other.figures, "baseline_ns", 2)) < 1);
        judge_result_done(&other);
    }
    judge_result_done(&r);
}

/* ---- what a source says ---- */

#define HEAD "import triton, triton.language as tl, os, sys\n"
#define KERNEL "@triton.jit\ndef rms(x, weight, y, eps, N):\n    'none'\n"
static const struct { const char *name, *text, *plan, *triton; enum verdict_code code; const char *phase, *says; } faults[] = {
    {"syntax", HEAD "def rms(:\n", NULL, NULL, VERDICT_COMPILE_ERROR, "compile", "SyntaxError"},
    {"no function", HEAD, NULL, NULL, VERDICT_COMPILE_ERROR, "compile", "no @triton.jit function rms"},
    {"not a kernel", HEAD "def rms(x): pass\n", NULL, NULL, VERDICT_COMPILE_ERROR, "compile", "no @triton.jit function rms"},
    {"an argument too few", HEAD KERNEL, NULL, "{'signature':{'x':'*fp32','weight':'*fp32','y':'*fp32','eps':'fp32'}}", VERDICT_COMPILE_ERROR, "compile", "argument N"},
    {"an argument too many", HEAD KERNEL, NULL, "{'signature':{'x':'*fp32','weight':'*fp32','y':'*fp32','eps':'fp32','N':'i32','M':'i32'}}", VERDICT_COMPILE_ERROR, "compile", "no argument M"},
    {"an unknown type", HEAD KERNEL, NULL, "{'signature':{'x':'*float'}}", VERDICT_REJECTED_PLAN, "admit", "no type"},
    {"a strange hint", HEAD KERNEL, NULL, "{'signature':{'x':'*fp32:8'}}", VERDICT_REJECTED_PLAN, "admit", ":16"},
    {"a bad expression", HEAD KERNEL, NULL, "{'signature':{'x':'*fp32'},'constexprs':{'N':'N/0'}}", VERDICT_REJECTED_PLAN, "admit", "constexprs.N"},
    {"both", HEAD KERNEL, NULL, "{'signature':{'x':'*fp32'},'constexprs':{'x':1}}", VERDICT_REJECTED_PLAN, "admit", "a type and a value"},
    {"warps", HEAD KERNEL, NULL, "{'signature':{'x':'*fp32'},'num_warps':3}", VERDICT_REJECTED_PLAN, "admit", "power of two"},
    {"two kernels", HEAD KERNEL, "{'steps':[{'kernel':'a','grid':[1],'block':[128],'args':[]},{'kernel':'b','grid':[1],'block':[128],'args':[]}]}", NULL, VERDICT_REJECTED_PLAN, "admit", "one kernel"},
    {"no PTX", HEAD KERNEL, NULL, NULL, VERDICT_REJECTED_PLAN, "compile", "arguments of its own"},
    {"another block", "", "{'steps':[{'kernel':'rms','grid':['R'],'block':[64],'args':['x','weight','y','eps']}]}", NULL, VERDICT_REJECTED_PLAN, "compile", "blocks of 128"},
    {"too little shared", "", "{'steps':[{'kernel':'rms','grid':['R'],'block':[128],'shared_bytes':8,'args':['x','weight','y','eps']}]}", NULL, VERDICT_REJECTED_PLAN, "compile", "needs 16"},
    {"scratch", "META['global_scratch_size'] = 128\n", NULL, NULL, VERDICT_REJECTED_PLAN, "compile", "global scratch"},
    {"profile scratch", "META['profile_scratch_size'] = 8\n", NULL, NULL, VERDICT_REJECTED_PLAN, "compile", "profile scratch"},
    {"a cluster", "META['cluster_dims'] = (2, 1, 1)\n", NULL, NULL, VERDICT_REJECTED_PLAN, "compile", "cluster"},
    {"shared beyond a block's", "META['shared'] = 1 << 20\n", NULL, NULL, VERDICT_REJECTED_PLAN, "compile", "shared"},
    {"shared far beyond", "META['shared'] = 1 << 200\n", NULL, NULL, VERDICT_REJECTED_PLAN, "compile", NULL},
    {"negative shared", "META['shared'] = -5\n", NULL, NULL, VERDICT_REJECTED_PLAN, "compile", "shared"},
    {"warps that are none", "META['num_warps'] = 0\n", NULL, NULL, VERDICT_REJECTED_PLAN, "compile", "warps"},
    {"a name with odd characters", "META['name'] = 'rms\\n\\x1b[2J; ret'\n", NULL, NULL, VERDICT_REJECTED_PLAN, "compile", "name"},
    {"a long name", "META['name'] = 'r' * 5000\n", NULL, NULL, VERDICT_REJECTED_PLAN, "compile", "name"},
    {"another name", "META['name'] = 'mss'\n", NULL, NULL, VERDICT_REJECTED_PLAN, NULL, "mss"},
    {"less shared than it uses", "META['shared'] = 0\n", NULL, NULL, VERDICT_OUT_OF_BOUNDS, "emulate", NULL},
};

/* ---- what a source does: each is put after the honest one's text, and must end so ---- */

#define ATTEMPT(code) "try:\n    " code "\nexcept Exception as why:\n    raise SystemExit('refused: ' + type(why).__name__)\nraise SystemExit('it worked')\n"
static const struct { const char *name, *text; enum verdict_code code; const char *says; } attacks[] = {
    {"reads a file", ATTEMPT("open('/etc/passwd').read()"), VERDICT_COMPILE_ERROR, "refused: "},
    {"lists the root's homes", ATTEMPT("os.listdir('/root/.ssh')"), VERDICT_COMPILE_ERROR, "refused: "},
    {"reads processes", ATTEMPT("open('/proc/1/environ').read()"), VERDICT_COMPILE_ERROR, "refused: "},
    {"opens a socket", ATTEMPT("__import__('socket').socket()"), VERDICT_COMPILE_ERROR, "refused: PermissionError"},
    {"opens a local socket", ATTEMPT("__import__('socket').socket(__import__('socket').AF_UNIX)"), VERDICT_COMPILE_ERROR, "refused: PermissionError"},
    {"starts a program", ATTEMPT("__import__('subprocess').run([sys.executable, '-c', ''])"), VERDICT_COMPILE_ERROR, "refused: PermissionError"},
    {"becomes a program", ATTEMPT("os.execv(sys.executable, ['python3', '-c', ''])"), VERDICT_COMPILE_ERROR, "refused: PermissionError"},
    {"forks", ATTEMPT("os.fork()"), VERDICT_COMPILE_ERROR, "refused: PermissionError"},
    {"signals its parent", ATTEMPT("os.kill(os.getppid(), 9)"), VERDICT_COMPILE_ERROR, "refused: PermissionError"},
    {"opens a card", ATTEMPT("open('/dev/nvidiactl')"), VERDICT_COMPILE_ERROR, "refused: "},
    {"writes where packages are", ATTEMPT("open(triton.__file__, 'a')"), VERDICT_COMPILE_ERROR, "refused: "},
    {"writes beside its folder", ATTEMPT("open('/tmp/proteus-triton-was-here', 'w')\n    raise OSError() if os.getcwd().startswith('/tmp/') and not os.path.exists('/usr/bin/env') else 0"), VERDICT_COMPILE_ERROR, "refused: "},
    {"sees the environment", "raise SystemExit('refused: ' + ' '.join(sorted(os.environ)) if 'PROTEUS_SECRET' not in os.environ else 'it worked')\n", VERDICT_COMPILE_ERROR, "refused: "},
    {"prints without end", "while True: print('x' * 100000)\n", VERDICT_COMPILE_ERROR, NULL},
    {"never ends", "while True: pass\n", VERDICT_TIMEOUT, "did not end"},
    {"sleeps", "import time\ntime.sleep(10000)\n", VERDICT_TIMEOUT, "did not end"},
    {"ignores the limit", "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass\n", VERDICT_TIMEOUT, "did not end"},
    {"eats memory", "a = bytearray(1 << 36)\n", VERDICT_COMPILE_ERROR, "MemoryError"},
    {"crashes", "import ctypes\nctypes.string_at(0)\n", VERDICT_COMPILE_ERROR, "crash"},
    {"ends well without work", "sys.stdout.flush()\nos._exit(0)\n", VERDICT_COMPILE_ERROR, "without a reason"},
    {"leaves a pipe for an answer", "os.mkfifo('kernel.ptx')\nos._exit(0)\n", VERDICT_COMPILE_ERROR, NULL},
    {"leaves a link for an answer", "os.symlink('driver.py', 'kernel.ptx')\nos._exit(0)\n", VERDICT_COMPILE_ERROR, NULL},
    {"leaves a pipe for a log", "os.unlink('log')\nos.mkfifo('log')\nos._exit(1)\n", VERDICT_COMPILE_ERROR, NULL},
    {"leaves too much PTX", "open('kernel.ptx', 'w').write('/' * (9 << 20))\nos._exit(0)\n", VERDICT_RESOURCE_LIMIT, "of PTX"},
    {"leaves too much metadata", "open('kernel.ptx', 'w').write('x')\nopen('made.json', 'w').write('[' * (1 << 20))\nos._exit(0)\n", VERDICT_REJECTED_PLAN, NULL},
    {"leaves deep metadata", "open('kernel.ptx', 'w').write('x')\nopen('made.json', 'w').write('[' * 16000)\nos._exit(0)\n", VERDICT_REJECTED_PLAN, NULL},
    {"leaves bytes for PTX", "open('kernel.ptx', 'wb').write(bytes(range(256)))\nopen('made.json', 'w').write('{}')\nos._exit(0)\n", VERDICT_COMPILE_ERROR, "no text"},
    {"says the fault is the host's", "print('?!? the host: Triton cannot be imported')\nsys.stdout.flush()\nos._exit(2)\n", VERDICT_COMPILE_ERROR, NULL},
    {"leaves PTX that is not its own", "open('kernel.ptx', 'w').write('.version 8.6\\n.target sm_90a\\n.address_size 64\\n.visible .entry rms()\\n{\\ntrap;\\n}\\n')\n"
     "open('made.json', 'w').write('{\"name\":\"rms\",\"num_warps\":4,\"shared\":0,\"hidden\":0,\"global_scratch_size\":0,\"profile_scratch_size\":0,"
     "\"tmem_size\":0,\"clusters\":1}')\nos._exit(0)\n", VERDICT_REJECTED_PLAN, NULL},
};

#define COUNT(list) (sizeof list / sizeof *list)
enum { WORKERS = 4 };

static void run_row(size_t i)
{
    if (i < COUNT(attacks)) {
        cleanup(str) char *text = xfmt("%s\nimport os, sys\n%s", source, attacks[i].text);
        expect(attacks[i].name, candidate_of(text, NULL, NULL), attacks[i].code, NULL, attacks[i].says);
        return;
    }
    i -= COUNT(attacks);
    bool own = strncmp(faults[i].text, HEAD, sizeof HEAD - 1) == 0;
    cleanup(str) char *text = own ? xstrdup(faults[i].text) : xfmt("%s\n%s", source, faults[i].text);
    expect(faults[i].name, candidate_of(text, faults[i].plan, faults[i].triton), faults[i].code, faults[i].phase, faults[i].says);
}

/* A judgement mostly waits, for processes to come up and for limits: some at a time. */
static void test_rows(void)
{
    pid_t workers[WORKERS];
    setenv("PROTEUS_SECRET", "1", 1);
    fflush(NULL);
    for (int w = 0; w < WORKERS; w++) {
        workers[w] = fork();
        if (workers[w] != 0)
            continue;
        for (size_t i = (size_t)w; i < COUNT(attacks) + COUNT(faults); i += WORKERS)
            run_row(i);
        fflush(NULL);
        _exit(test_done());
    }
    for (int w = 0; w < WORKERS; w++) {
        int status = -1;
        check(workers[w] > 0 && waitpid(workers[w], &status, 0) == workers[w] && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    check(access("/tmp/proteus-triton-was-here", F_OK) != 0);
}

/* ---- a host that has none ---- */

static void test_missing(const char *dir)
{
    struct python_paths paths;
    struct judge_result r;
    struct err err = {0};
    const char *kept = config.python;
    cleanup(str) char *printer = xfmt("%s/printer", dir);
    check(!python_find("/nonexistent/python", &paths, &err) && err.code == ERR_UNAVAILABLE && strstr(err.text, "no Triton on this host"));
    check(file_write(printer, "#!/bin/sh\necho '{\"program\":\"/bin/sh\",\"version\":\"3.11.7\",\"triton\":null,\"paths\":[]}'\n", 82, 0755, &err));
    check(!python_find(printer, &paths, &err) && err.code == ERR_UNAVAILABLE && strstr(err.text, "has no module triton"));
    check(file_write(printer, "#!/bin/sh\nexec head -c 999999 /dev/zero\n", 40, 0755, &err));
    check(!python_find(printer, &paths, &err) && err.code == ERR_UNAVAILABLE);
    config.python = "/nonexistent/python";
    check(!judge(candidate_of(source, NULL, NULL), NULL, &r, &err) && err.code == ERR_UNAVAILABLE && strstr(err.text, "no Triton on this host"));
    config.python = kept;
}

/* A Triton that does not come up is the host's fault as well. */
static void test_broken(const char *dir)
{
    struct judge_result r;
    struct err err;
    cleanup(str) char *broken = xfmt("echo 'raise ImportError(\"no libtriton\")' > \"$(echo '%s'/lib/python3*/site-packages/triton/language/__init__.py)\"", dir);
    check(system(broken) == 0);
    bool ok = judge(candidate_of(source, NULL, NULL), NULL, &r, &err);
    if (ok || !strstr(err.text, "no libtriton"))
        fprintf(stderr, "broken: %s\n", ok ? r.verdict.text : err.text);
    check(!ok && err.code == ERR_UNAVAILABLE && strstr(err.text, "no libtriton"));
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "child") == 0)
        return child_main(argc, argv, NULL);
    char dir[] = "/tmp/proteus-test-triton-XXXXXX", program[480];
    struct err err = {0};
    struct toolkit_paths toolkit;
    hash_init();
    if (!toolkit_find(NULL, &toolkit, &err))
        test_skip(err.text);
    check(argc > 2 && op_set_load(argv[1], &ops, &err));
    cleanup(str) char *path = xfmt("%s/rms.py", argv[2]), *remove = xfmt("rm -rf '%s'", dir);
    cleanup(buf) struct buf text = {0};
    check(file_read(path, 1 << 20, &text, &err));
    source = xstrdup(buf_cstr(&text));
    if (!make_environment(argv[2], dir, program, sizeof program)) {
        test_skip("no python3 on this host");
    }
    free(remove);
    remove = xfmt("rm -rf '%s'", dir);
    config.python = program;
    test_honest();
    test_rows();
    test_missing(dir);
    test_broken(dir);
    check(system(remove) == 0);
    free(source);
    op_set_done(&ops);
    return test_done();
}
