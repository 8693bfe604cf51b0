/* Which line of a compiler's log says why: an error, though warnings that speak of errors come first. */
#include "gpu/judge/compile_log.h"
#include "tests/test.h"

int main(void)
{
    static const struct { const char *log, *line; } rows[] = {
        {"k.cu(3): error: identifier \"x\" is undefined\n", "k.cu(3): error: identifier \"x\" is undefined"},
        {"k.cu(2): warning #177-D: variable \"error\" was declared but never referenced\n  float error = 0;\n        ^\n\nk.cu(9): error: expected a \";\"\n",
         "k.cu(9): error: expected a \";\""},
        {"k.cu(2): warning #20-D: error: is what this macro prints\nk.cu(4): error #20: identifier \"y\" is undefined\n", "k.cu(4): error #20: identifier \"y\" is undefined"},
        {"k.cu(1): catastrophic error: cannot open source file \"a.h\"\n", "k.cu(1): catastrophic error: cannot open source file \"a.h\""},
        {"ptxas application ptx input, line 20; warning : error handling is off\nptxas application ptx input, line 21; error   : Unknown symbol 'r'\nptxas fatal   : aborted\n",
         "ptxas application ptx input, line 21; error   : Unknown symbol 'r'"},
        {"error: too many registers\n", "error: too many registers"},
        {"  int error_count;\nremark: error: none\nk.cu(7): error: real\n", "k.cu(7): error: real"},
        {"k.cu(2): warning #1-D: x\nout of memory\n", "out of memory"},
        {"", ""},
        {"\n\n", ""},
    };
    char to[300], small[10];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        compile_log_first_error(rows[i].log, to, sizeof to);
        check_str(to, rows[i].line);
    }
    compile_log_first_error("error: \xc3\xa4\xc3\xa4\xc3\xa4", small, sizeof small);
    check_str(small, "error: \xc3\xa4");
    return test_done();
}
